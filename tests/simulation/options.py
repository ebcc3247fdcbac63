"""The options of a run of the simulation, in the environment, which its processes inherit."""

from __future__ import annotations

import json
import os
from typing import Any

_KINDS = "SIMULATION_KINDS"
_SETTINGS = "SIMULATION_SETTINGS"


def chosen_kinds() -> frozenset[str]:
    """The kinds of worlds to run; seeds of other kinds are skipped."""
    return frozenset(os.environ.get(_KINDS, "plain job workers").split())


def chosen_settings() -> dict[str, Any]:
    """Settings of Scrapy that all crawls have in addition, as a JSON object."""
    loaded = json.loads(os.environ.get(_SETTINGS, "{}"))
    assert isinstance(loaded, dict)
    return loaded


def set_options(*, kinds: list[str] | None, settings: str) -> None:
    """Set the options, for this process and for those that it starts. An empty option stays as it is."""
    if kinds:
        os.environ[_KINDS] = " ".join(kinds)
    if settings:
        os.environ[_SETTINGS] = settings
