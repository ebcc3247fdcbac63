"""``scrapy rep why``: everything that ledgers have on a URL or a host."""

from __future__ import annotations

import heapq
from contextlib import ExitStack, closing
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from scrapy.exceptions import UsageError

from scrapy_rep.commands.bundle import write_bundle
from scrapy_rep.commands.check import excerpt, lines_around
from scrapy_rep.commands.output import CLEAN, FOUND, Output, counted, iso_time
from scrapy_rep.commands.urls import is_url, parse_url
from scrapy_rep.ledger.reader import (
    check_values,
    columns_of,
    open_ledger,
    read_json,
    read_texts,
    reading,
)
from scrapy_rep.ledger.seals import sealed_digest
from scrapy_rep.protocol.dialect import DIALECTS, RFC9309
from scrapy_rep.protocol.origins import written_origin
from scrapy_rep.protocol.reasons import REASONS, Words, outcome
from scrapy_rep.protocol.robots import RobotsTxt
from scrapy_rep.record import url_text
from scrapy_rep.settings import DEFAULTS, LEDGER_LEVEL

if TYPE_CHECKING:
    import sqlite3
    from argparse import Namespace
    from collections.abc import Iterator, Mapping, Sequence

    from scrapy.settings import Settings

    from scrapy_rep.commands.output import Line
    from scrapy_rep.protocol.dialect import Dialect
    from scrapy_rep.protocol.origins import Origin

# Decisions that are alike in these columns are shown as one: on a host, and on a URL.
_ALIKE = (
    "crawl", "origin", "snapshot", "line", "verdict", "reason", "layer", "subject", "agent",
    "statement", "source",
)  # fmt: skip
_ALIKE_ON_URL = (*_ALIKE, "url", "page", "form", "via")

# The columns of a decision that are shown as they are.
_SHOWN = (
    "subject", "verdict", "layer", "reason", "url", "origin", "page", "agent", "line",
    "statement", "form", "source", "via",
)  # fmt: skip

# Older versions of SQLite allow 999 values in a statement.
_MAX_ORIGINS = 900

_LONGEST_AUTHORITY = len("https://***@:65535")

_CUT = "…"
"""The end of a URL that was cut for the ledger."""

_BY_RULES = frozenset({"rule", "no-rule", "no-group"})
"""The reasons of decisions that any parser of the robots.txt can check."""


def run(arguments: Namespace, settings: Settings) -> int:
    if arguments.limit < 1:
        raise UsageError("--limit must be 1 or greater")
    asked = Asked.parse(arguments.asked)
    with ExitStack() as opened:
        ledgers = [
            opened.enter_context(closing(_Ledger(path, asked, arguments.limit)))
            for path in dict.fromkeys(arguments.ledgers)
        ]
        answer = _Answer(asked, ledgers, arguments.limit)
    record = answer.record
    is_found = bool(record["decisions"] or record["robotstxts"])
    if is_found and arguments.bundle is not None:
        write_bundle(arguments.bundle, record, answer.bodies, arguments.ledgers)
    Output(arguments).show(record, _text)
    return CLEAN if is_found else FOUND


class Asked(NamedTuple):
    """The URL or the host that was asked about."""

    text: str
    """As written, but without user name and password."""

    host: str
    """Empty for a URL whose host cannot be read."""

    scheme: str | None = None
    """None for any."""

    port: int | None = None
    """None for any."""

    path: str | None = None
    """The path and the query of the URL; None for a host."""

    @classmethod
    def parse(cls, text: str) -> Asked:
        """Raises UsageError for what is neither a URL nor a host."""
        text = text.strip()
        has_scheme = is_url(text)
        found = parse_url(text if has_scheme else f"http://{text}")
        if found is None or found.origin is None:
            if has_scheme:
                return cls(url_text(text), "", path="")
            raise UsageError(f"{text!r} is neither a URL nor a host")
        origin, parts = found.origin, urlsplit(found.url)
        return cls(
            url_text(text),
            origin.host.rstrip("."),
            origin.scheme if has_scheme else None,
            origin.port if has_scheme or parts.port is not None else None,
            _path(found.url) if parts.path or parts.query else None,
        )

    def is_at(self, origin: Origin | None) -> bool:
        """Whether *origin*, or the virtual host that it names, is the one asked about."""
        return origin is not None and any(
            each.host.rstrip(".") == self.host
            and self.scheme in {None, each.scheme}
            and self.port in {None, each.port}
            for each in (origin, origin.named)
        )

    def is_asked(self, url: str) -> bool:
        """Whether *url*, at the same origin, is the one asked about."""
        return _path(url) == self.path


