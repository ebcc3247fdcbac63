"""The subcommand ``scrapy rep why``, which shows all decisions about a URL or a host in ledgers, with the rules
that applied.
"""

from __future__ import annotations

from contextlib import closing
from functools import lru_cache
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from scrapy.exceptions import UsageError

from scrapy_rep.base.records import url_text
from scrapy_rep.crawl.ledger.reader import MAX_ID
from scrapy_rep.protocol.dialect import DIALECTS, RFC9309
from scrapy_rep.protocol.origins import origin_of, parse_origin
from scrapy_rep.protocol.robotstxt.paths import target
from scrapy_rep.tools.inputs import LedgerSources, is_url, parse_url
from scrapy_rep.tools.ledgers import LedgerName, is_sqlite, iso_time, why
from scrapy_rep.tools.output import CLEAN, EXCERPT, FOUND, UNKNOWN, Output

if TYPE_CHECKING:
    import sqlite3
    from argparse import Namespace
    from collections.abc import Callable

    from scrapy.settings import Settings

    from scrapy_rep.protocol.origins import Origin

# The columns of the table "decision" whose values the JSON output contains unchanged.
_SHOWN = (
    "subject", "verdict", "layer", "reason", "url", "origin", "page", "agent", "line",
    "statement", "form", "source", "via",
)  # fmt: skip

_WITHHELD = ("refused", "dropped", "would-refuse", "would-drop")
"""The verdicts that a request is refused, or that an item, a link or a file is dropped, including the verdicts of dry
runs."""

# Decisions with equal values in these columns are shown as a single decision, with the number of equal decisions.
# _ALIKE lists the columns for questions about a host, _ALIKE_ON_URL those for questions about a URL.
_ALIKE = "crawl, origin, snapshot, line, verdict, reason, layer, subject, agent, statement, source"
_ALIKE_ON_URL = f"{_ALIKE}, url, page, form, via"

_CONDITIONS = {
    "decision": "instr(origin, :host) OR instr(lower(page), :host)",
    "snapshot": "instr(origin, :host) OR id IN (SELECT snapshot FROM main.decision)",
    "body": "sha256 IN (SELECT sha256 FROM main.snapshot)",
}
"""For each table, the SQL condition for rows to copy from ledgers. The conditions are fast, but can accept too many
rows. From the copied rows, the SQL function is_asked() selects the rows that exactly match the URL or host that the
user asked about."""

