"""Checks again whether the requests that a crawl let through were allowed.

A ledger has each robots.txt that decided, the agent whose group was followed, and the URL.
So the report does not have to trust the decisions of the crawl.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from scrapy_rep.protocol.dialect import DIALECTS
from scrapy_rep.protocol.request_target import is_allowed
from scrapy_rep.protocol.robots import RobotsTxt

if TYPE_CHECKING:
    from scrapy_rep.report.ledgers import Ledgers

EXAMPLES = 10

_CUT = "…"
"""The end of a URL that was cut for the ledger."""


@dataclass(slots=True)
class Check:
    """The result of checking again the requests that a robots.txt let through."""

    checked: int = 0
    forbidden: int = 0

    unchecked: int = 0
    """Requests with a custom dialect, or a URL that was cut for the ledger."""

    examples: tuple[str, ...] = ()
    """A few forbidden URLs that were let through."""


def check(ledgers: Ledgers) -> Check:
    """Check each request that a robots.txt let through."""
    found = Check()
    for file, requests in groupby(ledgers.view("to_check"), itemgetter(0, 1)):
        body = ledgers.body(*file)
        parsed: dict[str, RobotsTxt | None] = {}
        for row in requests:
            crawl = ledgers.crawl_of(row)
            if crawl is None:
                continue
            dialect, url = crawl["dialect"], row["url"]
            if dialect not in parsed:
                parsed[dialect] = None
                if body is not None and dialect in DIALECTS:
                    parsed[dialect] = RobotsTxt.parse(body, DIALECTS[dialect])
            robots = parsed[dialect]
            if robots is None or url.endswith(_CUT):
                found.unchecked += 1
                continue
            found.checked += 1
            if not is_allowed(robots, url, row["agent"] or "*"):
                found.forbidden += 1
                if len(found.examples) < EXAMPLES:
                    found.examples += (url,)
    return found
