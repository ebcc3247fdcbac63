"""The fuzz targets. Each takes any bytes, and fails if the package cannot read them in bounded
processor time, or if something is not true that its docstring says.

In an input of several parts, a line ``%%`` separates the parts. A line that begins with ``%400x ``
is repeated 400 times: a fuzzer does not find long inputs on its own, but they show slow code.
"""

from __future__ import annotations

import io
import json
import re
import tempfile
import time
import zlib
from contextlib import (
    closing,
    contextmanager,
    redirect_stderr,
    redirect_stdout,
    suppress,
)
from dataclasses import replace
from datetime import timezone
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from scrapy_rep import RFC9309, IndexingRules, RobotsTxt, UsagePreferences, lint
from scrapy_rep.crawl.fetching.memory import MAX_SIZE, dumps
from scrapy_rep.crawl.fetching.sqlitestore import SqliteStore
from scrapy_rep.exceptions import StoreError
from scrapy_rep.protocol.indexing import metatags
from scrapy_rep.protocol.indexing.dates import read_date
from scrapy_rep.protocol.robotstxt.rules import Reason
from scrapy_rep.protocol.usage.sites import TdmRep
from scrapy_rep.protocol.usage.statements import CATEGORIES
from tests.fetching.places import ORIGIN, START, check_data, entry
from tests.protocol.indexing.test_rules import check_headers, check_written
from tests.protocol.reference import (
    Reference,
    Target,
    matches,
    read_patterns,
    url_target,
)
from tests.protocol.robotstxt.test_agreement import DIALECTS, verdict
from tests.protocol.test_linter import IDLE, check
from tests.tools.rep import execute
from tests.tools.report.ledgers import Ledger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SEEDS = Path(__file__).with_name("seeds")
AGENTS = ("mybot", "mybot-image")
# TDMRep's rules are in sequence: the first that matches decides.
IN_SEQUENCE = replace(RFC9309, name="tdmrep", rule_choice="first")
# Processor time on a slow machine, with coverage measured. A quadratic reader takes more: 64 KiB
# compared byte by byte are four thousand million steps.
SECONDS = 2.0
SECONDS_FOR_A_BYTE = 100e-6
# In bytes: what a repeated line may grow to, and what the slow reference reads in a moment.
GROWN_AT_MOST = 65_536
REFERENCE_AT_MOST = 2_000


def robotstxt(data: bytes) -> None:
    """Read a robots.txt, for a URL or path and product tokens. In every dialect, the first decision,
    which is made from a part of the rules, and later ones agree with the plain reference. Findings
    are as they must be, and a line outside of any group does not decide.
    """
    body, url, names = _parts(data, 3)
    body, url = _grown(body), _text(_grown(url))
    if not re.match(r"[A-Za-z]+://[A-Za-z0-9.]+/", url):
        url = f"https://example.com/{url}"
    agents = tuple(dict.fromkeys(re.findall(r"[A-Za-z0-9_.-]+", _text(names))[:4]))
    agents = agents or ("bot",)
    is_short = len(body) + len(url) < REFERENCE_AT_MOST
    for dialect in DIALECTS:
        with _bounded(len(body) + len(url)):
            robots = RobotsTxt.parse(body, dialect, url)
            first = robots.is_allowed(url, agents)
            decided = verdict(robots, url, agents)
            assert all("://" in sitemap for sitemap in robots.sitemaps)
            delay, rate = robots.crawl_delay(agents), robots.request_rate(agents)
            check(body, dialect)
            idle = {
                finding.line for finding in lint(body, dialect) if finding.code in IDLE
            }
        assert first is decided[0]
        assert decided[1] not in idle, dialect.name
        assert delay is None or 0 <= delay < float("inf")
        assert rate is None or rate.delay > 0
        if is_short and decided[3] != Reason.TOO_LONG.value:
            assert decided == Reference(body, dialect).decide(url, agents), dialect.name


def robotstag(data: bytes) -> None:
    """Read values of ``X-Robots-Tag``, one a line. The header written from the rules has the same
    rules, one more ``noindex`` never allows more, and statements for others change nothing.
    """
    values = _grown(data).split(b"\n")
    with _bounded(sum(map(len, values))):
        for dialect in DIALECTS:
            check_written(IndexingRules.of_page(values, (), AGENTS, dialect), dialect)
            if len(values) < 500:
                check_headers(values, b"noindex", dialect)


