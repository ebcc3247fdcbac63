"""Hosts with every result that a fetch of robots.txt can have, most of them with broken answers,
and the expected result of a crawl for each.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import chain, cycle, repeat
from typing import TYPE_CHECKING

from tests.crawl.answers import Answer, Then, redirect, robots
from tests.crawl.lies import (
    CHUNKED,
    EARLY_HINTS,
    FORBIDS,
    PERMITS,
    RULES,
    STATUS,
    bomb,
    byte_by_byte,
    chunk,
    compressed,
    endless,
    endless_hints,
    head,
    packed,
    raw,
    stages,
    whole,
    with_garbage,
    without_end,
)
from tests.crawl.server import Host

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.crawl.server import Site

ALL, BY_RULES, NONE = ("/private", "/public"), ("/public",), ()
"""The pages of a host that may be fetched."""

SUCCESSFUL, UNAVAILABLE, UNREACHABLE = "successful", "unavailable", "unreachable"

FEW_FAILURES = {
    "comes-back.test": [None, "127.0.0.1"],
    "comes-late.test": [None, None, None, "127.0.0.1"],
}
"""Host names whose first DNS lookups fail."""


@dataclass(frozen=True)
class Lie:
    """A host, the expected result of the fetch of its robots.txt, and its pages that may be
    fetched.
    """

    name: str
    host: Host
    access: str
    pages: tuple[str, ...]
    strict: bool = False
    """Whether aiohttp, which Scrapy uses without a reactor, rejects the answer."""

    lasts: bool = False
    """Whether the fetch ends only with a time-out of the crawler."""

    status: int | None = None
    """The status that the warning about an unreachable robots.txt names."""

    def outcome(self, mode: str) -> tuple[str, tuple[str, ...]]:
        if self.strict and mode == "reactorless":
            return UNREACHABLE, NONE
        return self.access, self.pages


@dataclass(frozen=True)
class Sizes:
    """The sizes of the large answers."""

    bomb: int
    page: int
    headers: int


def lies(site: Site, sizes: Sizes) -> list[Lie]:
    found = [
        *_statuses(site),
        *_ends(site),
        *_lengths(site),
        *_slow_and_endless(site),
        *_compressed(site, sizes.bomb),
        *_redirects(site),
        *_heads(site, sizes.headers),
        *_texts(site),
        *_tls(site),
        *_names(site),
    ]
    assert len({lie.name for lie in found}) == len(found)
    return found


def _statuses(site: Site) -> Iterator[Lie]:
    permits, forbids = PERMITS.decode(), FORBIDS.decode()
    yield Lie("204", site.add(Answer(status=204)), SUCCESSFUL, ALL)
    for status in (301, 404, 410, 418):
        host = site.add(robots(forbids, status=status))
        yield Lie(f"{status} that forbids everything", host, UNAVAILABLE, ALL)
    for status in (401, 403):
        yield Lie(str(status), site.add(Answer(status=status)), UNAVAILABLE, ALL)
    for status in (429, 500, 503):
        host = site.add(robots(permits, status=status))
        name = f"{status} that permits everything"
        yield Lie(name, host, UNREACHABLE, NONE, status=status)
    yield Lie("a host that refuses connections", site.refusing(), UNREACHABLE, NONE)
    host = Host(site, "nosuchhost.invalid", tls=False)
    yield Lie("a name that is not found", host, UNREACHABLE, NONE)


def _ends(site: Site) -> Iterator[Lie]:
    kinds = {"closed": None, "stopped": Then.STOP, "reset": Then.RESET}
    for kind, then in kinds.items():
        for where, answer in stages(then).items():
            host, lasts = site.add(answer), then is Then.STOP
            yield Lie(f"{kind} {where}", host, UNREACHABLE, NONE, lasts=lasts)
    host = site.add()
    host.opening = lambda: (Then.RESET,)
    yield Lie("reset when it is connected", host, UNREACHABLE, NONE)
    host = site.add(raw(b"SSH-2.0-server\r\n"))
    yield Lie("another protocol", host, UNREACHABLE, NONE)


def _lengths(site: Site) -> Iterator[Lie]:
    # The Content-Length decides where the body ends (RFC 9112, section 6.3).
    cut = len(b"User-agent: *\n")
    host = site.add(raw(head(length=cut) + RULES))
    yield Lie("a shorter length", host, SUCCESSFUL, ALL, strict=True)
    host = site.add(raw(head() + RULES))
    yield Lie("no length at all", host, SUCCESSFUL, BY_RULES)
    for name, length in (("negative", b"-5"), ("no number", b"many")):
        answer = raw(head(b"Content-Length: " + length) + PERMITS)
        yield Lie(f"a length that is {name}", site.add(answer), UNREACHABLE, NONE)
    host = site.add(raw(head(b"Content-Length: 9", length=len(PERMITS)) + PERMITS))
    yield Lie("two lengths", host, UNREACHABLE, NONE)
    host = site.add(raw(STATUS + CHUNKED + b"\r\n" + b"xyz\r\n" + PERMITS))
    yield Lie("a chunk whose length is none", host, UNREACHABLE, NONE)


def _slow_and_endless(site: Site) -> Iterator[Lie]:
    host = site.add(byte_by_byte(whole(RULES)))
    yield Lie("byte by byte", host, SUCCESSFUL, BY_RULES)
    host = site.add(byte_by_byte(head() + RULES))
    yield Lie("byte by byte, without a length", host, SUCCESSFUL, BY_RULES)
    drips = chain([head()], cycle([b"#", Then.PAUSE]))
    host = site.add(Answer(raw=lambda: drips))
    yield Lie("a byte now and then, without end", host, UNREACHABLE, NONE, lasts=True)
    host = site.add(endless(head() + RULES, b"#" * 65536))
    yield Lie("an endless body", host, SUCCESSFUL, BY_RULES)
    filling = chunk(b"#" * 65536)
    host = site.add(endless(STATUS + CHUNKED + b"\r\n" + chunk(RULES), filling))
    yield Lie("endless chunks", host, SUCCESSFUL, BY_RULES)
    host = site.add([robots(RULES.decode()), *repeat(robots(PERMITS.decode()), 9)])
    yield Lie("another one at each fetch", host, SUCCESSFUL, BY_RULES)


@cache
def bombs(size: int) -> dict[str, bytes]:
    return compressed(bomb(size))


def _compressed(site: Site, size: int) -> Iterator[Lie]:
    for name, body in bombs(size).items():
        host = site.add(packed(name, body))
        yield Lie(f"a bomb of {name}", host, SUCCESSFUL, BY_RULES)
    rules = [b"%b%d" % (RULES, number) for number in range(99)]
    for name, body in compressed(rules).items():
        host = site.add(packed(name, body))
        yield Lie(f"{name} that nobody asked for", host, SUCCESSFUL, BY_RULES)
        host = site.add(packed(name, without_end(body)))
        yield Lie(f"{name} without its end", host, UNREACHABLE, NONE)
        host = site.add(packed(name, with_garbage(body)))
        yield Lie(f"{name} with garbage in it", host, UNREACHABLE, NONE)


def _redirects(site: Site) -> Iterator[Lie]:
    five, six = site.add(), site.add()
    five.chain(5, robots(RULES.decode()))
    six.chain(6, robots(FORBIDS.decode()))
    yield Lie("five redirects", five, SUCCESSFUL, BY_RULES)
    yield Lie("six redirects", six, UNAVAILABLE, ALL)
    host = site.add(redirect("/gone", 308))
    host.answers["/gone"] = robots(FORBIDS.decode(), status=404)
    yield Lie("a redirect to a 404", host, UNAVAILABLE, ALL)
    host = site.add(redirect("/broken", 307))
    host.answers["/broken"] = robots(PERMITS.decode(), status=500)
    yield Lie("a redirect to a 500", host, UNREACHABLE, NONE, status=500)
    host = site.add(redirect(site.refusing().robotstxt))
    yield Lie("a redirect to a host that refuses", host, UNREACHABLE, NONE)
    host = site.add(redirect("/robots.txt", 301))
    yield Lie("a redirect to itself", host, UNAVAILABLE, ALL)
    one, two = site.add(), site.add()
    one.answers["/robots.txt"] = redirect(two.robotstxt)
    two.answers["/robots.txt"] = redirect(one.robotstxt)
    yield Lie("a redirect back and forth", one, UNAVAILABLE, ALL)
    yield Lie("a redirect forth and back", two, UNAVAILABLE, ALL)
    nowhere = {
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
    for name, location in nowhere.items():
        host = site.add(redirect(location, body=FORBIDS))
        yield Lie(f"a redirect to {name}", host, UNAVAILABLE, ALL)
    # Any address, as for pages: SECURITY.md says how to keep a crawl out of one's own network.
    other = site.add(robots(RULES.decode()), name="localhost")
    host = site.add(redirect(other.robotstxt))
    yield Lie("a redirect to another host", host, SUCCESSFUL, BY_RULES)
    with_user = other.robotstxt.replace("//", "//user:secret@")
    host = site.add(redirect(with_user))
    yield Lie("a redirect with userinfo", host, SUCCESSFUL, BY_RULES)
    encoded = "/a%0D%0AX-Injected:%20yes"
    host = site.add(redirect(encoded))
    host.answers[encoded] = robots(RULES.decode())
    yield Lie("a redirect with encoded line breaks", host, SUCCESSFUL, BY_RULES)
    for name, broken in {"CR": b"\r", "LF": b"\n", "a fold": b"\r\n\t"}.items():
        location = b"Location: /a" + broken + b"X-Injected: yes\r\n"
        answer = raw(b"HTTP/1.1 302 Found\r\n" + location + b"\r\n" + FORBIDS)
        host = site.add(answer)
        yield Lie(f"a redirect with {name}", host, SUCCESSFUL, ALL, strict=name == "CR")


def _heads(site: Site, headers: int) -> Iterator[Lie]:
    storm = EARLY_HINTS * 1_000
    host = site.add(raw(storm + whole(RULES)))
    yield Lie("a thousand early hints", host, SUCCESSFUL, BY_RULES)
    host = site.add(endless_hints())
    yield Lie("early hints without end", host, UNREACHABLE, NONE, lasts=True)
    many = [b"X-Field-%d: 1" % number for number in range(headers)]
    host = site.add(raw(whole(RULES, *many)))
    yield Lie("many headers", host, SUCCESSFUL, BY_RULES, strict=True)
    host = site.add(raw(whole(PERMITS, b"X-Robots-Tag: " + b"x" * 1_000_000)))
    yield Lie("a header of a megabyte", host, UNREACHABLE, NONE)


def _texts(site: Site) -> Iterator[Lie]:
    odd = b"# \0 \x1b]0;title\x07 \xe2\x80\xae \xe2\x80\xa8 \x85\n"
    host = site.add(Answer(odd + RULES + odd))
    yield Lie("control characters", host, SUCCESSFUL, BY_RULES)
    host = site.add(Answer(b"Disallow: /\n" + odd.replace(b"# ", b"User-agent: ")))
    yield Lie("control characters as an agent", host, SUCCESSFUL, ALL)
    text = RULES.decode()
    read = {"utf-16": BY_RULES, "utf-16-be": ALL, "utf-32": ALL, "utf-7": ALL}
    for encoding, pages in read.items():
        # UTF-7 encodes "*" as "+ACo-".
        body = text.replace("*", "+ACo-") if encoding == "utf-7" else text
        charset = {"Content-Type": f"text/plain; charset={encoding}"}
        host = site.add(Answer(body.encode(encoding), headers=charset))
        yield Lie(f"text in {encoding}", host, SUCCESSFUL, pages)


def _tls(site: Site) -> Iterator[Lie]:
    handshakes = {
        "closed in the handshake": (),
        "reset in the handshake": (Then.RESET,),
        "stopped in the handshake": (Then.STOP,),
        "garbage in the handshake": (b"\x16\x03\x03\x00\x10" + b"\xff" * 16,),
    }
    for name, parts in handshakes.items():
        host = site.plain_on_https()
        host.opening = lambda parts=parts: parts
        lasts = Then.STOP in parts
        yield Lie(f"TLS, {name}", host, UNREACHABLE, NONE, lasts=lasts)
    for where, answer in stages(Then.RESET).items():
        host = site.add(answer, tls=True)
        yield Lie(f"TLS that ends {where}", host, UNREACHABLE, NONE)
    host = site.add(robots(RULES.decode()), tls=True)
    yield Lie("TLS with a certificate of nobody", host, SUCCESSFUL, BY_RULES)


def _names(site: Site) -> Iterator[Lie]:
    host = site.add(robots(RULES.decode()), name="comes-back.test")
    yield Lie("a name that is found the second time", host, SUCCESSFUL, BY_RULES)
    host = site.add(robots(PERMITS.decode()), name="comes-late.test")
    yield Lie("a name that is found too late", host, UNREACHABLE, NONE)


ITEM, DROPPED, FAILED = "an item", "a dropped item", "no response"


@dataclass(frozen=True)
class PageLie:
    """A page with a broken answer, and the expected result."""

    name: str
    url: str
    becomes: str
    seconds: float = 60
    """The download time-out, in seconds."""

    strict: bool = False
    """Whether aiohttp rejects the answer, so that there is no response."""

    @property
    def request(self) -> dict[str, object]:
        return {"url": self.url, "meta": {"download_timeout": self.seconds}}

    def outcome(self, mode: str) -> str:
        return FAILED if self.strict and mode == "reactorless" else self.becomes


NOINDEX = b"<meta name=robots content=noindex>"
HTML = b"Content-Type: text/html"


def page_lies(site: Site, sizes: Sizes) -> list[PageLie]:
    host = site.add(robots(PERMITS.decode()))
    found = []

    def add(name: str, answer: Answer, becomes: str, *, strict: bool = False) -> None:
        path = f"/{len(found)}"
        host.answers[path] = answer
        seconds = 1 if name.startswith("stopped") else 600
        found.append(PageLie(name, host.url(path), becomes, seconds, strict))

    def page(*fields: bytes, body: bytes = b"<p>") -> Answer:
        return raw(whole(body, HTML, *fields))

    tag = b"X-Robots-Tag: "
    long = [tag + b"other: noindex, " + b"x, " * 1_000 for _ in range(330)]
    add("a tag of a megabyte", page(tag + b"x" * 1_000_000), FAILED)
    add("tags of a megabyte", page(*long, tag + b"noindex"), DROPPED, strict=True)
    many = [b"X-Field-%d: 1" % number for number in range(sizes.headers)]
    add("many headers", page(*many, tag + b"noindex"), DROPPED, strict=True)
    odd = b"noindex, \x1b[31m\x07 \xe2\x80\xae \xc2\x85 \xff"
    add("control characters in the tag", page(tag + odd), DROPPED, strict=True)
    meta = b"<meta name=robots content='noindex, \0 &#27;[31m &#8238; \xe2\x80\xae'>"
    add("control characters on the page", page(body=meta), DROPPED)
    answer = raw(EARLY_HINTS * 1_000 + whole(b"<p>", HTML, tag + b"noindex"))
    add("a thousand early hints", answer, DROPPED)
    for encoding in ("utf-16", "utf-32"):
        add(encoding, page(body=NOINDEX.decode().encode(encoding)), DROPPED)
    utf_7 = NOINDEX.replace(b"<", b"+ADw-").replace(b">", b"+AD4-")
    add("utf-7", page(body=b"<meta charset=utf-7>" + utf_7), ITEM)
    rest = b"<p>-- " * (sizes.page // 6) + NOINDEX
    add("a comment without end", page(body=b"<!--" + rest), ITEM)
    add("a quote without end", page(body=b"<meta name=robots content='" + rest), ITEM)
    add("a page of nothing but tags", page(body=NOINDEX * (sizes.page // 40)), DROPPED)
    for kind, then in {
        "closed": None,
        "stopped": Then.STOP,
        "reset": Then.RESET,
    }.items():
        for where in ("in the headers", "in the body", "in a chunk"):
            add(f"{kind} {where}", stages(then)[where], FAILED)
    return found
