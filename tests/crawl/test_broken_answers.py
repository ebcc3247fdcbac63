"""Tests of crawls whose servers send answers of all kinds, most of them broken.

Each answer must have the expected result, and must not stop the crawl.
"""

from __future__ import annotations

import gzip
import re
from collections import Counter
from functools import cache
from itertools import chain, cycle, repeat
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests import effort
from tests.crawl.answers import Answer, Then, redirect, robots
from tests.crawl.broken_answers import (
    CHUNKED,
    EARLY_HINTS,
    PERMITS,
    RULES,
    byte_by_byte,
    chunk,
    compressed,
    endless,
    head,
    raw,
    stages,
    whole,
)
from tests.crawl.crawl import start_crawl
from tests.crawl.server import Host

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.crawl.crawl import CrawlResult
    from tests.crawl.server import Site

pytestmark = [pytest.mark.newest, pytest.mark.unmeasured, pytest.mark.slow]

MEGABYTE = 1024 * 1024
SCALE = 10 if effort.is_long else 1
FORBIDS = b"User-agent: *\nDisallow: /\n"
HTML, TAG = b"Content-Type: text/html", b"X-Robots-Tag: "
NOINDEX = b"<meta name=robots content=noindex>"
CONTROL_CHARACTERS = b"# \0 \x1b]0;title\x07 \xe2\x80\xae \xe2\x80\xa8 \x85\n"
HEADERS = [b"X-Field-%d: 1" % number for number in range(10_000 * SCALE)]
BOTH = ["/private", "/public"]

RULES_APPLY, NO_RULES, MISSING, TOO_MANY_REDIRECTS, UNREACHABLE = (
    "its rules apply",
    "it has no rules",
    "there is no robots.txt",
    "too many redirects",
    "robots.txt is unreachable",
)
"""The expected results of fetching a robots.txt."""

PAGES = {RULES_APPLY: ["/public"], UNREACHABLE: []}
"""The pages that are fetched after these results for robots.txt. After all other results, /private and /public are
fetched.
"""

ACCESS = {
    RULES_APPLY: "successful",
    NO_RULES: "successful",
    UNREACHABLE: "unreachable",
}
"""The stat ``rep/robotstxt/...`` that counts a result. All other results count as unavailable."""

ITEM, DROPPED, FAILED = "an item", "a dropped item", "no response"
"""The expected results of fetching a page."""

LOOKUPS = {
    "comes-back.test": [None, "127.0.0.1"],
    "comes-late.test": [None, None, None, "127.0.0.1"],
}
"""The addresses of host names. None is a DNS lookup that fails."""

REJECTED_BY_AIOHTTP = {
    *("a shorter length", "a redirect with CR", "many headers", "tags of a megabyte"),
    "control characters in the tag",
}
"""The names of answers that aiohttp rejects. Scrapy uses aiohttp if it runs without a reactor."""

USELESS_LOCATIONS = {
    "file:": "file:///etc/passwd",
    "ftp:": "ftp://127.0.0.1/robots.txt",
    "data:": "data:text/plain,User-agent:%20*%0ADisallow:%20/",
    "javascript:": "javascript:alert(1)",
    "a broken host": "http://[::1/robots.txt",
    "an invalid port": "http://127.0.0.1:99999/robots.txt",
    "a host with spaces": "http://not a host/",
    "a host with an invalid percent-encoding": "http://%zz/",
    "no host": "https://",
    "an empty Location": "",
}
"""Targets of redirects from which no robots.txt can be fetched."""


class BrokenAnswer(NamedTuple):
    """An answer and its expected result. If ``name`` contains a status, the warning must contain the status, too."""

    name: str
    where: Host | str
    """The host whose robots.txt has this answer, or the URL of the page that has it."""

    expected: str

    @property
    def ends_by_timeout(self) -> bool:
        """Whether the request ends only when it times out: the server stops sending, or sends slowly and without end.

        A body that arrives fast and without end does not time out: it is cut at the size limit.
        """
        return "stopped" in self.name or "without end" in self.name

    def result(self, mode: str) -> str:
        """Return the expected result if Scrapy runs in *mode*, one of ``MODES``.

        In the mode "reactorless", aiohttp rejects some answers.
        """
        if self.name not in REJECTED_BY_AIOHTTP or mode != "reactorless":
            return self.expected
        return FAILED if isinstance(self.where, str) else UNREACHABLE

    def pages(self, mode: str) -> list[str]:
        """Return the pages that are fetched from the host if Scrapy runs in *mode*, one of ``MODES``."""
        return PAGES.get(self.result(mode), BOTH)


