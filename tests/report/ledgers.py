"""Ledgers for tests of the report, written without a crawl."""

from __future__ import annotations

import json
import sqlite3
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from scrapy_rep.ledger.schema import APPLICATION_ID, TABLES, VERSION

if TYPE_CHECKING:
    from pathlib import Path

START = 1_790_000_000.0
"""The start of each crawl, in September 2026."""


_CRAWL = {
    "spider": "press",
    "user_agent": "mybot/1.0 (+https://bot.example/)",
    "agents": json.dumps(["mybot"]),
    "dialect": "rfc9309",
    "versions": json.dumps({"scrapy-rep": "0.1.0", "Scrapy": "2.19.0"}),
    "started": START,
    "ended": START + 7200,
    "finish_reason": "finished",
    "counts": json.dumps({"downloader/response_count": 0}),
}
_SNAPSHOT = {
    "redirects": "[]", "headers": "[]", "fetched": START + 10, "expires": START + 86410,
}  # fmt: skip
_DECISION = {
    "time": START + 600, "layer": "robots.txt", "verdict": "refused", "reason": "rule",
}  # fmt: skip


class Ledger:
    """An open ledger; rows are passed by column name. They are of the last crawl, or of one with
    the columns above, and a decision is by the last robots.txt of its origin.
    """

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.connection = sqlite3.connect(path)
        self.connection.executescript(f"PRAGMA synchronous = OFF; {TABLES}")
        self.connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        self.connection.execute(f"PRAGMA user_version = {VERSION}")
        self._crawl = 0
        self._snapshots: dict[str, int] = {}

    def crawl(self, level: str = "all", **columns: Any) -> None:
        settings = {"REP_LEDGER_LEVEL": level, **columns.pop("settings", {})}
        row = {**_CRAWL, "settings": json.dumps(settings), **columns}
        self._crawl = self._insert("crawl", row)

    def snapshot(self, origin: str, body: bytes | None = None, **columns: Any) -> None:
        given = {"access": "unavailable", "status": 404, "sha256": None}
        if body is not None:
            digest = sha256(body).hexdigest()
            insert = "INSERT OR IGNORE INTO body VALUES (?, ?)"
            self.connection.execute(insert, (digest, body))
            given = {"access": "successful", "status": 200, "sha256": digest}
        row = {"origin": origin, "url": f"{origin}/robots.txt", **_SNAPSHOT, **given}
        self._snapshots[origin] = self._add("snapshot", {**row, **columns})

    def decision(self, url: str, **columns: Any) -> None:
        row = {
            "origin": "/".join(url.split("/")[:3]),
            "url": url,
            **_DECISION,
            **columns,
        }
        self._add("decision", {"snapshot": self._snapshots.get(row["origin"]), **row})

    def traffic(self, origin: str, hour: int, **columns: Any) -> None:
        """Add the traffic of an hour, counted from the start of the first crawl."""
        given = {"hour": int(START) + 3600 * hour, "pages": 0, "bytes": 0, "pauses": 0}
        self._add("traffic", {"origin": origin, **given, **columns})

    def progress(self, minute: int, **columns: Any) -> None:
        """Add the progress of a minute, counted from the start of the first crawl."""
        given = {"minute": int(START) + 60 * minute, "pages": 0, "bytes": 0}
        self._add("progress", {**given, **columns})

    def refused(self, url: str, line: int, rule: str, **columns: Any) -> None:
        self.decision(url, **{"agent": "*", "line": line, "statement": rule, **columns})

    def allowed(self, url: str, **columns: Any) -> None:
        given = {"verdict": "allowed", "reason": "no-rule", "agent": "*"}
        self.decision(url, **{**given, **columns})

    def _add(self, table: str, row: dict[str, Any]) -> int:
        if not self._crawl:
            self.crawl()
        return self._insert(table, {"crawl": self._crawl, **row})

    def close(self) -> str:
        """Close the ledger and return its path."""
        self.connection.commit()
        self.connection.close()
        return self.path

    def _insert(self, table: str, row: dict[str, Any]) -> int:
        columns, places = ", ".join(row), ", ".join("?" * len(row))
        insert = f"INSERT INTO {table} ({columns}) VALUES ({places})"
        cursor = self.connection.execute(insert, tuple(row.values()))
        return cursor.lastrowid or 0


