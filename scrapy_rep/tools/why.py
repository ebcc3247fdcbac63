"""``scrapy rep why``: everything that ledgers have on a URL or a host."""

from __future__ import annotations

from contextlib import ExitStack, closing
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from scrapy.exceptions import UsageError

from scrapy_rep.base.record import url_text
from scrapy_rep.protocol.dialect import DIALECTS, RFC9309
from scrapy_rep.protocol.origins import origin_of, written_origin
from scrapy_rep.protocol.robotstxt.paths import target
from scrapy_rep.tools.inputs import LedgerFile, is_url, parse_url, why
from scrapy_rep.tools.output import CLEAN, EXCERPT, FOUND, UNKNOWN, Output
from scrapy_rep.tools.report.answers import iso_time

if TYPE_CHECKING:
    import sqlite3
    from argparse import Namespace
    from collections.abc import Callable, Sequence

    from scrapy.settings import Settings

    from scrapy_rep.protocol.origins import Origin

# The columns of a decision that are shown as they are.
_SHOWN = (
    "subject", "verdict", "layer", "reason", "url", "origin", "page", "agent", "line",
    "statement", "form", "source", "via",
)  # fmt: skip

_WITHHELD = ("refused", "dropped", "would-refuse", "would-drop")
"""The verdicts that withhold something."""

# Decisions that are alike in these columns are shown as one: on a host, and on a URL.
_ALIKE = "crawl, origin, snapshot, line, verdict, reason, layer, subject, agent, statement, source"
_ALIKE_ON_URL = f"{_ALIKE}, url, page, form, via"

# "is_own" is false for what was decided about a link, an item or a file on the page. The first
# conditions are faster than is_asked().
_FOUND = """
    SELECT max(is_own) AS is_own, count(*) AS times, max(time) AS last, min(id) AS id,
           min(time) AS time, count(*) OVER () AS groups, sum(count(*)) OVER () AS total
    FROM (
        SELECT *, is_asked(url, origin) OR is_asked(form, origin) OR url = :text AS is_own
        FROM decision WHERE instr(origin, :host) OR instr(lower(page), :host)
    )
    WHERE is_own OR is_asked(page, NULL)
    GROUP BY {alike} ORDER BY is_own DESC, times DESC, last DESC LIMIT :limit
"""
_ROW = "SELECT * FROM decision WHERE id = :id"
_SNAPSHOTS = """
    SELECT id, count(*) OVER () AS number FROM snapshot
    WHERE is_asked(url, origin) AND NOT :is_url
    ORDER BY fetched DESC LIMIT :limit
"""

_ROWS = (
    "{asked:bold}: {found:=decision}",
    (
        "decisions",
        (
            "",
            "{time}  {verdict:word}  {url:bold}",
            "  the first of {times} like it, the last at {last}",
            "  {why} ({layer})",
            "  for {agent}",
            "  subject: {subject}, page: {page}",
            "  stated in {source}",
            "  requested via {via}",
            "  crawl {crawl} of {ledger}",
            "  robots.txt {robotstxt} below",
            EXCERPT,
        ),
    ),
    (
        "robotstxts",
        (
            "",
            "robots.txt {number}: {url:bold}",
            "  fetched {access[fetched]}: {access[why]}",
            "  in its place, the copy of {copy_of} was followed",
            ("headers", ("  {item[0]}: {item[1]}",)),
            "  {bytes} bytes, sha256 {sha256}",
        ),
    ),
    (
        "crawls",
        ("", "crawl {crawl} of {ledger}: {spider}, as {agents}, dialect {dialect}"),
    ),
    "Decisions left out (--limit): {left_out[decisions]:some}, in groups: {left_out[groups]}",
    "Earlier robots.txt files left out (--limit): {left_out[robotstxts]:some}",
    "Recorded only what was refused (REP_LEDGER_LEVEL): {only_refusals}",
)


def run(arguments: Namespace, settings: Settings) -> int:
    if arguments.limit < 1:
        raise UsageError("--limit must be 1 or greater")
    asked = asked_about(arguments.asked)
    with ExitStack() as opened:
        ledgers = [
            opened.enter_context(closing(LedgerFile(path)))
            for path in dict.fromkeys(arguments.ledgers)
        ]
        record = _Answer(asked, ledgers, arguments.limit).record
    Output(arguments).show(record, _ROWS)
    verdicts = {each["verdict"] for each in record["decisions"]}
    if not verdicts.isdisjoint(_WITHHELD):
        return FOUND
    return CLEAN if verdicts or record["robotstxts"] else UNKNOWN


class Question(NamedTuple):
    """The URL or the host that was asked about."""

    text: str
    """As written, but without user name and password."""

    is_url: bool

    host: str
    """Empty for a URL whose host cannot be read."""

    matches: Callable[[str | None, str | None], bool]
    """Says whether a URL is asked about. It takes the URL, and its origin as the ledger has it;
    None for the URL of a page, for which only a URL can ask."""


