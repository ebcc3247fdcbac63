"""The URL that is judged is the one that is sent: however a URL is written, the server gets
no request that its robots.txt forbids.
"""

from __future__ import annotations

import string
from random import Random
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from scrapy import Request

from scrapy_rep.protocol.dialect import DIALECTS
from tests.crawl.answers import robots
from tests.crawl.crawl import run_crawl
from tests.crawl.test_ledger import rows
from tests.protocol.reference import Reference

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tests.crawl.server import Hit, Host, Site

pytestmark = pytest.mark.unmeasured

RULES = (
    "User-agent: *\nDisallow: /secret\nDisallow: /no\nDisallow: /*&x\nDisallow: ////\n"
    "Disallow: /a!b\nDisallow: /q?x\nDisallow: /end$\nDisallow: /%C3%A9\nDisallow: //h\n"
)
needs_verbatim = pytest.mark.skipif(
    not hasattr(Request, "_url_is_verbatim"), reason="This Scrapy encodes every URL"
)

AROUND = {
    "/a/../secret/1": "/secret/1",
    "/./secret/2": "/secret/2",
    "/a/%2e%2e/secret/3": "/secret/3",
    "/../secret/4": "/secret/4",
    "/a\\..\\secret/5": "/secret/5",
    "/a/b/../../secret/7": "/secret/7",
    "/a/.%2E/secret/8": "/secret/8",
    "/a//../../secret/../no": "/no",
    "/x;y/../secret": "/secret",
    "/%2e/secret?x=/..": "/secret?x=/..",
    "/end;": "/end",  # as Twisted sends it
}
ORDINARY = (
    "/.well-known/x", "/a..b/.c", "/a%20b", "/caf%C3%A9", "/a%2Fb?u=http://h//x&y=%26",
    "/open/", "/?x=/../secret", "/a%26xb", "/%5Bsecret%5D", "/a/b;c=d",
)  # fmt: skip

ODD_HOSTS = {
    "ex%61mple.test": "example.test",
    "a+b.test": "a+b.test",
    "a!b.test": "a!b.test",
    "*.test": "*.test",
    "a%2eb.test": "a.b.test",
    "a%2BB.test": "a+b.test",
    "a~b.test": "a~b.test",
    "(x),y;z='1'&$.test": "(x),y;z='1'&$.test",
    'a"{b}`.test': 'a"{b}`.test',
    "%C3%BC.test": "xn--tda.test",
    "user:secret@u.test": "u.test",
}
BAD_HOSTS = (
    "a|b.test", "a%20b.test", "a%2fb.test", "a%3ab.test", "a^b.test", "%zz.test",
    "a%25b.test", "%FF.test", "a%00b.test",
)  # fmt: skip


class RulesForAll(dict[str, Any]):
    """The answers of a proxy for hosts that all have the same robots.txt."""

    def get(self, target: str, default: Any = None) -> Any:
        if target.endswith("/robots.txt"):
            return robots(RULES)
        return super().get(target, default)


def proxy_of(site: Site) -> Host:
    proxy = site.add()
    proxy.answers = RulesForAll()
    return proxy


def through(proxy: Host, url: str) -> dict[str, Any]:
    return {"url": url, "meta": {"proxy": proxy.origin}}


def target(hit: Hit) -> str:
    """Return the path and query of a request, also of one through a proxy."""
    if hit.target.startswith("/"):
        return hit.target
    _, _, rest = hit.target.partition("://")
    slash = rest.find("/")
    return rest[slash:] if slash >= 0 else "/" + rest.partition("?")[2]


def forbidden(host: Host, dialect: str = "rfc9309") -> list[str]:
    """Return the requests that robots.txt forbids, both as sent and
    as normalised by RFC 3986.
    """
    found = []
    rules = Reference(RULES.encode(), DIALECTS[dialect])
    for hit in host.hits:
        seen = target(hit)
        for each in (seen, resolved(seen)):
            allowed, *_ = rules.decide("http://host" + each, "testbot")
            if each != "/robots.txt" and not allowed:
                found.append(hit.target)
    return found


