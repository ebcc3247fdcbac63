"""The fuzz targets: functions that take any bytes, the *input*, and pass them to the package. A target fails if
the package needs too much processor time, or if a check in the docstring of the target fails.

If an input has several parts, a line ``%%`` separates them. A line that begins with ``%400x `` stands for 400
lines. Without this notation, a fuzzer would not find the long inputs that reveal slow code.
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
from tests.protocol.indexing.test_rules import check_headers, check_round_trip
from tests.protocol.reference import (
    Reference,
    Target,
    matches,
    read_patterns,
    url_target,
)
from tests.protocol.robotstxt.test_agreement import DIALECTS, verdict
from tests.protocol.test_linter import INEFFECTIVE, check_findings
from tests.tools.rep import execute
from tests.tools.report.ledgers import Ledger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SEEDS = Path(__file__).with_name("seeds")
AGENTS = ("mybot", "mybot-image")
# The first rule of TDMRep that matches decides.
FIRST_RULE = replace(RFC9309, name="tdmrep", rule_choice="first")
# The limit for processor time is SECONDS plus SECONDS_PER_BYTE for each byte. The limit is enough for a slow machine
# that measures coverage, but not for quadratic time: comparing each byte of 64 KiB with each other byte takes four
# thousand million steps.
SECONDS = 2.0
SECONDS_PER_BYTE = 100e-6
# The maximum size in bytes of a part of an input, after _repeated() has written out the repeated lines of the part.
MAX_PART = 65_536
# The maximum size in bytes of an input that is compared with the reference implementation, which is slow.
MAX_FOR_REFERENCE = 2_000


def robotstxt(data: bytes) -> None:
    """Parse a robots.txt and decide on a URL. The parts of the input are the file, the URL or its path, and product
    tokens.

    Check in every dialect that the decision agrees with the reference implementation, and that the linter's findings
    are valid. If the linter finds that a line is outside of any group, the rule in this line must not decide. The
    first decision after parsing, for which the package reads only some of the rules, must be the same as later
    decisions.
    """
    body, url, names = _parts(data, 3)
    body, url = _repeated(body), _text(_repeated(url))
    if not re.match(r"[A-Za-z]+://[A-Za-z0-9.]+/", url):
        url = f"https://example.com/{url}"
    agents = tuple(dict.fromkeys(re.findall(r"[A-Za-z0-9_.-]+", _text(names))[:4]))
    agents = agents or ("bot",)
    is_short = len(body) + len(url) < MAX_FOR_REFERENCE
    for dialect in DIALECTS:
        with _bounded(len(body) + len(url)):
            robots = RobotsTxt.parse(body, dialect, url)
            first = robots.is_allowed(url, agents)
            actual = verdict(robots, url, agents)
            assert all("://" in sitemap for sitemap in robots.sitemaps)
            delay, rate = robots.crawl_delay(agents), robots.request_rate(agents)
            check_findings(body, dialect)
            ineffective = {
                finding.line
                for finding in lint(body, dialect)
                if finding.code in INEFFECTIVE
            }
        assert first is actual[0]
        assert actual[1] not in ineffective, dialect.name
        assert delay is None or 0 <= delay < float("inf")
        assert rate is None or rate.delay > 0
        if is_short and actual[3] != Reason.TOO_LONG.value:
            assert actual == Reference(body, dialect).decide(url, agents), dialect.name


def robotstag(data: bytes) -> None:
    """Parse ``X-Robots-Tag`` headers. Each line of the input is the value of a header.

    Check that an additional ``noindex`` never allows more, and that statements for other crawlers have no effect. If
    the rules are written as a header and parsed again, they must stay the same.
    """
    values = _repeated(data).split(b"\n")
    with _bounded(sum(map(len, values))):
        for dialect in DIALECTS:
            check_round_trip(
                IndexingRules.of_page(values, (), AGENTS, dialect), dialect
            )
            if len(values) < 500:
                check_headers(values, b"noindex", dialect)


def html(data: bytes) -> None:
    """Parse the indexing rules of an HTML page. The parts of the input are the page, and the encoding that the
    Content-Type header declares.

    For speed, the package skips meta tags with names that cannot matter. Check that the rules are the same without
    skipping. If the page is ASCII, check that it has the same rules in UTF-16.
    """
    page, encoding = _parts(data, 2)
    page, declared = _repeated(page), _text(encoding[:40]) or None
    with _bounded(len(page)):
        rules = IndexingRules.parse((), page, AGENTS, RFC9309, declared)
        check_round_trip(rules, RFC9309)
    with patch.object(metatags, "_may_be_ours", lambda *_: True):
        assert rules == IndexingRules.parse((), page, AGENTS, RFC9309, declared)
    # Not for pages with null bytes or escape characters: the parser looks for them before it decodes a page, so they
    # can have another effect in UTF-16.
    if page.isascii() and not {0, 0x1B} & set(page):
        utf_16_page = page.decode().encode("utf-16")
        ascii_rules = IndexingRules.parse((), page, AGENTS)
        assert IndexingRules.parse((), utf_16_page, AGENTS) == ascii_rules


def dates(data: bytes) -> None:
    """Parse the input as a date.

    If the input is a date, check that the result is in UTC and not before 1900, and that parsing the result in ISO
    format returns the same date. Upper case, lower case, and white space around the input must not change the
    result. The header ``unavailable_after: <input>`` must have the same date.
    """
    text = _text(data)
    with _bounded(len(data)):
        date = read_date(text)
        rules = IndexingRules.of_page([f"unavailable_after: {text}".encode()])
        check_round_trip(rules, RFC9309)
    if date is not None:
        assert (date.tzinfo, date.year >= 1900) == (timezone.utc, True)
        assert read_date(date.isoformat()) == date
        assert read_date(text.lower()) == read_date(text.upper()) == date
        assert len(text) > 70 or read_date(f" {text}\t") == date
        assert set(text) & set(",\r\n") or rules.unavailable_after == date


def usage(data: bytes) -> None:
    """Parse usage preferences. The parts of the input are header fields, a page, a robots.txt and a path.

    Check that each preference comes with the statement that states it. A statement of the robots.txt must have the
    number of a line that exists. If the robots.txt disallows the path, it must state no preference for the path.
    """
    headers, page, body, path = (_repeated(part) for part in _parts(data, 4))
    fields = [
        (_text(name).strip(), value.strip())
        for name, _, value in (line.partition(b":") for line in headers.split(b"\n"))
    ]
    url = f"https://example.com/{_text(path)}"
    lines = body.count(b"\n") + body.count(b"\r") + 1
    lines += len(body.decode("utf-16", "replace").splitlines())
    with _bounded(len(headers) + len(page) + len(body) + len(url)):
        of_response = UsagePreferences.parse(fields, page, ("mybot",))
        for dialect in DIALECTS:
            robots = RobotsTxt.parse(body, dialect)
            of_url = robots.usage(url, "mybot")
            assert not of_url or robots.is_allowed(url, "mybot")
            assert all(
                1 <= statement.position <= lines for statement in of_url.statements
            )
            for preferences in (of_response, of_url, of_response | of_url):
                _check_statements(preferences)


def tdmrep(data: bytes) -> None:
    """Parse a ``tdmrep.json``. The parts of the input are the file and a path.

    Check that the first rule whose location matches the path decides. The reference implementation determines which
    locations match.
    """
    body, path = _parts(data, 2)
    body, url = _repeated(body), f"https://example.com/{_text(_repeated(path))}"
    with _bounded(len(body) + len(url)):
        file = TdmRep.parse(body)
        preferences = file.usage(url)
    _check_statements(preferences)
    assert file.is_valid or not preferences
    if file.is_valid and len(body) + len(url) < MAX_FOR_REFERENCE:
        target = url_target(url, FIRST_RULE)
        numbers = (
            number
            for number, rule in enumerate(json.loads(body), 1)
            if _is_rule_for(target, rule)
        )
        assert {statement.position for statement in preferences.statements} <= {
            next(numbers, 0)
        }


def stored(data: bytes) -> None:
    """Load a cache entry from the bytes that a store returns. An entry is a line of JSON and a body, compressed with
    zlib. The input is loaded twice: first as it is, then compressed.

    Check that loading raises ``ValueError`` or returns an entry that a crawl can use.
    """
    with _bounded(len(data) + MAX_SIZE):
        for stored_data in (data, zlib.compress(data)):
            check_data(stored_data)


def sqlite(data: bytes) -> None:
    """Damage the file of an SQLite store. The input says which bytes are overwritten (see :func:`_overwritten`).

    Check that ``get`` and ``put`` of the store succeed or raise ``StoreError``, and that ``get`` never returns only a
    part of an entry.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store"
        path.write_bytes(_overwritten(_whole_store(), data))
        with _bounded(len(data)), closing(SqliteStore(path, timeout=0.1)) as store:
            for _ in range(2):
                with suppress(StoreError):
                    data: Any = store.get(ORIGIN)
                    check_data(data or b"")
                    store.put(ORIGIN, dumps(entry()), START)
                    # In a damaged file, the entry may be missing although it was just stored.
                    assert store.get(ORIGIN) in {None, dumps(entry())}