PRESS_HOST = "https://press.example"
PRESS = b"""\
# The Morning Press
User-agent: *
Disallow: /private/
Disallow: /*?print=
Allow: /private/press-kit/
Crawl-delay: 2

User-agent: aggregator
Disallow: /

Sitemap: https://press.example/sitemap.xml
"""


def eventful(path: Path) -> str:
    """Two crawls by an earlier version, which measured nothing, with about every kind of event."""
    ledger = Ledger(path)
    overrides = {"staging.example": "ignore", "*.partner.example": "User-agent: *\n"}
    store = "redis://crawler:secret@store.example/0"
    ledger.crawl(
        settings={
            "REP_OVERRIDES": overrides, "REP_NOFOLLOW": "ignore", "REP_STORE": store
        }
    )  # fmt: skip
    for origin, pages in ((PRESS_HOST, 60), ("https://shop.example", 30)):
        ledger.snapshot(origin, PRESS)
        for number in range(pages):
            time = START + 20 + number * 11
            ledger.allowed(f"{origin}/news/{number}", time=time)
            if not number % 3:
                url = f"{origin}/private/{number}"
                ledger.refused(url, 3, "Disallow: /private/", time=time)
            if not number % 9:
                url = f"{origin}/news/{number}?print=1"
                ledger.refused(url, 4, "Disallow: /*?print=", time=time)
            if not number % 20:
                line = {"line": 5, "statement": "Allow: /private/press-kit/"}
                ledger.allowed(
                    f"{origin}/private/press-kit/{number}", reason="rule", **line
                )
    busy = {"access": "unreachable", "status": 503}
    gone = {"access": "unreachable", "status": None, "error": "DNS lookup failed"}
    ledger.snapshot("https://gone.example", **gone)
    ledger.snapshot("https://busy.example", **busy)
    ledger.snapshot("https://busy.example", b"User-agent: *\n", fetched=START + 900)
    ledger.allowed("https://busy.example/", time=START + 950)
    ledger.snapshot(
        "https://old.example", b"Disallow: /x", **busy, copy_of=START - 4000
    )
    ledger.refused("https://old.example/x", 2, "Disallow: /x")
    ledger.snapshot("https://bare.example")
    for number in range(4):
        ledger.decision(f"https://gone.example/{number}", reason="unreachable")
        url = f"https://bare.example/{number}"
        ledger.allowed(url, reason="unavailable", agent=None)
    own = "staging.example: ignore (our own; until 2027-01-01)"
    for host, layer, verdict, reason, statement, times in (
        ("shop", "header", "dropped", "noindex", "noindex", 5),
        ("shop", "meta", "dropped", "nofollow", "noindex, nofollow", 3),
        ("shop", "meta", "annotated", "noindex", "mybot: noindex", 1),
        ("shop", "rel", "dropped", "nofollow", "nofollow ugc", 2),
        ("staging", "override", "allowed", "override", own, 3),
        ("shop", "delay", "refused", "crawl-delay", "Crawl-delay: 600", 1),
    ):
        given = {"layer": layer, "verdict": verdict, "reason": reason}
        for number in range(times):
            url = f"https://{host}.example/{layer}/{number}"
            ledger.decision(url, statement=statement, **given)
    ledger.crawl(spider="archive", started=START + 90000, ended=None)
    changed = PRESS.replace(b"/private/\n", b"/private/\nDisallow: /archive/\n", 1)
    ledger.snapshot(PRESS_HOST, changed, fetched=START + 90010)
    for number in range(8):
        url = f"{PRESS_HOST}/archive/{number}"
        ledger.refused(url, 4, "Disallow: /archive/", time=START + 91000 + number)
    return ledger.close()


NEWS = b"""\
User-agent: GPTBot
User-agent: CCBot
Disallow: /

User-agent: ClaudeBot
Disallow: /archive/

User-agent: Google-Extended
Disallow:

User-agent: PerplexityBot
Disallow: /
Allow: /about/

User-agent: *
Disallow: /search
Crawl-delay: 5
"""


