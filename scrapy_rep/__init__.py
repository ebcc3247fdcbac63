"""The whole Robots Exclusion Protocol for Scrapy: robots.txt, indexing rules, usage preferences, crawl delays."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy_rep.base import __version__ as __version__
    from scrapy_rep.crawl.addon import Addon
    from scrapy_rep.crawl.fetching.robotparser import RobotParser
    from scrapy_rep.crawl.fetching.store import Store
    from scrapy_rep.crawl.frontier.backoff import back_off
    from scrapy_rep.crawl.frontier.scheduler import Scheduler
    from scrapy_rep.crawl.pages.stated import indexing_rules, usage_preferences
    from scrapy_rep.exceptions import FileDenied, ItemDenied, RobotsDenied, UsageDenied
    from scrapy_rep.protocol.agents import product_tokens
    from scrapy_rep.protocol.dialect import CLASSIC, GOOGLE, RFC9309, Dialect
    from scrapy_rep.protocol.indexing.rules import IndexingRules
    from scrapy_rep.protocol.linter import Finding, lint
    from scrapy_rep.protocol.robots import RobotsTxt
    from scrapy_rep.protocol.robotstxt.rules import Decision, Reason, Rule
    from scrapy_rep.protocol.usage.preferences import UsagePreferences
    from scrapy_rep.record import Record

__all__ = [
    "CLASSIC",
    "GOOGLE",
    "RFC9309",
    "Addon",
    "Decision",
    "Dialect",
    "FileDenied",
    "Finding",
    "IndexingRules",
    "ItemDenied",
    "Reason",
    "Record",
    "RobotParser",
    "RobotsDenied",
    "RobotsTxt",
    "Rule",
    "Scheduler",
    "Store",
    "UsageDenied",
    "UsagePreferences",
    "back_off",
    "indexing_rules",
    "lint",
    "product_tokens",
    "usage_preferences",
]

# The module of each public name. A name is imported on first access (see __getattr__). So a program that uses only the
# parser and the other names from ``protocol`` does not load Scrapy. Likewise, the `scrapy` command, which imports this
# package at each start, does not load the rest of the package.
_MODULES = {
    "CLASSIC": "protocol.dialect",
    "GOOGLE": "protocol.dialect",
    "RFC9309": "protocol.dialect",
    "Addon": "crawl.addon",
    "Decision": "protocol.robotstxt.rules",
    "Dialect": "protocol.dialect",
    "FileDenied": "exceptions",
    "Finding": "protocol.linter",
    "IndexingRules": "protocol.indexing.rules",
    "ItemDenied": "exceptions",
    "Reason": "protocol.robotstxt.rules",
    "Record": "record",
    "RobotParser": "crawl.fetching.robotparser",
    "RobotsDenied": "exceptions",
    "RobotsTxt": "protocol.robots",
    "Rule": "protocol.robotstxt.rules",
    "Scheduler": "crawl.frontier.scheduler",
    "Store": "crawl.fetching.store",
    "UsageDenied": "exceptions",
    "UsagePreferences": "protocol.usage.preferences",
    "back_off": "crawl.frontier.backoff",
    "indexing_rules": "crawl.pages.stated",
    "lint": "protocol.linter",
    "product_tokens": "protocol.agents",
    "usage_preferences": "crawl.pages.stated",
    "__version__": "base",
}


def __getattr__(name: str) -> object:
    if name in _MODULES:
        value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