def incomplete(*places: str) -> dict[str, Answer]:
    """Return answers that break off early, by names such as "reset in the body".

    Each place, such as "in the body", has three answers: one closes the connection there, one sends nothing more, and
    one resets the connection. Without *places*, the answers are for all places in :func:`stages`.
    """
    kinds = {"closed": None, "stopped": Then.STOP, "reset": Then.RESET}
    return {
        f"{kind} {place}": answer
        for kind, then in kinds.items()
        for place, answer in stages(then).items()
        if place in (places or stages(then))
    }


@cache
def bombs() -> dict[str, bytes]:
    """Return decompression bombs by their encodings: rules, and a long comment that compresses to almost nothing."""
    return compressed([RULES, *repeat(b"#" * MEGABYTE, 100 * SCALE)])


def encoded(name: str, body: bytes) -> Answer:
    """Return an answer whose Content-Encoding is *name*. *body* is sent as it is."""
    return Answer(body, headers={"Content-Encoding": name})


def drips() -> Iterator[bytes | Then]:
    """Return a body that arrives byte by byte with pauses, and never ends."""
    return chain([head()], cycle([b"#", Then.PAUSE]))


def endless_hints() -> Iterator[bytes | Then]:
    """Return 20 MB of early hints, and then early hints one by one, with pauses and without an end."""
    long_hints = EARLY_HINTS.replace(b"style.css", b"x" * 8000) * 10
    return chain(repeat(long_hints, 250), cycle([EARLY_HINTS, Then.PAUSE]))


def in_charset(charset: str) -> Answer:
    """Return a robots.txt in *charset*, which its Content-Type names."""
    text = RULES.decode()
    if charset == "utf-7":
        text = text.replace("*", "+ACo-")  # Python would not encode the asterisk.
    kind = {"Content-Type": f"text/plain; charset={charset}"}
    return Answer(text.encode(charset), headers=kind)


def injected(line_break: bytes) -> Answer:
    """Return a redirect whose Location contains *line_break* and a header."""
    location = b"Location: /a" + line_break + b"X-Injected: yes\r\n"
    return raw(b"HTTP/1.1 302 Found\r\n" + location + b"\r\n" + FORBIDS)