def measured(path: Path) -> str:
    """A crawl whose ledger has what was fetched, and how the delays were kept."""
    ledger = Ledger(path)
    ledger.crawl("denied", started=START, ended=START + 5400)
    names = "news", "daily", "shop", "library", "a-long-name.of-a.university"
    for number, name in enumerate(names):
        origin = f"https://{name}.example"
        ledger.snapshot(origin, NEWS if number < 2 else PRESS)
        for hour in range(2):
            pages = 900 // (number + 1) + hour
            delay = 5.0 if number < 2 else 2.0
            ledger.traffic(origin, hour, pages=pages, bytes=pages * 23_456,
                delay=delay, gap=delay * (1.02 + number / 10 + hour / 10),
            )  # fmt: skip
        for each in range(30 // (number + 1)):
            url, time = f"{origin}/search?q={each}", START + 60 + 170 * each
            ledger.refused(url, 16, "Disallow: /search", time=time)
    ledger.traffic("https://bare.example", 0, pages=7, bytes=1234)
    ledger.snapshot("https://bare.example")
    ledger.traffic("https://busy.example", 0, pages=2, bytes=99, pauses=2, pause=60.0,
        resumed=61.5,
    )  # fmt: skip
    asked = {"layer": "delay", "verdict": "noted", "reason": "back-off"}
    for _ in range(2):
        url = "https://busy.example/"
        ledger.decision(url, statement="429, Retry-After: 60", agent=None, **asked)
    for minute in range(90):
        waiting = 900 - 10 * minute
        ledger.progress(minute, pages=20 + minute % 7, waiting=waiting)
    return ledger.close()


MARKUP = "<script>alert(1)</script></style></script><img src=x onerror=alert(2)>"
TERMINAL = "\x1b[31m\x1b]0;owned\x07\x00\x7f\x9b"
BIDI = "\u202egnp.exe\u2066\u200f\u061c\ufeff\u2028"


def hostile(path: Path) -> str:
    """Malicious text in each column that others can write into."""
    nasty = MARKUP + TERMINAL + BIDI + "{{ 7 * 7 }}{% raw %}\"'><b>"
    ledger = Ledger(path)
    ledger.crawl(
        user_agent=nasty,
        spider=nasty,
        agents=json.dumps([nasty]),
        dialect=nasty,
        finish_reason=nasty,
        settings={"REP_OVERRIDES": {nasty: nasty}, nasty: "\ud800"},
        versions=json.dumps({nasty: nasty}),
    )
    line = f"Disallow: /{nasty}"
    long = b"Disallow: /" + b"x" * 500_000
    lines = (
        f"User-agent: *\n{line}\nUser-agent: GPTBot\n{line}\n".encode()
        + b"\xff\x1b[2J\n"
        + long
    )
    origins = ("https://__proto__", "https://constructor", "javascript://x", nasty)
    for origin in origins:
        ledger.snapshot(
            origin,
            lines,
            url=f"javascript:{nasty}",
            redirects='["javascript:1"]',
        )
        for url in (nasty, "javascript:alert(3)", f"{origin}/" + "y" * 100_000):
            ledger.refused(url, 2, line, origin=origin)
    down = {"access": "unreachable", "status": None, "error": nasty}
    ledger.snapshot(f"https://down{nasty}", **down)
    ledger.decision(nasty, layer=nasty, verdict=nasty, reason=nasty, origin=nasty)
    extremes = {"delay": 253402300799.0, "gap": -62135596800.0, "resumed": 1e11}
    for origin, number in ((nasty, 2**40), ("javascript://x", 2), ("=1+1", 1)):
        numbers = {"pages": number, "bytes": number, "pauses": number}
        ledger.traffic(origin, 0, pause=1e-300, **numbers, **extremes)
        ledger.traffic(origin, number, pages=1, delay=1e-300, gap=1e11)
    for minute in (0, 2**53 // 60 - int(START)):
        ledger.progress(minute, pages=2**40, waiting=2**53)
    given = {"layer": "override", "reason": nasty, "statement": nasty}
    ledger.decision(nasty, verdict=nasty, origin=nasty, **given)
    return ledger.close()
