"""A builder of ledgers, and ledgers for tests of the report, which are written without a crawl."""

from __future__ import annotations

import json
import sqlite3
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from scrapy_rep.crawl.ledger.reader import APPLICATION_ID, TABLES, VERSION

if TYPE_CHECKING:
    from pathlib import Path

START = 1_790_000_000.0
"""The default start of a crawl, in September 2026."""


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
    "is_page": 0,
    "redirects": "[]", "headers": "[]", "fetched": START + 10, "expires": START + 86410,
}  # fmt: skip
_DECISION = {
    "time": START + 600, "subject": "request", "layer": "robots.txt", "verdict": "refused",
    "reason": "rule",
}  # fmt: skip


class Ledger:
    """A ledger that is open for writing.

    Each kind of row has a method, which takes the columns by name and has defaults for them. A row
    belongs to the latest crawl, and a decision to the latest robots.txt of its origin.
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
        """Add a crawl, to which later rows belong. *level* is its REP_LEDGER_LEVEL."""
        settings = {"REP_LEDGER_LEVEL": level, **columns.pop("settings", {})}
        row = {
            "uuid": str(uuid4()),
            **_CRAWL,
            "settings": json.dumps(settings),
            **columns,
        }
        self._crawl = self._insert("crawl", row)

    def snapshot(self, origin: str, body: bytes | None = None, **columns: Any) -> None:
        """Add a robots.txt of *origin* with this *body*, or a status of 404 if *body* is None."""
        values = {"access": "unavailable", "status": 404, "sha256": None}
        if body is not None:
            digest = sha256(body).hexdigest()
            insert = "INSERT OR IGNORE INTO body VALUES (?, ?)"
            self.connection.execute(insert, (digest, body))
            values = {"access": "successful", "status": 200, "sha256": digest}
        row = {"origin": origin, "url": f"{origin}/robots.txt", **_SNAPSHOT, **values}
        self._snapshots[origin] = self._add("snapshot", {**row, **columns})

    def decision(self, url: str, **columns: Any) -> None:
        """Add a decision on *url*, by default a refusal because of a rule."""
        origin = "/".join(url.split("/")[:3])
        row = {"origin": origin, "url": url, **_DECISION, **columns}
        self._add("decision", {"snapshot": self._snapshots.get(row["origin"]), **row})

    def traffic(self, origin: str, hour: int, **columns: Any) -> None:
        """Add the traffic of an hour. *hour* is counted from :data:`START`."""
        values = {"hour": int(START) + 3600 * hour, "pages": 0, "bytes": 0}
        self._add("traffic", {"origin": origin, **values, **columns})

    def gap(
        self, origin: str, asked: float, gap: float | None, kind: str = "delay"
    ) -> None:
        """Add the time *gap* from a response to the next request. *asked* is the delay or pause
        (*kind*) that the host asked for; both are in seconds.
        """
        values = {
            "origin": origin,
            "kind": kind,
            "time": START,
            "asked": asked,
            "gap": gap,
        }
        self._add("gap", values)

    def progress(self, minute: int, **columns: Any) -> None:
        """Add the progress of a minute. *minute* is counted from :data:`START`."""
        values = {"minute": int(START) + 60 * minute, "pages": 0}
        self._add("progress", {**values, **columns})

    def count_pages(self) -> None:
        """Count the pages of all allowed requests in the tables ``traffic`` and ``progress``, as if each
        request had fetched a page of 100 bytes at the time of its decision.
        """
        pages = "FROM decision WHERE verdict = 'allowed' GROUP BY"
        self.connection.execute(
            "INSERT INTO traffic (crawl, hour, origin, pages, bytes) SELECT crawl,"
            f" CAST(time AS INTEGER) / 3600 * 3600, origin, count(*), 100 * count(*) {pages} 1, 2, 3"
        )
        self.connection.execute(
            "INSERT INTO progress (crawl, minute, pages)"
            f" SELECT crawl, CAST(time AS INTEGER) / 60 * 60, count(*) {pages} 1, 2"
        )

    def refused(self, url: str, line: int, rule: str, **columns: Any) -> None:
        """Add the refusal of *url* because of the *rule* in a line of robots.txt."""
        self.decision(url, **{"agent": "*", "line": line, "statement": rule, **columns})

    def allowed(self, url: str, **columns: Any) -> None:
        """Add a decision that allows *url*, by default because no rule matches."""
        values = {"verdict": "allowed", "reason": "no-rule", "agent": "*"}
        self.decision(url, **{**values, **columns})

    def _add(self, table: str, row: dict[str, Any]) -> int:
        """Add a row of the latest crawl. If there is no crawl yet, add one."""
        if not self._crawl:
            self.crawl()
        return self._insert(table, {"crawl": self._crawl, **row})

    def close(self) -> str:
        """Close the ledger and return its path."""
        self.connection.commit()
        self.connection.close()
        return self.path

    def _insert(self, table: str, row: dict[str, Any]) -> int:
        columns, placeholders = ", ".join(row), ", ".join("?" * len(row))
        insert = f"INSERT INTO {table} ({columns}) VALUES ({placeholders})"
        cursor = self.connection.execute(insert, tuple(row.values()))
        return cursor.lastrowid or 0


BACK_OFF = {"layer": "delay", "verdict": "noted", "reason": "back-off"}
DOWN: dict[str, Any] = {"access": "unreachable", "status": None}

PRESS_HOST, SHOP = "https://press.example", "https://shop.example"
BUSY, OLD, USE = "https://busy.example", "https://old.example", "https://use.example"
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


def write_eventful_ledger(path: Path) -> str:  # noqa: PLR0912, PLR0915  A long list of rows.
    """Write a ledger of two crawls with nearly all kinds of events. Return its path. The times between requests are not
    recorded, so the report says that no request had to keep to a delay.
    """
    ledger = Ledger(path)
    overrides = {"staging.example": "ignore", "*.partner.example": "User-agent: *\n"}
    store = "redis://crawler:secret@store.example/0"
    ledger.crawl(
        settings={
            "REP_OVERRIDES": overrides,
            "REP_NOFOLLOW": "ignore",
            "REP_STORE": store,
        }
    )
    for origin, pages in ((PRESS_HOST, 60), (SHOP, 30)):
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
                rule = {
                    "reason": "rule",
                    "line": 5,
                    "statement": "Allow: /private/press-kit/",
                }
                ledger.allowed(f"{origin}/private/press-kit/{number}", **rule)
    # Outages and pauses.
    for hour, error in enumerate(("timed out", "reset", "refused")):
        time = START + 3600 * hour
        ledger.snapshot("https://gone.example", **DOWN, error=error, fetched=time)
    ledger.snapshot(BUSY, **DOWN | {"status": 503})
    ledger.snapshot(BUSY, b"User-agent: *\n", fetched=START + 50)
    pauses = {"statement": "429, Retry-After: 5", "agent": None, **BACK_OFF}
    for time in (100, 110, 116.5):
        ledger.allowed(f"{BUSY}/", time=START + time)
        if time != 116.5:
            ledger.decision(f"{BUSY}/", time=START + time + 1, **pauses)
    ledger.snapshot(
        OLD, b"Disallow: /x", **DOWN | {"status": 503}, copy_of=START - 4000
    )
    ledger.refused(f"{OLD}/x", 2, "Disallow: /x")
    # Hosts without a robots.txt.
    for number, status in enumerate((404, 404, 404, 403, 301, 499)):
        bare = f"https://bare-{number}.example"
        ledger.snapshot(bare, status=410)
        error = "redirected more than 5 times, in a loop" if status == 301 else None
        ledger.snapshot(bare, status=status, error=error, fetched=START + 60)
        ledger.allowed(f"{bare}/", reason="unavailable", agent=None)
    for url in (f"{bare}/", "https://gone.example/1", "https://gone.example/2"):
        ledger.decision(
            url, reason="unavailable" if url.startswith(bare) else "unreachable"
        )
    # Statements of pages, and usage preferences.
    note = "staging.example: ignore (our own; until 2027-01-01)"
    for host, layer, verdict, reason, statement, times in (
        ("shop", "header", "dropped", "noindex", "noindex", 5),
        ("shop", "meta", "dropped", "nofollow", "noindex, nofollow", 3),
        ("shop", "meta", "annotated", "noindex", "mybot: noindex", 1),
        ("shop", "rel", "dropped", "nofollow", "nofollow ugc", 2),
        ("staging", "override", "allowed", "override", note, 3),
        ("shop", "delay", "refused", "crawl-delay", "Crawl-delay: 600", 1),
        ("use", "usage", "dropped", "search", None, 1),
    ):
        values = {"layer": layer, "verdict": verdict, "reason": reason}
        for number in range(times):
            url = f"https://{host}.example/{layer}/{number}"
            ledger.decision(url, statement=statement, **values)
    usage_line = "Content-Usage: /a/ train-ai=n"
    ledger.snapshot(USE, f"User-agent: *\n{usage_line}\nDisallow: /b/\n".encode())
    ledger.refused(f"{USE}/b/1", 3, "Disallow: /b/")
    usage: dict[str, Any] = {"layer": "usage", "reason": "train-ai"}
    in_file = {"line": 2, "statement": usage_line, "source": "robots.txt", **usage}
    for number, verdict in enumerate(("dropped", "dropped", "noted")):
        ledger.decision(f"{USE}/a/{number}", verdict=verdict, page=USE, **in_file)
    header = {"statement": "<b>noai", "source": "header", **usage}
    ledger.decision(f"{SHOP}/x", verdict="annotated", **header)
    # The second crawl.
    ledger.crawl(spider="archive", started=START + 90000, ended=None)
    changed = PRESS.replace(b"/private/\n", b"/private/\nDisallow: /archive/\n", 1)
    ledger.snapshot(PRESS_HOST, changed, fetched=START + 90010)
    for number in (*range(8), 7):
        url = f"{PRESS_HOST}/archive/{number}"
        ledger.refused(url, 4, "Disallow: /archive/", time=START + 91000 + number)
    ledger.count_pages()
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


def write_measured_ledger(path: Path) -> str:
    """Write a ledger of a crawl that recorded no allowed requests (level "denied"). Return its path. The ledger has
    traffic, progress and times between requests. The crawl kept to all delays.
    """
    ledger = Ledger(path)
    ledger.crawl("denied", started=START, ended=START + 5400)
    names = "news", "daily", "shop", "library", "a-long-name.of-a.university"
    for number, name in enumerate(names):
        origin = f"https://{name}.example"
        ledger.snapshot(origin, NEWS if number < 2 else PRESS)
        for hour in range(2):
            pages = 900 // (number + 1) + hour
            delay = 5.0 if number < 2 else 2.0
            ledger.traffic(origin, hour, pages=pages, bytes=pages * 23_456)
            ledger.gap(origin, delay, delay * (1.02 + number / 10 + hour / 10))
        for page in range(30 // (number + 1)):
            url, time = f"{origin}/search?q={page}", START + 60 + 170 * page
            ledger.refused(url, 16, "Disallow: /search", time=time)
    ledger.traffic("https://bare.example", 0, pages=7, bytes=1234)
    ledger.snapshot("https://bare.example")
    ledger.traffic(BUSY, 0, pages=2, bytes=99)
    ledger.gap(BUSY, 60.0, 61.5, kind="pause")
    for _ in range(2):
        ledger.decision(f"{BUSY}/", statement="429, Retry-After: 60", **BACK_OFF)
    for minute in range(90):
        waiting = 900 - 10 * minute
        ledger.progress(minute, pages=20 + minute % 7, waiting=waiting)
    return ledger.close()


MARKUP = "<script>alert(1)</script></style></script><img src=x onerror=alert(2)>"
TERMINAL = "\x1b[31m\x1b]0;owned\x07\x00\x7f\x9b"
BIDI = "\u202egnp.exe\u2066\u200f\u061c\ufeff\u2028"


def write_hostile_ledger(path: Path) -> str:
    """Write a ledger with malicious text in each column whose text can come from a site. Return its path."""
    nasty = MARKUP + TERMINAL + BIDI + "{{ 7 * 7 }}{% raw %}\"'><b>"
    ledger = Ledger(path)
    json_list, json_object = json.dumps([nasty]), json.dumps({nasty: nasty})
    settings = {"REP_OVERRIDES": {nasty: nasty}, nasty: "\ud800"}
    columns = {"finish_reason": nasty, "settings": settings, "versions": json_object}
    ledger.crawl(
        user_agent=nasty, spider=nasty, agents=json_list, dialect=nasty, **columns
    )
    line = f"Disallow: /{nasty}"
    lines = f"User-agent: *\n{line}\nUser-agent: GPTBot\n{line}\n".encode()
    lines += b"\xff\x1b[2J\nDisallow: /" + b"x" * 500_000
    addresses = {"url": f"javascript:{nasty}", "redirects": '["javascript:1"]'}
    for origin in ("https://__proto__", "https://constructor", "javascript://x", nasty):
        ledger.snapshot(origin, lines, **addresses)
        for url in (nasty, "javascript:alert(3)", f"{origin}/" + "y" * 100_000):
            ledger.refused(url, 2, line, origin=origin)
    ledger.snapshot(f"https://down{nasty}", **DOWN, error=nasty)
    ledger.decision(nasty, layer=nasty, verdict=nasty, reason=nasty, origin=nasty)
    for origin, number in ((nasty, 2**40), ("javascript://x", 2), ("=1+1", 1)):
        ledger.traffic(origin, 0, pages=number, bytes=number)
        ledger.traffic(origin, number, pages=1)
        for kind in ("delay", "pause", nasty):
            ledger.gap(origin, 253402300799.0, -62135596800.0, kind)
            ledger.gap(origin, 1e-300, 1e11, kind)
            ledger.gap(origin, 0.0, 0.0, kind)
    for minute in (0, 2**53 // 60 - int(START)):
        ledger.progress(minute, pages=2**40, waiting=2**53)
    values = {"layer": "override", "reason": nasty, "statement": nasty}
    ledger.decision(nasty, verdict=nasty, origin=nasty, **values)
    return ledger.close()