def _path(url: str) -> str:
    """Return the path and the query of a URL."""
    after = url.partition("#")[0].partition("://")[2]
    at = min((at for at in map(after.find, "/?") if at >= 0), default=len(after))
    path = after[at:]
    return path if path.startswith("/") else f"/{path}"


class _Group(NamedTuple):
    """Decisions that are alike."""

    times: int
    last: float
    time: float
    """Of the first."""

    row_id: int
    ledger: _Ledger
    row: dict[str, Any]
    """The first of them."""


class _Ledger:
    """What a ledger has on the URL or the host. Raises LedgerError for a file that is none."""

    def __init__(self, path: str, asked: Asked, limit: int) -> None:
        self.path = path
        self._asked = asked
        self._limit = limit
        self._ledger = open_ledger(path, decisions=False)
        with reading(path):
            # A crawl may be writing the ledger; a transaction reads a consistent state.
            self._ledger.execute("BEGIN")
            self._ledger.create_function("is_asked", 1, asked.is_asked)
            self._columns = columns_of(self._ledger, "decision")
            crawls = self._ledger.execute("SELECT * FROM crawl").fetchall()
            self._crawls = {row["id"]: row for row in crawls}
            self.has_every_decision = all(map(_has_every_decision, crawls))
            self._origins = self._find_origins()
            self.decisions, self.groups = 0, 0
            """How many there are."""
            self.largest_groups = self._find_decisions()
            self.snapshots, self.newest_snapshots = self._find_snapshots()

    def close(self) -> None:
        self._ledger.close()

    def crawl(self, crawl: int) -> dict[str, Any] | None:
        """Return a crawl as a JSON object."""
        row = self._crawls.get(crawl)
        if row is None:
            return None
        with reading(self.path):
            return {
                "ledger": self.path,
                "crawl": crawl,
                "spider": row["spider"],
                "user_agent": row["user_agent"],
                "agents": list(read_texts(row["agents"])),
                "dialect": row["dialect"],
                "every_decision": _has_every_decision(row),
                "started": iso_time(row["started"]),
                "ended": iso_time(row["ended"]),
                "digest": row["ended"] and sealed_digest(self._ledger, crawl),
            }

    def _find_origins(self) -> list[str]:
        """Return the origins, as the ledger has them, that were asked about."""
        if not self._asked.host:
            return []
        sql = (
            "SELECT origin FROM decision WHERE instr(origin, ?1)"
            " UNION SELECT origin FROM snapshot WHERE instr(origin, ?1)"
        )
        rows = self._ledger.execute(sql, (self._asked.host,))
        found = [
            origin for [origin] in rows if self._asked.is_at(written_origin(origin))
        ]
        return found[:_MAX_ORIGINS]

    def _where(self) -> tuple[str, dict[str, object]]:
        """Return the condition for the decisions that were asked about."""
        names = {f"origin{number}": each for number, each in enumerate(self._origins)}
        where = f"origin IN ({', '.join(f':{name}' for name in names)})"
        values: dict[str, object] = dict(names)
        asked = self._asked
        if asked.path is not None:
            # A call of is_asked takes longer than the conditions before it.
            is_url = (
                "instr(url, :path) AND (length(url) <= :longest OR instr(url, '#'))"
                " AND is_asked(url)"
            )
            if "form" in self._columns:
                is_url = f"({is_url} OR form IS NOT NULL AND is_asked(form))"
            where = f"{where} AND {is_url} OR url = :text"
            values["path"] = "" if asked.path == "/" else asked.path
            values["longest"] = len(asked.host) + len(asked.path) + _LONGEST_AUTHORITY
            values["text"] = asked.text
        return where, values

    def _find_decisions(self) -> list[_Group]:
        """Return the largest groups of like decisions; of equal ones, the latest."""
        where, values = self._where()
        check_values(self._ledger, "decision", where, values)
        names = _ALIKE if self._asked.path is None else _ALIKE_ON_URL
        alike = ", ".join(name for name in names if name in self._columns)
        sql = (
            "SELECT count(*) AS times, max(time) AS last, min(id) AS id FROM decision"  # noqa: S608
            f" WHERE {where} GROUP BY {alike}"
        )

        def counted_groups() -> Iterator[tuple[int, float, int]]:
            for row in self._ledger.execute(sql, values):
                self.decisions += row["times"]
                self.groups += 1
                yield tuple(row)

        found = heapq.nlargest(self._limit, counted_groups())
        return [self._group(*group) for group in found]

    def _group(self, times: int, last: float, row_id: int) -> _Group:
        [row] = self._ledger.execute("SELECT * FROM decision WHERE id = ?", (row_id,))
        values = {**dict.fromkeys(_SHOWN), **row}
        return _Group(times, last, row["time"], row_id, self, values)

    def _find_snapshots(self) -> tuple[int, list[int]]:
        """Return the number of robots.txt files of a host, and the ids of the newest."""
        if self._asked.path is not None:
            return 0, []
        sql = f"FROM snapshot WHERE origin IN ({', '.join('?' * len(self._origins))})"
        [[number]] = self._ledger.execute(f"SELECT count(*) {sql}", self._origins)
        newest = self._ledger.execute(
            f"SELECT id {sql} ORDER BY fetched DESC LIMIT {self._limit}",
            self._origins,
        )
        return number, [row["id"] for row in newest]

    def robotstxt(self, snapshot: int) -> tuple[dict[str, Any], bytes | None] | None:
        """Return a robots.txt as a JSON object, and its bytes."""
        sql = "SELECT * FROM snapshot LEFT JOIN body USING (sha256) WHERE id = ?"
        with reading(self.path):
            row = self._ledger.execute(sql, (snapshot,)).fetchone()
            if row is None:
                return None
            body = row["body"]
            return {
                "ledger": self.path,
                "crawl": row["crawl"],
                "origin": row["origin"],
                "url": row["url"],
                "redirects": list(read_texts(row["redirects"])),
                "access": row["access"],
                "status": row["status"],
                "error": row["error"],
                "headers": [
                    [str(part) for part in each]
                    for each in read_json(row["headers"], list)
                    if isinstance(each, list) and len(each) == 2
                ],
                "fetched": iso_time(row["fetched"]),
                "expires": iso_time(row["expires"]),
                "copy_of": iso_time(row["copy_of"]),
                "sha256": row["sha256"],
                "bytes": None if body is None else len(body),
            }, body