def asked_about(text: str) -> Question:
    """Read a URL, or a host. Raises UsageError for what is neither."""
    text = text.strip()
    has_scheme = is_url(text)
    found = parse_url(text if has_scheme else f"http://{text}")
    if found is None or found.origin is None:
        if has_scheme:
            return Question(url_text(text), True, "", lambda url, origin: False)
        raise UsageError(f"{text!r} is neither a URL nor a host")
    asked, parts = found.origin, urlsplit(found.url)
    host, has_port = asked.host.rstrip("."), has_scheme or parts.port is not None
    path = target(found.url, RFC9309) if parts.path or parts.query else None

    def is_at(origin: Origin | None) -> bool:
        """Whether *origin*, or the virtual host that it names, is the one asked about."""
        return origin is not None and any(
            each.host.rstrip(".") == host
            and (each.scheme == asked.scheme or not has_scheme)
            and (each.port == asked.port or not has_port)
            for each in (origin, origin.named)
        )

    is_written = lru_cache(maxsize=4096)(lambda origin: is_at(written_origin(origin)))

    def matches(url: str | None, origin: str | None) -> bool:
        if url is None or (path is not None and target(url, RFC9309) != path):
            return False
        if origin is not None:
            return is_written(origin)
        return path is not None and is_at(origin_of(url))

    return Question(url_text(text), path is not None, host, matches)


class _Answer:
    """What several ledgers have, as a JSON object."""

    def __init__(
        self, asked: Question, ledgers: Sequence[LedgerFile], limit: int
    ) -> None:
        self._crawls: dict[tuple[str, int], dict[str, Any]] = {}
        self._robotstxts: dict[tuple[str, int], dict[str, Any]] = {}
        values = {
            "text": asked.text, "host": asked.host, "is_url": asked.is_url, "limit": limit
        }  # fmt: skip
        sql = _FOUND.format(alike=_ALIKE_ON_URL if asked.is_url else _ALIKE)
        found: list[tuple[LedgerFile, sqlite3.Row]] = []
        newest: list[tuple[LedgerFile, sqlite3.Row]] = []
        for ledger in ledgers:
            ledger.connection.create_function("is_asked", 2, asked.matches)
            found += [(ledger, row) for row in ledger.rows(sql, **values)]
            newest += [(ledger, row) for row in ledger.rows(_SNAPSHOTS, **values)]
        total, groups = _sum(found, "total"), _sum(found, "groups")
        found.sort(key=lambda each: tuple(each[1])[:3], reverse=True)
        del found[limit:]
        left_out = total - sum(row["times"] for _, row in found)
        found.sort(key=lambda each: (each[1]["time"], each[1]["id"]))
        decisions = [self._decision(*each) for each in found]
        for ledger, row in newest:
            if len(self._robotstxts) < limit:
                self._robotstxt(ledger, row["id"])
        files = _sum(newest, "number") - len(self._robotstxts)
        self.record: dict[str, Any] = {
            "asked": asked.text,
            "kind": "url" if asked.is_url else "host",
            "found": total,
            "left_out": {
                "groups": groups - len(found),
                "decisions": left_out,
                "robotstxts": max(files, 0),
            },
            "crawls": list(self._crawls.values()),
            "decisions": decisions,
            "robotstxts": list(self._robotstxts.values()),
            "only_refusals": [
                each.path
                for each in ledgers
                if not all(one["every_decision"] for one in each.crawls.values())
            ],
        }

    def _decision(self, ledger: LedgerFile, group: sqlite3.Row) -> dict[str, Any]:
        """Return like decisions, with the values of the first of them."""
        [row] = ledger.rows(_ROW, id=group["id"])
        crawl = self._crawl(ledger, row["crawl"])
        source = ledger.source(row["snapshot"])
        context: list[dict[str, Any]] = []
        # The line of an override is one of the user's text.
        if source is not None and row["layer"] != "override":
            dialect = DIALECTS.get(crawl["dialect"], RFC9309) if crawl else RFC9309
            context = source.around(row["line"], dialect)
        return {
            "ledger": ledger.path,
            "crawl": row["crawl"],
            "time": iso_time(row["time"]),
            "last": iso_time(group["last"]) if group["times"] > 1 else None,
            "times": group["times"],
            **{name: row[name] for name in _SHOWN},
            "why": why(row),
            "robotstxt": self._robotstxt(ledger, row["snapshot"]),
            "context": context,
        }

    def _crawl(self, ledger: LedgerFile, crawl: int) -> dict[str, Any] | None:
        found = ledger.crawls.get(crawl)
        if found is not None:
            self._crawls[ledger.path, crawl] = found
        return found

    def _robotstxt(self, ledger: LedgerFile, snapshot: int | None) -> int | None:
        """Add a robots.txt. Return its number in this answer; None if there is none."""
        source = ledger.source(snapshot)
        if source is None or source.row is None:
            return None
        row, key = source.row, (ledger.path, source.row["id"])
        if key not in self._robotstxts:
            self._robotstxts[key] = {
                "number": len(self._robotstxts) + 1,
                "ledger": ledger.path,
                **{name: row[name] for name in ("crawl", "origin", "url", "sha256")},
                "access": source.access,
                "headers": list(map(list, source.result.headers)),
                **{name: iso_time(row[name]) for name in ("expires", "copy_of")},
                "bytes": None if source.body is None else len(source.body),
            }
            self._crawl(ledger, row["crawl"])
        number: int = self._robotstxts[key]["number"]
        return number


def _sum(rows: list[tuple[LedgerFile, sqlite3.Row]], column: str) -> int:
    """Return the sum of a *column* in which all rows of a ledger have its number."""
    return sum({ledger: row[column] for ledger, row in rows}.values())