def resolved(seen: str) -> str:
    """Normalise a path and query by RFC 3986, sections 5.2.4 and 6.2.2.2,
    independently of the package.
    """
    out, at = "", 0
    while at < len(seen):
        octet = seen[at + 1 : at + 3]
        is_octet = len(octet) == 2 and all(each in string.hexdigits for each in octet)
        if seen[at] == "%" and is_octet:
            plain = chr(int(octet, 16))
            keeps = plain not in string.ascii_letters + string.digits + "-._~"
            out, at = out + (seen[at : at + 3] if keeps else plain), at + 3
        else:
            out, at = out + seen[at], at + 1
    path, mark, query = out.partition("?")
    left, done = path.replace("\\", "/"), ""
    while left:
        if left.startswith("/./"):
            left = left[2:]
        elif left == "/.":
            left = "/"
        elif left.startswith("/../") or left == "/..":
            left = "/" + left[4:]
            done = done[: done.rfind("/")] if "/" in done else ""
        else:
            end = left.find("/", 1)
            end = len(left) if end < 0 else end
            done, left = done + left[:end], left[end:]
    return done + mark + query


def test_ways_around(site: Site, every_mode: str, tmp_path: Path) -> None:
    """A path that leads to a forbidden page through dot segments or escapes is refused, and
    the denial and the ledger have the normalised URL. Ordinary paths are fetched. So it is with a proxy.
    """
    host, proxy = site.add(RULES), proxy_of(site)
    starts = {host.origin: {}, "http://host.test": {"proxy": proxy.origin}}
    requests = [
        {"url": start + path, "meta": meta}
        for start, meta in starts.items()
        for path in (*AROUND, *ORDINARY)
    ]
    ledger = tmp_path / "ledger"
    settings = {"REP_LEDGER": str(ledger)}
    result = run_crawl(requests, mode=every_mode, settings=settings)
    assert forbidden(host) == forbidden(proxy) == []
    expected = {path.replace("\\", "/"): form for path, form in AROUND.items()}
    if every_mode == "reactorless":
        expected["/a%26xb"] = "/a&xb"  # as aiohttp sends it
    said = {error["url"]: error["message"] for error in result.errors}
    assert said.keys() == {start + path for start in starts for path in expected}
    recorded = rows(ledger, "SELECT url, form FROM decision")
    assert {row["url"]: row["form"] for row in recorded} == {
        start + path: start + form
        for start in starts
        for path, form in expected.items()
    }
    for start in starts:
        for path, form in expected.items():
            assert said[start + path].endswith(f", as {start}{form}"), path
        (line,) = result.lines("DEBUG", start + "/./secret/2")
        assert f"as {start}/secret/2" in line
    assert len(result.responses) == len(requests) - len(said)
    assert result.stats["rep/denied/rule"] == len(said)


def test_odd_hosts(site: Site, mode: str) -> None:
    """The robots.txt of a host with an unusual name is requested by its normalised name. A
    URL whose host can't be read is refused.
    """
    proxy = proxy_of(site)
    paths = ("/no", "/open")
    requests = [
        through(proxy, f"http://{host}{path}")
        for host in (*ODD_HOSTS, *BAD_HOSTS)
        for path in paths
    ]
    result = run_crawl(requests, mode=mode)
    assert forbidden(proxy) == []
    asked = [hit.target for hit in proxy.hits if hit.target.endswith("/robots.txt")]
    plain = {f"http://{host}/robots.txt" for host in ODD_HOSTS.values()}
    assert sorted(asked) == sorted(plain)
    assert len(result.responses) == len(ODD_HOSTS)
    bad = [error for error in result.errors if error["reason"] == "bad-url"]
    assert len(bad) == 2 * len(BAD_HOSTS)
    assert {error["error"] for error in result.errors} == {"RobotsDenied"}
    assert {error["robotstxt_url"] for error in bad} == {""}
    assert result.stats["rep/denied/bad-url"] == len(bad)
    assert result.stats["rep/denied/rule"] == len(ODD_HOSTS)
    said = [one for one in result.denied if one["reason"] == "bad-url"]
    assert {one["url"] for one in said} == {one["url"] for one in bad}
    assert len(
        result.lines("DEBUG", "Forbidden", "host or port", "can't be read")
    ) == len(bad)


