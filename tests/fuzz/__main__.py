"""Run a fuzz target for a long time: ``python -m tests.fuzz decide --minutes 20``."""

from __future__ import annotations

import argparse
import sys
import time
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

# The longest input that libFuzzer makes. Repeated lines (see inputs.py) do the rest.
_LONGEST = 4_096

# The packages that parse text of others.
_READERS = ("protocol", "stores", "ledger", "report", "commands")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("target", help="one of those in targets.py")
    parser.add_argument(
        "--minutes", type=float, default=20, help="for how long (default: %(default)s)"
    )
    parser.add_argument(
        "--corpus", help="a folder to keep the inputs in that reach new code"
    )
    parser.add_argument("--input", help="a file: try nothing but this")
    arguments = parser.parse_args()
    name, seconds = arguments.target, round(arguments.minutes * 60)
    if arguments.input:
        _target(name)(Path(arguments.input).read_bytes())
        return 0
    try:
        import atheris  # noqa: F401, PLC0415
    except ImportError:
        print("atheris is not installed: inputs are made without regard to coverage")
        _run_without_coverage(name, seconds)
        return 0
    with TemporaryDirectory() as folder:
        return _run_guided(name, seconds, arguments.corpus or folder)


def _target(name: str) -> Callable[[bytes], None]:
    targets = import_module("tests.fuzz.targets").TARGETS
    if name not in targets:
        raise SystemExit(f"There is no target {name!r}; there are {', '.join(targets)}")
    return targets[name]


def _run_guided(name: str, seconds: int, corpus: str) -> int:
    import atheris  # noqa: PLC0415

    with atheris.instrument_imports(
        include=["scrapy_rep"], enable_loader_override=False
    ):
        # Also modules that are imported late.
        for name_of_package in _READERS:
            package = import_module(f"scrapy_rep.{name_of_package}")
            for module in walk_packages(package.__path__, f"{package.__name__}."):
                import_module(module.name)
        target = _target(name)
    seeds = Path(__file__).with_name("seeds") / name
    options = [f"-max_total_time={seconds}", f"-max_len={_LONGEST}", "-timeout=1200",
               "-rss_limit_mb=2048", "-print_final_stats=1", "-verbosity=1"]  # fmt: skip
    atheris.Setup([sys.argv[0], *options, corpus, str(seeds)], target)
    atheris.Fuzz()
    return 0


def _run_without_coverage(name: str, seconds: float) -> None:
    from hypothesis import HealthCheck, given, settings  # noqa: PLC0415

    from tests.fuzz.targets import inputs  # noqa: PLC0415

    run = settings(
        max_examples=1_000, deadline=None, suppress_health_check=list(HealthCheck),
        database=None,
    )(given(inputs(name))(_target(name)))  # fmt: skip
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        run()


if __name__ == "__main__":
    sys.exit(main())
