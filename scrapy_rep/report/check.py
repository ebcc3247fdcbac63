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
    from scrapy_rep.report.scratch import Scratch

EXAMPLES = 10

_CUT = "…"
"""The end of a URL that was cut for the ledger."""

# Sorted so that each robots.txt is parsed once.
_LET_THROUGH = """
SELECT c.dialect, s.sha256, d.agent, d.url
FROM decision AS d
JOIN snapshot AS s ON s.id = d.snapshot
JOIN crawl AS c ON c.id = d.crawl
WHERE d.verdict = 'allowed' AND d.layer = 'robots.txt'
AND s.sha256 IS NOT NULL
ORDER BY s.sha256, c.dialect
"""


@dataclass(slots=True)
class Check:
    """The result of checking again the requests that a robots.txt let through."""

    checked: int = 0
    forbidden: int = 0

    unchecked: int = 0
    """Requests with a custom dialect, or a URL that was cut for the ledger."""

    examples: tuple[str, ...] = ()
    """A few forbidden URLs that were let through."""


def check(scratch: Scratch) -> Check:
    """Check each request that a robots.txt let through."""
    found = Check()
    for number, (_, ledger) in enumerate(scratch.ledgers):
        rows = ledger.execute(_LET_THROUGH)
        for (dialect, sha256), requests in groupby(rows, itemgetter(0, 1)):
            body = scratch.body(number, sha256)
            robots = None
            if body is not None and dialect in DIALECTS:
                robots = RobotsTxt.parse(body, DIALECTS[dialect])
            for *_, agent, url in requests:
                if robots is None or url.endswith(_CUT):
                    found.unchecked += 1
                    continue
                found.checked += 1
                if not is_allowed(robots, url, agent or "*"):
                    found.forbidden += 1
                    if len(found.examples) < EXAMPLES:
                        found.examples += (url,)
    return found