def html(data: bytes) -> None:
    """Read a page and the encoding that its header declares. The fast search, which skips most of
    a page, misses no tag, and a page in ASCII has the same rules in UTF-16.
    """
    page, encoding = _parts(data, 2)
    page, declared = _grown(page), _text(encoding[:40]) or None
    with _bounded(len(page)):
        rules = IndexingRules.parse((), page, AGENTS, RFC9309, declared)
        check_written(rules, RFC9309)
    with patch.object(metatags, "_may_be_ours", lambda *_: True):
        assert rules == IndexingRules.parse((), page, AGENTS, RFC9309, declared)
    # These are read before the page is decoded.
    if page.isascii() and not {0, 0x1B} & set(page):
        wide = page.decode().encode("utf-16")
        narrow = IndexingRules.parse((), page, AGENTS)
        assert IndexingRules.parse((), wide, AGENTS) == narrow


def dates(data: bytes) -> None:
    """Read a date. It is in UTC and not before 1900, its ISO form is the same date, case and
    white space around it do not matter, and ``unavailable_after`` has the same date.
    """
    written = _text(data)
    with _bounded(len(data)):
        date = read_date(written)
        rules = IndexingRules.of_page([f"unavailable_after: {written}".encode()])
        check_written(rules, RFC9309)
    if date is not None:
        assert (date.tzinfo, date.year >= 1900) == (timezone.utc, True)
        assert read_date(date.isoformat()) == date
        assert read_date(written.lower()) == read_date(written.upper()) == date
        assert len(written) > 70 or read_date(f" {written}\t") == date
        assert set(written) & set(",\r\n") or rules.unavailable_after == date


def usage(data: bytes) -> None:
    """Read preferences in header fields, a page and a robots.txt, for a path. Each value has a
    statement, which stands in an existing line; the robots.txt has none for a disallowed path.
    """
    headers, page, body, path = (_grown(part) for part in _parts(data, 4))
    fields = [
        (_text(name).strip(), value.strip())
        for name, _, value in (line.partition(b":") for line in headers.split(b"\n"))
    ]
    url = f"https://example.com/{_text(path)}"
    lines = body.count(b"\n") + body.count(b"\r") + 1
    lines += len(body.decode("utf-16", "replace").splitlines())
    with _bounded(len(headers) + len(page) + len(body) + len(url)):
        stated = UsagePreferences.parse(fields, page, ("mybot",))
        for dialect in DIALECTS:
            robots = RobotsTxt.parse(body, dialect)
            stated_for_url = robots.usage(url, "mybot")
            assert not stated_for_url or robots.is_allowed(url, "mybot")
            assert all(
                1 <= statement.position <= lines
                for statement in stated_for_url.statements
            )
            for preferences in (stated, stated_for_url, stated | stated_for_url):
                _check_statements(preferences)


def tdmrep(data: bytes) -> None:
    """Read a ``tdmrep.json``, for a path. The first rule whose location matches decides, as in the
    plain reference.
    """
    body, path = _parts(data, 2)
    body, url = _grown(body), f"https://example.com/{_text(_grown(path))}"
    with _bounded(len(body) + len(url)):
        file = TdmRep.parse(body)
        stated_for_url = file.usage(url)
    _check_statements(stated_for_url)
    assert file.is_valid or not stated_for_url
    if file.is_valid and len(body) + len(url) < REFERENCE_AT_MOST:
        target = url_target(url, IN_SEQUENCE)
        numbers = (
            number
            for number, rule in enumerate(json.loads(body), 1)
            if _is_rule_for(target, rule)
        )
        assert {statement.position for statement in stated_for_url.statements} <= {
            next(numbers, 0)
        }


def stored(data: bytes) -> None:
    """Read what a store has as an entry, before it is compressed as entries are: a line of JSON
    and a body. It is refused with ``ValueError``, or can be used.
    """
    with _bounded(len(data) + MAX_SIZE):
        for written in (data, zlib.compress(data)):
            check_data(written)