def answers() -> dict[str, dict[str, Answer | Sequence[Answer]]]:
    """Return the answers for robots.txt by their expected results, and then by their names."""
    compressed_rules = compressed(b"%b%d" % (RULES, number) for number in range(99))
    members = map(gzip.compress, RULES.splitlines(keepends=True))
    by_result = {
        RULES_APPLY: {
            "no Content-Length": raw(head() + RULES),
            "byte by byte": byte_by_byte(whole(RULES)),
            "byte by byte, without a length": byte_by_byte(head() + RULES),
            "an endless body": endless(head() + RULES, b"#" * 65536),
            "endless chunks": endless(CHUNKED + chunk(RULES), chunk(b"#" * 65536)),
            "a gigabyte": endless(head(length=1 << 30) + RULES, b"#" * 65536),
            "another file at each fetch": [Answer(RULES), Answer(PERMITS)],
            "a thousand early hints": raw(EARLY_HINTS * 1_000 + whole(RULES)),
            "many headers": raw(whole(RULES, *HEADERS)),
            "control characters": Answer(
                CONTROL_CHARACTERS + RULES + CONTROL_CHARACTERS
            ),
            "text in utf-16": in_charset("utf-16"),
            "text with a wrong Content-Encoding": encoded("x\x1b, gzip", RULES),
            "several gzip members": encoded("gzip", b"".join(members)),
        },
        NO_RULES: {
            "204": Answer(status=204),
            # The Content-Length decides where the body ends (RFC 9112, section 6.3).
            "a shorter length": raw(head(length=len("User-agent: *\n")) + RULES),
            "control characters in the user-agent line": Answer(
                b"Disallow: /\n" + CONTROL_CHARACTERS.replace(b"# ", b"User-agent: ")
            ),
            **{f"text in {c}": in_charset(c) for c in ("utf-16-be", "utf-32", "utf-7")},
            "a redirect with CR": injected(b"\r"),
            "a redirect with LF": injected(b"\n"),
            "a redirect with a fold": injected(b"\r\n\t"),
        },
        MISSING: {str(n): Answer(FORBIDS, n) for n in (301, 401, 403, 404, 410, 418)},
        UNREACHABLE: {
            **{str(status): Answer(PERMITS, status) for status in (429, 500, 503)},
            **incomplete(),
            "an unknown encoding": encoded("unknown", Random(9309).randbytes(2000)),
            "another protocol": raw(b"SSH-2.0-server\r\n"),
            "a negative length": raw(head(b"Content-Length: -5") + PERMITS),
            "a length that is not a number": raw(
                head(b"Content-Length: many") + PERMITS
            ),
            "two lengths": raw(head(b"Content-Length: 9", length=25) + PERMITS),
            "a chunk with an invalid length": raw(CHUNKED + b"xyz\r\n" + PERMITS),
            "one byte at a time, without end": Answer(raw=drips),
            "early hints without end": Answer(raw=endless_hints),
            "a header of a megabyte": raw(whole(PERMITS, TAG + b"x" * 1_000_000)),
        },
    }
    for name, location in USELESS_LOCATIONS.items():
        by_result[MISSING][f"a redirect to {name}"] = redirect(location, body=FORBIDS)
    for name, body in compressed_rules.items():
        cut_off, damaged = body[: len(body) * 2 // 3], body[: len(body) // 2]
        by_result[RULES_APPLY][f"a bomb of {name}"] = encoded(name, bombs()[name])
        by_result[RULES_APPLY][f"{name} without a request for it"] = encoded(name, body)
        by_result[UNREACHABLE][f"{name} cut off"] = encoded(name, cut_off)
        by_result[UNREACHABLE][f"{name} with garbage"] = encoded(
            name, damaged + b"\xff" * 200
        )
    return by_result


def broken_robotstxts(site: Site) -> list[BrokenAnswer]:
    """Add a host to *site* for each of :func:`answers`, for redirects, for faults of TLS, and for faults of DNS."""
    added: list[BrokenAnswer] = []

    def add(name: str, host: Host, expected: str, **other_paths: Answer | str) -> None:
        for path, answer in other_paths.items():
            host.answers[f"/{path}"] = answer
        added.append(BrokenAnswer(name, host, expected))

    for expected, answers_by_name in answers().items():
        for name, answer in answers_by_name.items():
            add(name, site.add(answer), expected)
    for name, expected in {
        "comes-back": RULES_APPLY,
        "comes-late": UNREACHABLE,
    }.items():
        host = site.add(Answer(RULES), name=f"{name}.test")
        add(f"the name {name}.test", host, expected)
    unknown = Host(site, "nosuchhost.invalid", tls=False)
    add("a name that is not found", unknown, UNREACHABLE)
    add("a host that refuses connections", site.refusing(), UNREACHABLE)
    reset = site.add()
    reset.sent_on_connect = lambda: (Then.RESET,)
    add("a reset on connect", reset, UNREACHABLE)
    # Faults of TLS.
    garbage = b"\x16\x03\x03\x00\x10" + b"\xff" * 16
    for name, parts in {
        "closed": (), "reset": (Then.RESET,), "stopped": (Then.STOP,), "answered": (garbage,),
    }.items():  # fmt: skip
        host = site.plain_on_https()
        host.sent_on_connect = lambda parts=parts: parts
        add(f"TLS that is {name} in the handshake", host, UNREACHABLE)
    for where, answer in stages(Then.RESET).items():
        add(f"TLS that ends {where}", site.add(answer, tls=True), UNREACHABLE)
    self_signed = site.add(Answer(RULES), tls=True)
    add("TLS with a self-signed certificate", self_signed, RULES_APPLY)
    # Redirects.
    for hops, expected in ((5, RULES_APPLY), (6, TOO_MANY_REDIRECTS)):
        host = site.add()
        host.chain(hops, Answer(RULES))
        add(f"{hops} redirects", host, expected)
    missing, answer = Answer(FORBIDS, status=404), Answer(PERMITS, status=500)
    add("a redirect to a 404 page", site.add(redirect("/a", 308)), MISSING, a=missing)
    add("a redirect to a 500", site.add(redirect("/a", 307)), UNREACHABLE, a=answer)
    away = redirect(site.refusing().robotstxt)
    add("a redirect to a host that refuses connections", site.add(away), UNREACHABLE)
    itself = site.add(redirect("/robots.txt", 301))
    add("a redirect to itself", itself, TOO_MANY_REDIRECTS)
    first, second = site.add(), site.add()
    for host, target in ((first, second), (second, first)):
        host.answers["/robots.txt"] = redirect(target.robotstxt)
        add(f"a redirect back and forth {host.port}", host, TOO_MANY_REDIRECTS)
    # Like redirects of pages, redirects of robots.txt are followed to any address. SECURITY.md says how to keep a crawl
    # out of the local network.
    other = site.add(Answer(RULES), name="localhost").robotstxt
    add("a redirect to another host", site.add(redirect(other)), RULES_APPLY)
    with_user = redirect(other.replace("//", "//user:secret@"))
    add("a redirect with userinfo", site.add(with_user), RULES_APPLY)
    path = "a%0D%0AX-Injected:%20yes"
    host = site.add(redirect(f"/{path}"))
    add(
        "a redirect with encoded line breaks",
        host,
        RULES_APPLY,
        **{path: Answer(RULES)},
    )
    return added


def broken_pages(site: Site) -> list[BrokenAnswer]:
    """Add a host with broken pages to *site*."""
    host = site.add(robots(PERMITS.decode()))

    def page(*fields: bytes, body: bytes = b"<p>") -> Answer:
        return raw(whole(body, HTML, *fields))

    size = 2 * MEGABYTE * SCALE**2
    long = [TAG + b"other: noindex, " + b"x, " * 1_000 for _ in range(330)]
    odd = b"noindex, \x1b[31m\x07 \xe2\x80\xae \xc2\x85 \xff"
    meta = b"<meta name=robots content='noindex, \0 &#27;[31m &#8238; \xe2\x80\xae'>"
    hints = EARLY_HINTS * 1_000
    utf_7 = NOINDEX.replace(b"<", b"+ADw-").replace(b">", b"+AD4-")
    rest = b"<p>-- " * (size // 6) + NOINDEX
    pages = {
        FAILED: {
            "a tag of a megabyte": page(TAG + b"x" * 1_000_000),
            **incomplete("in the headers", "in the body", "in a chunk"),
        },
        DROPPED: {
            "tags of a megabyte": page(*long, TAG + b"noindex"),
            "many headers": page(*HEADERS, TAG + b"noindex"),
            "control characters in the tag": page(TAG + odd),
            "control characters on the page": page(body=meta),
            "a thousand early hints": raw(hints + whole(b"<p>", HTML, TAG + b"noindex")),
            "utf-16": page(body=NOINDEX.decode().encode("utf-16")),
            "utf-32": page(body=NOINDEX.decode().encode("utf-32")),
            "a page of nothing but tags": page(body=NOINDEX * (size // 40)),
        },
        ITEM: {
            "utf-7": page(body=b"<meta charset=utf-7>" + utf_7),
            "a comment without its end": page(body=b"<!--" + rest),
            "a quote without its end": page(body=b"<meta name=robots content='" + rest),
        },
    }  # fmt: skip
    added = []
    for expected, answers_by_name in pages.items():
        for name, answer in answers_by_name.items():
            host.answers[path := f"/{len(added)}"] = answer
            added.append(BrokenAnswer(name, host.url(path), expected))
    return added


def test_each_broken_answer_has_the_expected_result_and_the_crawl_goes_on(
    site: Site, mode: str
) -> None:
    """For each answer to a request for robots.txt, the expected pages are fetched, and each refusal has a reason and is
    counted and logged once. Each broken page becomes an item, or not, as expected. Memory and time are limited.

    There are two crawls: one for answers that only a time-out ends, with a short time-out, and one for all others, with
    a long time-out.
    """
    hosts, pages = broken_robotstxts(site), broken_pages(site)
    timeout_answers = [answer for answer in hosts if answer.ends_by_timeout]
    other_answers = [answer for answer in hosts if not answer.ends_by_timeout]
    crawls = []
    for timeout, answers in (
        (120, [*pages, *other_answers]),
        (1, timeout_answers),
    ):
        requests: list[object] = []
        for answer in answers:
            if isinstance(answer.where, Host):
                requests += map(answer.where.url, BOTH)
            else:
                seconds = 1 if answer.ends_by_timeout else 600
                meta = {"download_timeout": seconds}
                requests.append({"url": answer.where, "meta": meta})
        crawl = start_crawl(
            requests,
            mode=mode,
            spider="tests.crawl.page_spiders.BrokenAnswersSpider",
            settings={"DNS_TIMEOUT": 3, "DOWNLOAD_TIMEOUT": timeout},
            allowed_domains=["127.0.0.1", *LOOKUPS, "nosuchhost.invalid"],
            names=LOOKUPS,
        )
        crawls.append((answers, crawl))
    for answers, crawl in crawls:
        result = crawl.result(600)
        of_hosts = [answer for answer in answers if isinstance(answer.where, Host)]
        of_pages = [answer for answer in answers if isinstance(answer.where, str)]
        check_hosts(of_hosts, result, mode, other_hosts=int(bool(of_pages)))
        check_pages(of_pages, result, mode)
        has_a_page = "response_received_count" in result.stats
        reason = "finished" if has_a_page else "robots_denied"
        assert result.stats["finish_reason"] == reason
        assert "log_count/ERROR" not in result.stats, result.log
        # Control characters are escaped, so that no terminal interprets them.
        assert not {*"\x1b\x07\0\x85\u2028\u202e"} & set(result.log)
        # Scrapy and other libraries need 90 MB. Scrapy keeps each page in memory, and there are one
        # or two copies of a page while it is parsed.
        assert result.memory < (200 + 12 * SCALE**2) * MEGABYTE
        assert result.duration < 300
    # Some Location headers contain a line break and "X-Injected: yes", or a password. No request of the crawl has the
    # header X-Injected or Authorization.
    assert any("x-injected" in hit.target.lower() for hit in site.log)
    for hit in site.log:
        assert not {"X-Injected", "Authorization"} & hit.headers.keys()


def check_hosts(
    answers: list[BrokenAnswer], result: CrawlResult, mode: str, *, other_hosts: int
) -> None:
    """Check which pages of the hosts were fetched, by the access logs, and check stats, errors and log lines.

    The log must have one warning for each host that is unreachable or redirects too often, one line for each other
    host without a robots.txt, and one line for each refused page.

    *other_hosts* is the number of other hosts in the crawl, whose robots.txt is fetched successfully.
    """
    fetched = {
        answer.name: [p for p in answer.where.pages if p in BOTH] for answer in answers
    }
    assert fetched == {answer.name: answer.pages(mode) for answer in answers}
    counted = Counter(
        ACCESS.get(answer.result(mode), "unavailable") for answer in answers
    )
    counted["successful"] += other_hosts
    for access, number in counted.items():
        assert result.stats.get(f"rep/robotstxt/{access}", 0) == number, access
    denied = {
        answer.where.url(path): "rule" if answer.pages(mode) else "unreachable"
        for answer in answers
        for path in BOTH
        if path not in answer.pages(mode)
    }
    errors = [error for error in result.errors if error["error"] == "RobotsDenied"]
    assert {error["url"]: error["reason"] for error in errors} == denied
    for reason, number in Counter(denied.values()).items():
        assert result.stats[f"rep/denied/{reason}"] == number
    assert result.stats["robotstxt/forbidden"] == len(denied)
    logged, refusals = result.lines("WARNING"), result.lines("DEBUG", "Refused by")
    words = ": no robots.txt (", "), so everything is allowed"
    missing = result.lines("DEBUG", *words) + result.lines("INFO", *words)
    for answer in answers:
        about_this_host = re.compile(
            rf"\] {re.escape(answer.where.robotstxt)}( is |: no robots.txt)"
        )
        warnings = [line for line in logged if about_this_host.search(line)]
        expected = answer.result(mode)
        assert len(warnings) == (expected in {UNREACHABLE, TOO_MANY_REDIRECTS}), (
            answer.name
        )
        if warnings and (status := re.search(r"\b\d{3}\b", answer.name)):
            assert status[0] in warnings[0]
        if answer.name == "6 redirects":
            assert answer.where.url("/hop-1") in warnings[0]
            assert answer.where.url("/hop-5") in warnings[0]
        count = sum(bool(about_this_host.search(line)) for line in missing)
        assert count == (expected == MISSING), answer.name
        for path in BOTH:
            refused = [line for line in refusals if answer.where.url(path) in line]
            assert len(refused) == (path not in answer.pages(mode)), answer.name
            assert all(answer.where.robotstxt in line for line in refused)
            if refused and expected == RULES_APPLY:
                assert "(disallow: /private" in refused[0], answer.name


def check_pages(answers: list[BrokenAnswer], result: CrawlResult, mode: str) -> None:
    """Check which pages became items, were dropped because of noindex, or failed."""
    item_urls = {item["url"] for item in result.items}
    failed_urls = {error["url"] for error in result.errors}
    results = {
        answer.name: ITEM if answer.where in item_urls else FAILED if answer.where in failed_urls else DROPPED
        for answer in answers
    }  # fmt: skip
    assert results == {answer.name: answer.result(mode) for answer in answers}
    dropped = Counter(results.values())[DROPPED]
    assert result.stats.get("rep/noindex/dropped/noindex", 0) == dropped
    assert result.log.count("Dropped: ") == dropped