@needs_verbatim
@pytest.mark.parametrize("where", ["direct", "proxy"])
def test_verbatim(site: Site, where: str, mode: str) -> None:
    """URLs with ``verbatim_url``, which Scrapy does not encode, are judged as the server
    reads them, and refused if they can't be read.
    """
    host = site.add(RULES) if where == "direct" else proxy_of(site)
    name, port = host.origin.removeprefix("http://").split(":")
    if where == "proxy":
        name, port = "host.test", "4790"
    start = f"http://{name}:{port}"
    bad = [
        f"http://{name}:+{port}/1",
        f"http://{name}:{port[0]}_{port[1:]}/2",
        f"http://{name}: {port}/3",
        f"http://{name}:{port} /4",
        f"http://{name}:port/5",
        f"http://{name}:99999/6",
        f"http://a\\b@{name}:{port}\\/7",
        f"http:///{name}:{port}/8",
    ]
    paths = (
        *("/sec\tret/3", "/sec\r\nret/4", "/a\\..\\secret", "/end x", "/é", "//h"),
        *("/a/../no", "/no\x0bx", "/x/..\t/no"),
    )
    denied = [
        f" {start}/secret/1",
        f"\x00{start}/secret/2",
        f"HTTP://{name}:{port}/secret",
    ]
    denied += [f"http://{name}\n:{port}/no", *(start + path for path in paths)]
    meta = {
        "verbatim_url": True,
        **({"proxy": host.origin} if where == "proxy" else {}),
    }
    allowed = f"{start}/open[1]|2"
    requests = [{"url": url, "meta": meta} for url in (*bad, *denied, allowed)]
    result = run_crawl(requests, mode=mode)
    assert forbidden(host) == []
    assert [target(hit) for hit in host.hits] == ["/robots.txt", "/open[1]|2"]
    reasons = {error["url"]: error["reason"] for error in result.errors}
    assert reasons == {**dict.fromkeys(bad, "bad-url"), **dict.fromkeys(denied, "rule")}


def test_no_meta_key_opens_the_gate(site: Site, every_mode: str) -> None:
    """No meta key of a request bypasses the rules."""
    host = site.add(RULES)
    keys: list[Mapping[str, Any]] = [{"_rep_fetch": each} for each in (True, None, {})]
    keys.append({"is_start_request": True, "rep_fetch": True, "robotstxt": True})
    requests = [
        {"url": host.url(f"/secret/{number}"), "meta": meta}
        for number, meta in enumerate(keys)
    ]
    result = run_crawl(requests, mode=every_mode)
    assert host.pages == []
    assert result.stats["rep/denied/rule"] == len(keys)


def test_robotstxt_with_more(site: Site, mode: str) -> None:
    """A URL that is not exactly /robots.txt follows the rules like any page."""
    host = site.add(RULES + "Disallow: /robots.txt;no\n")
    paths = ["/robots.txt", "/robots.txt;x", "/robots.txt;no", "/robots.txt?x"]
    result = run_crawl(map(host.url, paths), mode=mode)
    assert host.pages == ["/robots.txt;x", "/robots.txt?x"]
    assert len(host.robots_hits) == 1
    copies = [each["url"] for each in result.responses if each["flags"]]
    assert copies == [host.robotstxt]
    assert [error["url"] for error in result.errors] == [host.url("/robots.txt;no")]


