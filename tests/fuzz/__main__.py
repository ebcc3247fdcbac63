"""Runs a fuzz target with atheris, which generates inputs to reach code that is not covered yet::

    python -m tests.fuzz robotstxt -max_total_time=1200 [FOLDER]

The arguments after the name of the target are those of libFuzzer. libFuzzer stores inputs that reach new
code in FOLDER. It writes the first input for which the target fails to a file, and stops.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from tempfile import mkdtemp

# The maximum length of an input. Longer inputs are not necessary, because a line can say that it is
# repeated (see targets.py).
MAX_LENGTH = 4_096


def main(name: str, *options: str) -> None:
    import atheris  # noqa: PLC0415

    with atheris.instrument_imports(["scrapy_rep"], enable_loader_override=False):
        package = import_module("scrapy_rep")
        # Modules that are otherwise imported later must be instrumented, too.
        for module in walk_packages(package.__path__, "scrapy_rep."):
            import_module(module.name)
    target = import_module("tests.fuzz.targets").TARGETS[name]
    seeds = Path(__file__).with_name("seeds") / name
    limits = [f"-max_len={MAX_LENGTH}", "-timeout=1200", "-rss_limit_mb=2048"]
    atheris.Setup([sys.argv[0], *limits, *options, mkdtemp(), str(seeds)], target)
    atheris.Fuzz()


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(*sys.argv[1:])
