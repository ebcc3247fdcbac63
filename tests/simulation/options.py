"""The options of a run of the simulation. They are environment variables, so that child processes inherit them."""

from __future__ import annotations

import json
import os
from typing import Any

_KINDS = "SIMULATION_KINDS"
_SETTINGS = "SIMULATION_SETTINGS"


def chosen_kinds() -> frozenset[str]:
    """Return the kinds of worlds to run, for example ``{"plain", "job"}``.

    They are the words in the environment variable ``SIMULATION_KINDS``, which ``--kinds`` sets. By default, all kinds
    are run: ``plain``, ``job`` and ``workers``.
    """
    return frozenset(os.environ.get(_KINDS, "plain job workers").split())


def chosen_settings() -> dict[str, Any]:
    """Return the Scrapy settings that all crawls get in addition to those that are drawn from the seed."""
    settings = json.loads(os.environ.get(_SETTINGS, "{}"))
    assert isinstance(settings, dict)
    return settings


def set_options(*, kinds: list[str] | None, settings: str) -> None:
    """Set the options for this process and for its child processes.

    *settings* is a JSON object. If *kinds* or *settings* is empty or None, the value of that option is not changed.
    """
    if kinds:
        os.environ[_KINDS] = " ".join(kinds)
    if settings:
        os.environ[_SETTINGS] = settings