def sqlite(data: bytes) -> None:
    """Write over the file of an SQLite store. Each call works or raises ``StoreError``; what is
    read is a whole entry.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store"
        path.write_bytes(_written_over(_whole_store(), data))
        with _bounded(len(data)), closing(SqliteStore(path, timeout=0.1)) as store:
            for _ in range(2):
                with suppress(StoreError):
                    data: Any = store.get(ORIGIN)
                    check_data(data or b"")
                    store.put(ORIGIN, dumps(entry()), START)
                    # In a damaged file, a new entry may not be found again.
                    assert store.get(ORIGIN) in {None, dumps(entry())}


def ledger(data: bytes) -> None:
    """Write over the file of a ledger. The commands that read it end with status 0, 1, or with 2
    and one line that says why.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "crawl.rep"
        path.write_bytes(_written_over(_whole_ledger(), data))
        robots = Path(folder) / "robots.txt"
        robots.write_bytes(b"User-agent: *\nDisallow: /private\n")
        for arguments in (
            ["report", str(path), "-o", str(Path(folder) / "report.html")],
            ["report", str(path), "--json"],
            ["diff", str(path), str(robots)],
            ["diff", str(path), str(robots), "--json"],
            ["why", "example.com", str(path), "--limit", "5"],
        ):
            out, err = io.StringIO(), io.StringIO()
            with _bounded(len(data)), redirect_stdout(out), redirect_stderr(err):
                status = execute(arguments, {"USER_AGENT": "mybot"})
            assert status in {0, 1} or (status, err.getvalue().count("\n")) == (2, 1)


TARGETS: dict[str, Callable[[bytes], None]] = {
    target.__name__: target
    for target in (
        robotstxt, robotstag, html, dates, usage, tdmrep, stored, sqlite, ledger
    )
}  # fmt: skip


def _parts(data: bytes, count: int) -> list[bytes]:
    """The first *count* parts of an input; missing parts are empty."""
    data_parts = data.split(b"\n%%\n", count - 1)
    return data_parts + [b""] * (count - len(data_parts))


def _grown(part: bytes) -> bytes:
    """The part with its lines repeated as they say."""
    lines, size = [], 0
    for line in part.split(b"\n"):
        match = re.match(rb"%(\d{1,4})x ", line)
        text = line[match.end() :] if match else line
        most = (GROWN_AT_MOST - size) // (len(text) + 1)
        times = max(1, min(int(match[1]), most)) if match else 1
        size += times * (len(text) + 1)
        lines += [text] * times
    return b"\n".join(lines)


def _text(part: bytes) -> str:
    return part.decode("utf-8", "replace")


@contextmanager
def _bounded(size: int) -> Iterator[None]:
    """Fail if the block takes more processor time than *size* bytes justify."""
    start = time.process_time()
    yield
    took = time.process_time() - start
    most = SECONDS + size * SECONDS_FOR_A_BYTE
    assert took < most, f"{took:.2f} s for {size} bytes, and at most {most:.2f} s"


def _check_statements(preferences: UsagePreferences) -> None:
    for category in CATEGORIES:
        value, statement = preferences.get(category), preferences.because(category)
        assert (value is None) == (statement is None)
        if statement is not None:
            assert (statement.category, statement.value) == (category, value)
            assert str(statement)
    assert json.dumps(preferences.to_dict())


def _is_rule_for(target: Target, rule: object) -> bool:
    location = rule.get("location") if isinstance(rule, dict) else None
    if not isinstance(location, str) or not (location := location.strip(" \t\v\f")):
        return False
    octets = location.encode("utf-8", "surrogatepass")
    patterns = read_patterns("disallow", octets, IN_SEQUENCE)
    return any(matches(pattern, target, IN_SEQUENCE) for pattern in patterns)


def _written_over(octets: bytes, data: bytes) -> bytes:
    """A file overwritten with *data*: two bytes of position, one of length, and the new bytes,
    repeatedly.
    """
    file = bytearray(octets)
    while len(data) > 3:
        place, end = int.from_bytes(data[:2], "big"), 3 + data[2]
        file[place : place + len(data[3:end])] = data[3:end]
        data = data[end:]
    return bytes(file)


@cache
def _whole_store() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store"
        with closing(SqliteStore(path)) as store:
            for key in (ORIGIN, f"{ORIGIN}:1", f"{ORIGIN}:2", f"{ORIGIN}:3"):
                store.put(key, dumps(entry()), START)
        return path.read_bytes()


@cache
def _whole_ledger() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger"
        made = Ledger(path)
        body = b"User-agent: *\nDisallow: /old\nContent-Usage: train-ai=n\n"
        made.snapshot(ORIGIN, body)
        made.snapshot("https://example.org", access="unreachable", error="reset")
        made.refused(f"{ORIGIN}/old", 2, "Disallow: /old")
        made.allowed(f"{ORIGIN}/private")
        made.traffic(ORIGIN, 0, pages=1, bytes=9)
        made.gap(ORIGIN, 1.0, 1.5)
        made.gap(ORIGIN, 2.0, 3.0, kind="pause")
        made.progress(0, pages=1, waiting=1)
        made.close()
        return path.read_bytes()
