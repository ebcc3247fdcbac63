"""The Robots Exclusion Protocol for Scrapy, all of it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from scrapy_rep.protocol.agents import product_tokens
from scrapy_rep.protocol.dialect import CLASSIC, GOOGLE, RFC9309, Dialect
from scrapy_rep.protocol.robotstxt import Decision, Reason, RobotsTxt
from scrapy_rep.protocol.rules import Rule

if TYPE_CHECKING:
    from scrapy_rep.addon import Addon
    from scrapy_rep.exceptions import RobotsDenied
    from scrapy_rep.protocol.findings import Finding
    from scrapy_rep.robotparser import RobotParser

__all__ = [
    "CLASSIC",
    "GOOGLE",
    "RFC9309",
    "Addon",
    "Decision",
    "Dialect",
    "Finding",
    "Reason",
    "RobotParser",
    "RobotsDenied",
    "RobotsTxt",
    "Rule",
    "product_tokens",
]

# These are loaded when they are asked for. All but Finding, which few need, need Scrapy,
# which a user of the protocol alone need not load.
_WHEN_ASKED_FOR = {
    "Addon": "scrapy_rep.addon",
    "Finding": "scrapy_rep.protocol.findings",
    "RobotParser": "scrapy_rep.robotparser",
    "RobotsDenied": "scrapy_rep.exceptions",
}


def __getattr__(name: str) -> object:
    if name in _WHEN_ASKED_FOR:
        return getattr(import_module(_WHEN_ASKED_FOR[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