def _has_every_decision(crawl: sqlite3.Row) -> bool:
    """Whether the ledger of a crawl has what was allowed too."""
    level = read_json(crawl["settings"], dict).get(LEDGER_LEVEL, DEFAULTS[LEDGER_LEVEL])
    return bool(level == "all")


class _Answer:
    """What several ledgers have, as a JSON object."""

    def __init__(self, asked: Asked, ledgers: Sequence[_Ledger], limit: int) -> None:
        self.bodies: dict[str, bytes] = {}
        """The robots.txt files, by their names in a bundle."""

        self._crawls: dict[tuple[str, int], dict[str, Any]] = {}
        self._robotstxts: dict[tuple[str, int], dict[str, Any]] = {}
        groups = [group for ledger in ledgers for group in ledger.largest_groups]
        shown = sorted(
            heapq.nlargest(limit, groups, key=attrgetter("times", "last")),
            key=attrgetter("time", "row_id"),
        )
        decisions = [self._decision(each) for each in shown]
        files = 0
        for ledger in ledgers:
            files += ledger.snapshots
            for snapshot in ledger.newest_snapshots:
                if len(self._robotstxts) < limit:
                    self._robotstxt(ledger, snapshot)
        found = sum(each.decisions for each in ledgers)
        self.record = {
            "asked": asked.text,
            "kind": "host" if asked.path is None else "url",
            "found": found,
            "left_out": {
                "groups": sum(each.groups for each in ledgers) - len(shown),
                "decisions": found - sum(each.times for each in shown),
                "robotstxts": max(files - len(self._robotstxts), 0),
            },
            "crawls": list(self._crawls.values()),
            "decisions": decisions,
            "robotstxts": list(self._robotstxts.values()),
            "only_refusals": [
                each.path for each in ledgers if not each.has_every_decision
            ],
        }

    def _decision(self, group: _Group) -> dict[str, Any]:
        row, ledger = group.row, group.ledger
        crawl = self._note_crawl(ledger, row["crawl"])
        robotstxt = self._robotstxt(ledger, row["snapshot"])
        body = self.bodies.get(robotstxt["file"]) if robotstxt else None
        context: list[dict[str, Any]] = []
        # The line of an override is one of the user's text.
        if body is not None and row["line"] and row["layer"] != "override":
            dialect = DIALECTS.get(crawl["dialect"], RFC9309) if crawl else RFC9309
            context = lines_around(_parsed(body, dialect), row["line"])
        return {
            "ledger": ledger.path,
            "crawl": row["crawl"],
            "time": iso_time(group.time),
            "last": iso_time(group.last),
            "times": group.times,
            **{name: row[name] for name in _SHOWN},
            "why": _why(row),
            "robotstxt": robotstxt and robotstxt["number"],
            "context": context,
            "check": _check(row, crawl, robotstxt),
        }

    def _note_crawl(self, ledger: _Ledger, crawl: int) -> dict[str, Any] | None:
        key = ledger.path, crawl
        if key not in self._crawls and (found := ledger.crawl(crawl)):
            self._crawls[key] = found
        return self._crawls.get(key)

    def _robotstxt(
        self, ledger: _Ledger, snapshot: int | None
    ) -> dict[str, Any] | None:
        """Return a robots.txt, with its number in this answer."""
        if snapshot is None:
            return None
        key = ledger.path, snapshot
        if key not in self._robotstxts and (found := ledger.robotstxt(snapshot)):
            record, body = found
            number, file = len(self._robotstxts) + 1, None
            if body is not None:
                file = f"robots-{number}.txt"
                self.bodies[file] = body
            self._robotstxts[key] = {"number": number, **record, "file": file}
            self._note_crawl(ledger, record["crawl"])
        return self._robotstxts.get(key)


