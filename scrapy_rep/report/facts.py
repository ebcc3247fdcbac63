"""Reads from the robots.txt files in ledgers what the views of a report can't."""

from __future__ import annotations

import re
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from scrapy_rep.protocol.agents import product_tokens
from scrapy_rep.protocol.crawlers import CRAWLERS
from scrapy_rep.protocol.dialect import DIALECTS, RFC9309
from scrapy_rep.protocol.robots import RobotsTxt

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator

    from scrapy_rep.protocol.crawlers import Crawler
    from scrapy_rep.protocol.dialect import Dialect

_AI = {token: crawler for token, crawler in CRAWLERS.items() if crawler.is_ai}
_MAY_NAME = re.compile("|".join(map(re.escape, _AI)).encode(), re.IGNORECASE).search
_MAY_SLOW = re.compile(rb"crawl-delay|request-rate", re.IGNORECASE).search
"""Fast checks that rule out most files."""

_EVERYTHING = frozenset({"/", "*", "/*"})
"""Patterns that match each path."""


def note_facts(
    database: sqlite3.Connection,
    crawl_of: Callable[[sqlite3.Row], dict[str, Any] | None],
    body_of: Callable[[int, str], bytes | None],
) -> None:
    """Fill the tables ``asked`` and ``named`` from the latest robots.txt of each host."""
    latest = database.execute(
        "SELECT origin, ledger, crawl, sha256 FROM latest WHERE sha256 IS NOT NULL"
        " ORDER BY ledger, sha256"
    )
    # Many hosts have the same file.
    for file, hosts in groupby(latest, itemgetter("ledger", "sha256")):
        body = body_of(*file) or b""
        named = list(_named(body))
        delays: dict[int, float | None] = {}
        for host in hosts:
            crawl = crawl_of(host)
            if crawl is not None and _MAY_SLOW(body):
                if host["crawl"] not in delays:
                    delays[host["crawl"]] = _delay(body, crawl)
                row = host["origin"], delays[host["crawl"]]
                database.execute("INSERT INTO asked VALUES (?, ?)", row)
            for crawler, forbids, line in named:
                name = host["origin"], *crawler[:3], forbids, line
                database.execute("INSERT INTO named VALUES (?, ?, ?, ?, ?, ?)", name)


def _delay(body: bytes, crawl: dict[str, Any]) -> float | None:
    """Return the delay that a robots.txt asks *crawl* for, in seconds."""
    dialect = DIALECTS.get(crawl["dialect"], RFC9309)
    robots = RobotsTxt.parse(body, dialect)
    agents = crawl["agents"] or product_tokens(crawl["user_agent"])
    delays = [robots.crawl_delay(agents)]
    rate = robots.request_rate(agents) if dialect.crawl_delay else None
    if rate:
        delays.append(rate.seconds / rate.requests)
    return max((delay for delay in delays if delay), default=None)


def _named(body: bytes) -> Iterator[tuple[Crawler, str, int]]:
    """Yield each AI crawler that a robots.txt names, what it forbids it, and the line that names
    it first.
    """
    if not _MAY_NAME(body):
        return
    groups: dict[Dialect, Any] = {}
    for token, crawler in _AI.items():
        if crawler.dialect not in groups:
            groups[crawler.dialect] = RobotsTxt.parse(body, crawler.dialect).groups
        ours = [group for group in groups[crawler.dialect] if token in group.agents]
        if ours:
            line = ours[0].lines[ours[0].agents.index(token)]
            rules = [rule for group in ours for rule in group.rules if rule.pattern]
            allowed = {rule.pattern for rule in rules if rule.kind == "allow"}
            forbidden = {rule.pattern for rule in rules if rule.kind == "disallow"}
            yield crawler, _forbids(forbidden, allowed), line


def _forbids(forbidden: set[str], allowed: set[str]) -> str:
    """Say what is forbidden by the patterns of rules. An equal one that allows wins."""
    is_all = forbidden & _EVERYTHING and not allowed & _EVERYTHING
    if is_all:
        return "everything but exceptions" if allowed else "everything"
    return "some paths" if forbidden - _EVERYTHING else "nothing"