_WORDS = (
    "/ / / secret secret no a b .. . %2e %2E %73 %2F %5c \\ %26 & x ! %21 ? q end é"
    " %C3%A9 %e9 # ; = % %zz // h %00 %20 $ * ~ %7E : @ [ | ^ ツ"
)
PIECES = (*_WORDS.split(), *"\t\n\r \x0b\0\x7f")
_OF_HOSTS = "a b B . - _ + ! * %61 %2e %2E %20 ü %C3%BC ~ | \\ %00 %25 ( , 1 ' 。 ß ^ {"
HOST_PIECES = (*_OF_HOSTS.split(), *" \t")
USERS = (*("",) * 9, "u@", "u:p@", "a@b@", ":@", "%40@", "u:80@")
PORTS = (*("",) * 12, ":80", ":0", ":8080", ":080", ":+80", ":8_0", ":", ":x", ":99999", ": 80")  # fmt: skip
STARTS = (*("http://",) * 6, "HTTP://", " http://", "ht\ttp://")
PLAIN = ("a", "b", "Z", "9", "-", "_", ".", "~", "%20", "%C3%BC", "+", ",")


class Drawn:
    """Random URLs, the same in each run."""

    def __init__(self) -> None:
        self._chance = Random(1)

    def some(self, pieces: Sequence[str], least: int, most: int) -> str:
        return "".join(
            self._chance.choices(pieces, k=self._chance.randint(least, most))
        )

    def path(self) -> str:
        return self.some(PIECES, 0, 8)

    def anywhere(self) -> str:
        host = self.some("abB.-_+", 0, 2) + self.some(HOST_PIECES, 1, 2)
        start, user, port = map(self._chance.choice, (STARTS, USERS, PORTS))
        return f"{start}{user}{host}{port}{self.path()}"

    def plain_path(self) -> str:
        parts = [self.some(PLAIN, 1, 6) for _ in range(self._chance.randint(1, 4))]
        return "/" + "/".join(parts)


def requests_of(urls: list[str], **meta: Any) -> list[dict[str, Any]]:
    """Return requests for the valid ones of *urls*, each encoded by Scrapy and verbatim."""
    found = []
    for url in urls:
        for more in ({}, {"verbatim_url": True}):
            request = {"url": url, "meta": {**meta, **more}, "dont_filter": True}
            try:
                urlsplit(Request(**request).url)  # As Scrapy's scheduler does.
            except (ValueError, TypeError):
                continue
            found.append(request)
    return found


DIALECT = {"asyncio": "rfc9309", "select": "classic", "reactorless": "google"}


@pytest.mark.slow
def test_random_urls(site: Site, mode: str) -> None:
    """For random URLs, the server gets no request that a simple reading of its request line
    forbids. Ordinary allowed URLs are all fetched.
    """
    proxy, host, dialect = proxy_of(site), site.add(RULES), DIALECT[mode]
    drawn = Drawn()
    plain = [
        host.url(path)
        for path in (drawn.plain_path() for _ in range(60))
        if not any(part in {".", ".."} for part in path.split("/"))
    ]
    anywhere = [drawn.anywhere() for _ in range(200)]
    here = [host.url("/" + drawn.path()) for _ in range(200)]
    requests = [
        *requests_of(anywhere, proxy=proxy.origin),
        *requests_of(here),
        *({"url": url, "meta": {"plain": True}, "dont_filter": True} for url in plain),
    ]
    result = run_crawl(requests, mode=mode, settings={"REP_DIALECT": dialect})
    assert forbidden(proxy, dialect) == []
    assert forbidden(host, dialect) == []
    fetched = set(result.fetched())
    assert set(plain) <= fetched
    assert len(proxy.hits) > 100
    assert len(host.hits) > 200
    assert result.stats["rep/denied/rule"] > 30
    assert result.stats["rep/denied/bad-url"] > 50