@lru_cache(maxsize=8)
def _parsed(body: bytes, dialect: Dialect) -> RobotsTxt:
    return RobotsTxt.parse(body, dialect)


def _why(row: Mapping[str, Any]) -> str:
    """Return the reason of a decision in words."""
    reason, statement = row["reason"], row["statement"]
    key = "rel" if row["layer"] == "rel" else reason
    key = "pause" if (reason, row["verdict"]) == ("back-off", "noted") else key
    words = REASONS.get(key, Words(reason)).text
    if row["line"] and statement and row["layer"] == "robots.txt":
        words = f"line {row['line']}, {statement}"
    elif statement:
        words = f"{words}: {statement}"
    return f"{words} (as {row['form']})" if row["form"] else words


def _check(
    row: Mapping[str, Any],
    crawl: dict[str, Any] | None,
    robotstxt: dict[str, Any] | None,
) -> dict[str, Any] | None:
    """Return what any parser of robots.txt needs to check the decision, and what it should say; None
    if the rules of the robots.txt did not decide.
    """
    url = row["form"] or row["url"]
    is_by_rules = row["layer"] == "robots.txt" and row["reason"] in _BY_RULES
    if not (is_by_rules and crawl and robotstxt and robotstxt["file"]):
        return None
    if row["subject"] not in {"request", None} or url.endswith(_CUT):
        return None
    agent = row["agent"] or next(iter(crawl["agents"]), "*")
    allowed = row["verdict"] == "allowed"
    return {"file": robotstxt["file"], "url": url, "agent": agent, "allowed": allowed}


