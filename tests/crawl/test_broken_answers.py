"""Servers with answers of all kinds, most of them broken: each has the expected result, and the crawl
goes on.
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
MANY = 10 if effort.is_long else 1
FORBIDS = b"User-agent: *\nDisallow: /\n"
HTML, TAG = b"Content-Type: text/html", b"X-Robots-Tag: "
NOINDEX = b"<meta name=robots content=noindex>"
ODD = b"# \0 \x1b]0;title\x07 \xe2\x80\xae \xe2\x80\xa8 \x85\n"
HEADERS = [b"X-Field-%d: 1" % number for number in range(10_000 * MANY)]
BOTH = ["/private", "/public"]

READ, EMPTY, NONE, MANY_REDIRECTS, UNREACHABLE = (
    "its rules hold",
    "it forbids nothing",
    "there is none",
    "too many redirects",
    "it is unreachable",
)
PAGES = {READ: ["/public"], UNREACHABLE: []}
"""The pages that may be fetched with a result of robots.txt; with the others, both."""

COUNTED = {READ: "successful", EMPTY: "successful", UNREACHABLE: "unreachable"}
"""The stats of the results; the others count as unavailable."""

ITEM, DROPPED, FAILED = "an item", "a dropped item", "no response"

LOOKUPS = {
    "comes-back.test": [None, "127.0.0.1"],
    "comes-late.test": [None, None, None, "127.0.0.1"],
}
"""Host names whose first DNS lookups fail."""

STRICT = {
    *("a shorter length", "a redirect with CR", "many headers", "tags of a megabyte"),
    "control characters in the tag",
}
"""Answers that aiohttp, which Scrapy uses without a reactor, rejects."""

NOWHERE = {
    "file:": "file:///etc/passwd",
    "ftp:": "ftp://127.0.0.1/robots.txt",
    "data:": "data:text/plain,User-agent:%20*%0ADisallow:%20/",
    "javascript:": "javascript:alert(1)",
    "a broken host": "http://[::1/robots.txt",
    "a port that is none": "http://127.0.0.1:99999/robots.txt",
    "a host with spaces": "http://not a host/",
    "a host that is not encoded": "http://%zz/",
    "no host": "https://",
    "nothing": "",
}


class BrokenAnswer(NamedTuple):
    """What answers, and the expected result. A status in its name is in the warning about it."""

    name: str
    where: Host | str
    """A host whose robots.txt it is, or the URL of a page."""

    expected: str

    @property
    def lasts(self) -> bool:
        """Whether the answer ends only with a time-out of the crawler."""
        return "stopped" in self.name or "without end" in self.name

    def result(self, mode: str) -> str:
        if self.name not in STRICT or mode != "reactorless":
            return self.expected
        return FAILED if isinstance(self.where, str) else UNREACHABLE

    def pages(self, mode: str) -> list[str]:
        return PAGES.get(self.result(mode), BOTH)


def ends(*wheres: str) -> dict[str, Answer]:
    """Return answers that end in each of their parts, or in *wheres*, in each way."""
    kinds = {"closed": None, "stopped": Then.STOP, "reset": Then.RESET}
    return {
        f"{kind} {where}": answer
        for kind, then in kinds.items()
        for where, answer in stages(then).items()
        if where in (wheres or stages(then))
    }


@cache
def bombs() -> dict[str, bytes]:
    """Return rules, and then a long comment that compresses to almost nothing."""
    return compressed([RULES, *repeat(b"#" * MEGABYTE, 100 * MANY)])


def packed(name: str, body: bytes) -> Answer:
    return Answer(body, headers={"Content-Encoding": name})


def drips() -> Iterator[bytes | Then]:
    return chain([head()], cycle([b"#", Then.PAUSE]))


def endless_hints() -> Iterator[bytes | Then]:
    """Return 20 MB of early hints, and then a few at a time."""
    many = EARLY_HINTS.replace(b"style.css", b"x" * 8000) * 10
    return chain(repeat(many, 250), cycle([EARLY_HINTS, Then.PAUSE]))


def in_charset(charset: str) -> Answer:
    text = RULES.decode()
    if charset == "utf-7":
        text = text.replace("*", "+ACo-")  # Python would leave it as it is.
    kind = {"Content-Type": f"text/plain; charset={charset}"}
    return Answer(text.encode(charset), headers=kind)


def injected(line_break: bytes) -> Answer:
    location = b"Location: /a" + line_break + b"X-Injected: yes\r\n"
    return raw(b"HTTP/1.1 302 Found\r\n" + location + b"\r\n" + FORBIDS)


def answers() -> dict[str, dict[str, Answer | Sequence[Answer]]]:
    """Return what servers answer for robots.txt, by the expected results."""
    encoded = compressed(b"%b%d" % (RULES, number) for number in range(99))
    members = map(gzip.compress, RULES.splitlines(keepends=True))
    by_result = {
        READ: {
            "no length at all": raw(head() + RULES),
            "byte by byte": byte_by_byte(whole(RULES)),
            "byte by byte, without a length": byte_by_byte(head() + RULES),
            "an endless body": endless(head() + RULES, b"#" * 65536),
            "endless chunks": endless(CHUNKED + chunk(RULES), chunk(b"#" * 65536)),
            "a gigabyte": endless(head(length=1 << 30) + RULES, b"#" * 65536),
            "another one at each fetch": [Answer(RULES), Answer(PERMITS)],
            "a thousand early hints": raw(EARLY_HINTS * 1_000 + whole(RULES)),
            "many headers": raw(whole(RULES, *HEADERS)),
            "control characters": Answer(ODD + RULES + ODD),
            "text in utf-16": in_charset("utf-16"),
            "text with a wrong label": packed("x\x1b, gzip", RULES),
            "several members": packed("gzip", b"".join(members)),
        },
        EMPTY: {
            "204": Answer(status=204),
            # The Content-Length decides where the body ends (RFC 9112, section 6.3).
            "a shorter length": raw(head(length=len("User-agent: *\n")) + RULES),
            "an odd agent": Answer(
                b"Disallow: /\n" + ODD.replace(b"# ", b"User-agent: ")
            ),
            **{f"text in {c}": in_charset(c) for c in ("utf-16-be", "utf-32", "utf-7")},
            "a redirect with CR": injected(b"\r"),
            "a redirect with LF": injected(b"\n"),
            "a redirect with a fold": injected(b"\r\n\t"),
        },
        NONE: {str(n): Answer(FORBIDS, n) for n in (301, 401, 403, 404, 410, 418)},
        UNREACHABLE: {
            **{str(status): Answer(PERMITS, status) for status in (429, 500, 503)},
            **ends(),
            "an unknown encoding": packed("unknown", Random(9309).randbytes(2000)),
            "another protocol": raw(b"SSH-2.0-server\r\n"),
            "a length that is negative": raw(head(b"Content-Length: -5") + PERMITS),
            "a length that is no number": raw(head(b"Content-Length: many") + PERMITS),
            "two lengths": raw(head(b"Content-Length: 9", length=25) + PERMITS),
            "a chunk whose length is none": raw(CHUNKED + b"xyz\r\n" + PERMITS),
            "a byte now and then, without end": Answer(raw=drips),
            "early hints without end": Answer(raw=endless_hints),
            "a header of a megabyte": raw(whole(PERMITS, TAG + b"x" * 1_000_000)),
        },
    }
    for name, location in NOWHERE.items():
        by_result[NONE][f"a redirect to {name}"] = redirect(location, body=FORBIDS)
    for name, body in encoded.items():
        part, damaged = body[: len(body) * 2 // 3], body[: len(body) // 2]
        by_result[READ][f"a bomb of {name}"] = packed(name, bombs()[name])
        by_result[READ][f"{name} unasked"] = packed(name, body)
        by_result[UNREACHABLE][f"{name} in part"] = packed(name, part)
        by_result[UNREACHABLE][f"{name} with garbage"] = packed(
            name, damaged + b"\xff" * 200
        )
    return by_result


def broken_robotstxts(site: Site) -> list[BrokenAnswer]:
    """Add hosts with all these answers, redirects, broken handshakes and names to *site*."""
    added: list[BrokenAnswer] = []

    def add(name: str, host: Host, expected: str, **others: Answer | str) -> None:
        for path, answer in others.items():
            host.answers[f"/{path}"] = answer
        added.append(BrokenAnswer(name, host, expected))

    for expected, named in answers().items():
        for name, answer in named.items():
            add(name, site.add(answer), expected)
    for name, expected in {"comes-back": READ, "comes-late": UNREACHABLE}.items():
        host = site.add(Answer(RULES), name=f"{name}.test")
        add(f"a name that {name}", host, expected)
    nowhere = Host(site, "nosuchhost.invalid", tls=False)
    add("a name that is not found", nowhere, UNREACHABLE)
    add("a host that refuses connections", site.refusing(), UNREACHABLE)
    reset = site.add()
    reset.opening = lambda: (Then.RESET,)
    add("reset when it is connected", reset, UNREACHABLE)
    # TLS.
    garbage = b"\x16\x03\x03\x00\x10" + b"\xff" * 16
    for name, parts in {
        "closed": (), "reset": (Then.RESET,), "stopped": (Then.STOP,), "answered": (garbage,),
    }.items():  # fmt: skip
        host = site.plain_on_https()
        host.opening = lambda parts=parts: parts
        add(f"TLS that is {name} in the handshake", host, UNREACHABLE)
    for where, answer in stages(Then.RESET).items():
        add(f"TLS that ends {where}", site.add(answer, tls=True), UNREACHABLE)
    nobody = site.add(Answer(RULES), tls=True)
    add("TLS with a certificate of nobody", nobody, READ)
    # Redirects.
    for hops, expected in ((5, READ), (6, MANY_REDIRECTS)):
        host = site.add()
        host.chain(hops, Answer(RULES))
        add(f"{hops} redirects", host, expected)
    gone, answer = Answer(FORBIDS, status=404), Answer(PERMITS, status=500)
    add("a redirect to one that is gone", site.add(redirect("/a", 308)), NONE, a=gone)
    add("a redirect to a 500", site.add(redirect("/a", 307)), UNREACHABLE, a=answer)
    away = redirect(site.refusing().robotstxt)
    add("a redirect to a host that refuses", site.add(away), UNREACHABLE)
    itself = site.add(redirect("/robots.txt", 301))
    add("a redirect to itself", itself, MANY_REDIRECTS)
    first, second = site.add(), site.add()
    for host, target in ((first, second), (second, first)):
        host.answers["/robots.txt"] = redirect(target.robotstxt)
        add(f"a redirect back and forth {host.port}", host, MANY_REDIRECTS)
    # To any address, as for pages: SECURITY.md says how to keep a crawl out of one's own network.
    other = site.add(Answer(RULES), name="localhost").robotstxt
    add("a redirect to another host", site.add(redirect(other)), READ)
    with_user = redirect(other.replace("//", "//user:secret@"))
    add("a redirect with userinfo", site.add(with_user), READ)
    path = "a%0D%0AX-Injected:%20yes"
    host = site.add(redirect(f"/{path}"))
    add("a redirect with encoded line breaks", host, READ, **{path: Answer(RULES)})
    return added


def broken_pages(site: Site) -> list[BrokenAnswer]:
    """Add a host with broken pages to *site*."""
    host = site.add(robots(PERMITS.decode()))

    def page(*fields: bytes, body: bytes = b"<p>") -> Answer:
        return raw(whole(body, HTML, *fields))

    size = 2 * MEGABYTE * MANY**2
    long = [TAG + b"other: noindex, " + b"x, " * 1_000 for _ in range(330)]
    odd = b"noindex, \x1b[31m\x07 \xe2\x80\xae \xc2\x85 \xff"
    meta = b"<meta name=robots content='noindex, \0 &#27;[31m &#8238; \xe2\x80\xae'>"
    hints = EARLY_HINTS * 1_000
    utf_7 = NOINDEX.replace(b"<", b"+ADw-").replace(b">", b"+AD4-")
    rest = b"<p>-- " * (size // 6) + NOINDEX
    pages = {
        FAILED: {
            "a tag of a megabyte": page(TAG + b"x" * 1_000_000),
            **ends("in the headers", "in the body", "in a chunk"),
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
    for expected, named in pages.items():
        for name, answer in named.items():
            host.answers[path := f"/{len(added)}"] = answer
            added.append(BrokenAnswer(name, host.url(path), expected))
    return added


def test_whatever_a_server_answers_the_crawl_goes_on_as_expected(
    site: Site, mode: str
) -> None:
    """From each host, whatever its answer for robots.txt, the expected pages are fetched; each refusal
    has a reason, and is counted and logged once. Broken pages make items or not, as
    expected. Memory and time are bounded.

    Answers that never end fail with any time-out, so theirs is short. The others get a long
    one.
    """
    hosts, pages = broken_robotstxts(site), broken_pages(site)
    lasting = [answer for answer in hosts if answer.lasts]
    ending = [answer for answer in hosts if not answer.lasts]
    crawls = []
    for patience, answers in ((120, [*pages, *ending]), (1, lasting)):
        requests: list[object] = []
        for answer in answers:
            if isinstance(answer.where, Host):
                requests += map(answer.where.url, BOTH)
            else:
                seconds = 1 if answer.lasts else 600
                meta = {"download_timeout": seconds}
                requests.append({"url": answer.where, "meta": meta})
        crawl = start_crawl(
            requests,
            mode=mode,
            spider="tests.crawl.page_spiders.BrokenAnswersSpider",
            settings={"DNS_TIMEOUT": 3, "DOWNLOAD_TIMEOUT": patience},
            allowed_domains=["127.0.0.1", *LOOKUPS, "nosuchhost.invalid"],
            names=LOOKUPS,
        )
        crawls.append((answers, crawl))
    for answers, crawl in crawls:
        result = crawl.result(600)
        of_hosts = [answer for answer in answers if isinstance(answer.where, Host)]
        of_pages = [answer for answer in answers if isinstance(answer.where, str)]
        check_hosts(of_hosts, result, mode, others=bool(of_pages))
        check_pages(of_pages, result, mode)
        has_a_page = "response_received_count" in result.stats
        reason = "finished" if has_a_page else "robots_denied"
        assert result.stats["finish_reason"] == reason
        assert "log_count/ERROR" not in result.stats, result.log
        # Control characters are escaped, so that no terminal interprets them.
        assert not {*"\x1b\x07\0\x85\u2028\u202e"} & set(result.log)
        # Scrapy and other libraries take 90 MB. Scrapy holds each page, and there are one
        # or two copies while it is parsed.
        assert result.memory < (200 + 12 * MANY**2) * MEGABYTE
        assert result.duration < 300
    # No Location injects a header or credentials into a request.
    assert any("x-injected" in hit.target.lower() for hit in site.log)
    for hit in site.log:
        assert not {"X-Injected", "Authorization"} & hit.headers.keys()


def check_hosts(
    answers: list[BrokenAnswer], result: CrawlResult, mode: str, *, others: int
) -> None:
    """Check the access logs for the pages that were fetched, and stats, errors and log for those
    that were not: one warning for each host that is unreachable or redirects too often, one line
    for each other host without a robots.txt, and one for each refused page.
    """
    fetched = {
        answer.name: [p for p in answer.where.pages if p in BOTH] for answer in answers
    }
    assert fetched == {answer.name: answer.pages(mode) for answer in answers}
    counted = Counter(
        COUNTED.get(answer.result(mode), "unavailable") for answer in answers
    )
    counted["successful"] += others
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
    none = ": no robots.txt (", "), so everything is allowed"
    missing = result.lines("DEBUG", *none) + result.lines("INFO", *none)
    for answer in answers:
        about = re.compile(
            rf"\] {re.escape(answer.where.robotstxt)}( is |: no robots.txt)"
        )
        warnings = [line for line in logged if about.search(line)]
        expected = answer.result(mode)
        assert len(warnings) == (expected in {UNREACHABLE, MANY_REDIRECTS}), answer.name
        if warnings and (status := re.search(r"\b\d{3}\b", answer.name)):
            assert status[0] in warnings[0]
        if answer.name == "6 redirects":
            assert answer.where.url("/hop-1") in warnings[0]
            assert answer.where.url("/hop-5") in warnings[0]
        count = sum(bool(about.search(line)) for line in missing)
        assert count == (expected == NONE), answer.name
        for path in BOTH:
            refused = [line for line in refusals if answer.where.url(path) in line]
            assert len(refused) == (path not in answer.pages(mode)), answer.name
            assert all(answer.where.robotstxt in line for line in refused)
            if refused and expected == READ:
                assert "(disallow: /private" in refused[0], answer.name


def check_pages(answers: list[BrokenAnswer], result: CrawlResult, mode: str) -> None:
    made = {item["url"] for item in result.items}
    failed = {error["url"] for error in result.errors}
    became = {
        answer.name: ITEM if answer.where in made else FAILED if answer.where in failed else DROPPED
        for answer in answers
    }  # fmt: skip
    assert became == {answer.name: answer.result(mode) for answer in answers}
    dropped = Counter(became.values())[DROPPED]
    assert result.stats.get("rep/noindex/dropped/noindex", 0) == dropped
    assert result.log.count("Dropped: ") == dropped
