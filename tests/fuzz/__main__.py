"""Runs a fuzz target with atheris, whose coverage guides the inputs:

    python -m tests.fuzz robotstxt -max_total_time=1200 [FOLDER]

The arguments after the target are those of libFuzzer. It keeps inputs that reach new code in
FOLDER, and writes the first one that fails to a file.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from tempfile import mkdtemp

# The longest input. Repeated lines do the rest.
LONGEST = 4_096


def main(name: str, *options: str) -> None:
    import atheris  # noqa: PLC0415

    with atheris.instrument_imports(["scrapy_rep"], enable_loader_override=False):
        package = import_module("scrapy_rep")
        # Also modules that are imported late.
        for module in walk_packages(package.__path__, "scrapy_rep."):
            import_module(module.name)
    target = import_module("tests.fuzz.targets").TARGETS[name]
    seeds = Path(__file__).with_name("seeds") / name
    limits = [f"-max_len={LONGEST}", "-timeout=1200", "-rss_limit_mb=2048"]
    atheris.Setup([sys.argv[0], *limits, *options, mkdtemp(), str(seeds)], target)
    atheris.Fuzz()


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(*sys.argv[1:])