# "is_own" is true for decisions about the URL or host in question, and false for decisions about a link, an item
# or a file on the page in question.
_FOUND = """
    SELECT max(is_own) AS is_own, count(*) AS times, max(time) AS last, min(id) AS id,
           min(time) AS time, count(*) OVER () AS groups, sum(count(*)) OVER () AS total
    FROM (
        SELECT *, is_asked(url, origin) OR is_asked(form, origin) OR url = :text AS is_own
        FROM decision
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
            "  the first of {times} equal decisions, the last at {last}",
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
            "  the crawl followed the copy of {copy_of} instead",
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
    "Ledgers that contain only refusals (REP_LEDGER_LEVEL): {only_refusals}",
    "{left_out_by_level}",
)


_LEFT_OUT = (
    "So no request was refused: requests were allowed, or were not made. With REP_LEDGER_LEVEL = 'all', "
    "a ledger also contains allowed requests."
)


def run(arguments: Namespace, settings: Settings) -> int:
    if arguments.limit < 1:
        raise UsageError("--limit must be 1 or greater")
    _check_order(arguments)
    question = asked_about(arguments.asked)
    names = list(map(LedgerName, arguments.ledgers))
    with closing(LedgerSources(names, _CONDITIONS, **question.values)) as past:
        record = _History(question, past, arguments.limit).record
    is_left_out = record["only_refusals"] and not record["decisions"]
    left_out = _LEFT_OUT if is_left_out else None
    Output(arguments).show(record, _ROWS, left_out_by_level=left_out)
    verdicts = {decision["verdict"] for decision in record["decisions"]}
    if not verdicts.isdisjoint(_WITHHELD):
        return FOUND
    return CLEAN if verdicts or record["robotstxts"] else UNKNOWN


def _check_order(arguments: Namespace) -> None:
    """Raise UsageError if the user gave the ledgers before the URL or host."""
    first = arguments.asked
    for later in arguments.ledgers:
        if not Path(later).exists() and (is_url(later) or is_sqlite(first)):
            raise UsageError(
                f"{later} is not a ledger; give the URL or the host before the ledgers, as in "
                f"'scrapy rep why {later} {first}'"
            )


class Question(NamedTuple):
    """The question of the user: which decisions concern a given URL or host."""

    text: str
    """The URL or host as the user gave it, but without user name and password."""

    is_url: bool

    host: str
    """The host in question, or the host of the URL in question; empty if the URL has no valid host."""

    matches: Callable[[str | None, str | None], bool]
    """A function that returns whether a URL in a ledger matches the question. The first argument is the URL. The second
    is the URL's origin, or None if the ledger does not contain the origin. For the page on which a link, an item or a
    file was found, a ledger contains the URL, but no origin. The URL of such a page never matches a question about a
    host."""

    @property
    def values(self) -> dict[str, Any]:
        """The values of this question for the named parameters of the SQL queries."""
        return {"text": self.text, "host": self.host, "is_url": self.is_url}


def asked_about(text: str) -> Question:
    """Return the Question for *text*, the URL or host that the user gave. Raises UsageError if *text* is neither a URL
    nor a host.
    """
    text = text.strip()
    has_scheme = is_url(text)
    url = parse_url(text if has_scheme else f"http://{text}")
    if url is None or url.origin is None:
        if has_scheme:
            return Question(url_text(text), True, "", lambda url, origin: False)
        raise UsageError(f"{text!r} is neither a URL nor a host")
    origin_asked, parts = url.origin, urlsplit(url.url)
    host, has_port = origin_asked.host.rstrip("."), has_scheme or parts.port is not None
    path = target(url.url, RFC9309) if parts.path or parts.query else None

    def is_at(origin: Origin | None) -> bool:
        """Whether *origin* is the origin of the URL or host in question. If requests to *origin* have a ``Host`` header
        that differs from the host in their URLs, it is enough that one of these two hosts matches.
        """
        return origin is not None and any(
            candidate.host.rstrip(".") == host
            and (candidate.scheme == origin_asked.scheme or not has_scheme)
            and (candidate.port == origin_asked.port or not has_port)
            for candidate in (origin, origin.named)
        )

    is_written = lru_cache(maxsize=4096)(lambda origin: is_at(parse_origin(origin)))

    def matches(url: str | None, origin: str | None) -> bool:
        if url is None or (path is not None and target(url, RFC9309) != path):
            return False
        if origin is not None:
            return is_written(origin)
        return path is not None and is_at(origin_of(url))

    return Question(url_text(text), path is not None, host, matches)


class _History:
    """Finds the decisions about a URL or a host in ledgers, and the robots.txt files and crawls to which they belong.
    The attribute ``record`` contains them as the JSON object that the command writes.
    """

    def __init__(self, question: Question, past: LedgerSources, limit: int) -> None:
        self._past = past
        self._crawls: dict[int, dict[str, Any]] = {}
        self._robotstxts: dict[int, dict[str, Any]] = {}
        ledgers, values = past.ledgers, {**question.values, "limit": min(limit, MAX_ID)}
        ledgers.database.create_function("is_asked", 2, question.matches)
        sql = _FOUND.format(alike=_ALIKE_ON_URL if question.is_url else _ALIKE)
        groups = list(ledgers.rows(sql, **values))
        total, number = (groups[0]["total"], groups[0]["groups"]) if groups else (0, 0)
        groups.sort(key=itemgetter("time", "id"))
        decisions = list(map(self._decision, groups))
        files = list(ledgers.rows(_SNAPSHOTS, **values))
        for row in files:
            if len(self._robotstxts) < limit:
                self._robotstxt(row["id"])
        left_out = files[0]["number"] - len(self._robotstxts) if files else 0
        refusals = [crawl for crawl in ledgers.crawls if not crawl["every_decision"]]
        self.record: dict[str, Any] = {
            "asked": question.text,
            "kind": "url" if question.is_url else "host",
            "found": total,
            "left_out": {
                "groups": number - len(groups),
                "decisions": total - sum(group["times"] for group in groups),
                "robotstxts": max(left_out, 0),
            },
            "crawls": list(self._crawls.values()),
            "decisions": decisions,
            "robotstxts": list(self._robotstxts.values()),
            "only_refusals": list(dict.fromkeys(crawl["path"] for crawl in refusals)),
        }

    def _decision(self, group: sqlite3.Row) -> dict[str, Any]:
        """Return a group of equal decisions as one JSON object, with the values of the group's first decision. *group*
        is a row of the query ``_FOUND``.
        """
        [row] = self._past.ledgers.rows(_ROW, id=group["id"])
        crawl = self._crawl(row["crawl"])
        source = self._past.source(row["snapshot"])
        context: list[dict[str, Any]] = []
        # If an override decided, the line number refers to the override's text, not to the site's robots.txt.
        if source is not None and row["layer"] != "override":
            dialect = DIALECTS.get(crawl["dialect"], RFC9309)
            context = source.excerpt(row["line"], row["agent"], dialect)
        return {
            "ledger": crawl["ledger"],
            "crawl": crawl["crawl"],
            "time": iso_time(row["time"]),
            "last": iso_time(group["last"]) if group["times"] > 1 else None,
            "times": group["times"],
            **{name: row[name] for name in _SHOWN},
            "why": why(row),
            "robotstxt": self._robotstxt(row["snapshot"]),
            "context": context,
        }

    def _crawl(self, number: int) -> dict[str, Any]:
        """Return the crawl *number* as a JSON object, and add the crawl to the crawls that the command shows. *number*
        is the key ``number`` of the crawl in :class:`~scrapy_rep.tools.ledgers.Ledgers`.
        """
        if number not in self._crawls:
            crawl = self._past.ledgers.by_number[number]
            unchanged = ("spider", "user_agent", "dialect", "every_decision")
            self._crawls[number] = {
                "ledger": crawl["path"],
                "crawl": crawl["id"],
                **{name: crawl[name] for name in unchanged},
                "agents": list(crawl["agents"]),
                "started": iso_time(crawl["started"]),
                "ended": iso_time(crawl["ended"]),
            }
        return self._crawls[number]

    def _robotstxt(self, snapshot: int | None) -> int | None:
        """Add a robots.txt to the files that the command shows, unless it is already among them. Return the number by
        which the output refers to this file. *snapshot* is the id of the robots.txt in the table ``snapshot``. Return
        None if the ledgers do not contain the robots.txt.
        """
        source = self._past.source(snapshot)
        if source is None or source.row is None:
            return None
        row = source.row
        if row["id"] not in self._robotstxts:
            crawl = self._crawl(row["crawl"])
            self._robotstxts[row["id"]] = {
                "number": len(self._robotstxts) + 1,
                **{name: crawl[name] for name in ("ledger", "crawl")},
                **{name: row[name] for name in ("origin", "url", "sha256")},
                "access": source.access,
                "headers": list(map(list, source.result.headers)),
                **{name: iso_time(row[name]) for name in ("expires", "copy_of")},
                "bytes": None if source.body is None else len(source.body),
            }
        number: int = self._robotstxts[row["id"]]["number"]
        return number
