"""The example project, and an environment in which it runs."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = ROOT / "example_project"


def environment() -> dict[str, str]:
    """Return this environment with the package on its path, without variables that select
    another project or measure coverage, as other tests cover the same code.
    """
    left_out = ("SCRAPY", "COVERAGE")
    kept = {
        name: value
        for name, value in os.environ.items()
        if not any(word in name for word in left_out)
    }
    paths = [str(ROOT), *filter(None, [kept.get("PYTHONPATH")])]
    return kept | {"PYTHONPATH": os.pathsep.join(paths)}