# The text.


def _text(line: Line, record: dict[str, Any]) -> None:
    crawls = {(each["ledger"], each["crawl"]): each for each in record["crawls"]}
    found = counted(record["found"], "decision")
    line(
        "{:bold}: {}", record["asked"], found if record["found"] else "nothing recorded"
    )
    for each in record["decisions"]:
        line()
        _decision_text(line, each, crawls.get((each["ledger"], each["crawl"])))
    for each in record["robotstxts"]:
        line()
        _robotstxt_text(line, each)
    left = record["left_out"]
    if left["decisions"]:
        line()
        groups = counted(left["groups"], "group")
        decisions = counted(left["decisions"], "decision")
        line("Not shown: {} in {} of like ones; --limit shows more", decisions, groups)
    if left["robotstxts"]:
        line(
            "Not shown: {} files fetched earlier", f"{left['robotstxts']:,} robots.txt"
        )
    for path in record["only_refusals"]:
        line()
        line(
            '{} lacks what was allowed in crawls with REP_LEDGER_LEVEL = "denied"',
            path,
        )


def _decision_text(
    line: Line, record: dict[str, Any], crawl: dict[str, Any] | None
) -> None:
    line("{}  {:word}  {:bold}", _utc(record["time"]), record["verdict"], record["url"])
    if record["times"] > 1:
        times = f"{record['times']:,} such decisions"
        line("  {}, the last at {}; this is the first", times, _utc(record["last"]))
    for_whom = ""
    if record["agent"]:
        for_whom = f", for {'everyone' if record['agent'] == '*' else record['agent']}"
    line("  {} ({}{})", record["why"], record["layer"], for_whom)
    if record["page"] and record["page"] != record["url"]:
        line("  {} on the page {}", record["subject"] or "found", record["page"])
    elif record["subject"] not in {"request", None}:
        line("  about the {}", record["subject"])
    for name, words in (("source", "stated in"), ("via", "requested via")):
        if record[name]:
            line("  {} {}", words, record[name])
    if crawl:
        who = f"{crawl['spider']}, as {', '.join(crawl['agents'])}, dialect {crawl['dialect']}"
        line("  crawl {} of {}: {}", crawl["crawl"], crawl["ledger"], who)
    if record["robotstxt"]:
        line("  robots.txt {} below", record["robotstxt"])
    if record["context"]:
        pattern = (record["statement"] or "").partition(":")[2].strip()
        line()
        excerpt(line, record["context"], {"line": record["line"], "pattern": pattern})


def _robotstxt_text(line: Line, record: dict[str, Any]) -> None:
    line("robots.txt {}: {:bold}", record["number"], record["url"])
    access = record["access"]
    words = "" if access == "successful" else f"{outcome(access)}, "
    status = f"status {record['status']}" if record["status"] else "no answer"
    line("  fetched {}: {}{}", _utc(record["fetched"]), words, status)
    if record["error"]:
        line("  {}", record["error"])
    for url in record["redirects"]:
        line("  redirected to {}", url)
    if record["copy_of"]:
        line("  in its place, the copy of {} was followed", _utc(record["copy_of"]))
    for name, value in record["headers"]:
        line("  {}: {}", name, value)
    if record["sha256"]:
        line("  {}, sha256 {}", counted(record["bytes"] or 0, "byte"), record["sha256"])


def _utc(time: str) -> str:
    return time.replace("T", " ").replace("Z", " UTC")