def ledger(data: bytes) -> None:
    """Damage the file of a ledger. The input says which bytes are overwritten (see :func:`_overwritten`).

    Check that each command that reads a ledger exits with status 0 or 1, or with status 2 and a message of one line.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "crawl.rep"
        path.write_bytes(_overwritten(_whole_ledger(), data))
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
    """Return the first *count* parts of an input. Missing parts are empty."""
    data_parts = data.split(b"\n%%\n", count - 1)
    return data_parts + [b""] * (count - len(data_parts))


def _repeated(part: bytes) -> bytes:
    """Return *part* with its repeated lines written out. For example, ``%3x a`` becomes three lines ``a``. If the
    result would be longer than ``MAX_PART`` bytes, lines are repeated less often, but at least once.
    """
    lines, size = [], 0
    for line in part.split(b"\n"):
        match = re.match(rb"%(\d{1,4})x ", line)
        text = line[match.end() :] if match else line
        max_times = (MAX_PART - size) // (len(text) + 1)
        times = max(1, min(int(match[1]), max_times)) if match else 1
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
    seconds = time.process_time() - start
    limit = SECONDS + size * SECONDS_PER_BYTE
    assert seconds < limit, f"{seconds:.2f} s for {size} bytes; limit: {limit:.2f} s"


def _check_statements(preferences: UsagePreferences) -> None:
    """Assert that each preference has the statement that states it, and that *preferences* can be written as JSON."""
    for category in CATEGORIES:
        value, statement = preferences.get(category), preferences.because(category)
        assert (value is None) == (statement is None)
        if statement is not None:
            assert (statement.category, statement.value) == (category, value)
            assert str(statement)
    assert json.dumps(preferences.to_dict())


def _is_rule_for(target: Target, rule: object) -> bool:
    """Return True if *rule*, any value of a ``tdmrep.json``, is a rule that matches the target."""
    location = rule.get("location") if isinstance(rule, dict) else None
    if not isinstance(location, str) or not (location := location.strip(" \t\v\f")):
        return False
    octets = location.encode("utf-8", "surrogatepass")
    patterns = read_patterns("disallow", octets, FIRST_RULE)
    return any(matches(pattern, target, FIRST_RULE) for pattern in patterns)


def _overwritten(octets: bytes, data: bytes) -> bytes:
    """Return *octets*, the content of a file, with some bytes overwritten. *data* is a sequence of changes. Each
    change is two bytes for the position, one byte for the length, and the new bytes.
    """
    file = bytearray(octets)
    while len(data) > 3:
        start, end = int.from_bytes(data[:2], "big"), 3 + data[2]
        file[start : start + len(data[3:end])] = data[3:end]
        data = data[end:]
    return bytes(file)


@cache
def _whole_store() -> bytes:
    """Return the file of an undamaged SQLite store."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store"
        with closing(SqliteStore(path)) as store:
            for key in (ORIGIN, f"{ORIGIN}:1", f"{ORIGIN}:2", f"{ORIGIN}:3"):
                store.put(key, dumps(entry()), START)
        return path.read_bytes()


@cache
def _whole_ledger() -> bytes:
    """Return the file of an undamaged ledger."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger"
        ledger = Ledger(path)
        body = b"User-agent: *\nDisallow: /old\nContent-Usage: train-ai=n\n"
        ledger.snapshot(ORIGIN, body)
        ledger.snapshot("https://example.org", access="unreachable", error="reset")
        ledger.refused(f"{ORIGIN}/old", 2, "Disallow: /old")
        ledger.allowed(f"{ORIGIN}/private")
        ledger.traffic(ORIGIN, 0, pages=1, bytes=9)
        ledger.gap(ORIGIN, 1.0, 1.5)
        ledger.gap(ORIGIN, 2.0, 3.0, kind="pause")
        ledger.progress(0, pages=1, waiting=1)
        ledger.close()
        return path.read_bytes()
