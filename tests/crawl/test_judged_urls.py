"""Tests that the URL that is judged is the URL that is sent: however a URL is spelled, the server gets no
request that its robots.txt forbids.
"""

from __future__ import annotations

import re
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
    from pathlib import Path

    from tests.crawl.server import Hit, Host, Site

pytestmark = pytest.mark.unmeasured

RULES = (
    "User-agent: *\nDisallow: /secret\nDisallow: /no\nDisallow: /*&x\nDisallow: ////\n"
    "Disallow: /a!b\nDisallow: /q?x\nDisallow: /end$\nDisallow: /%C3%A9\nDisallow: //h\n"
    "Disallow: /robots.txt;no\n"
)
UNRESERVED = string.ascii_letters + string.digits + "-._~"

EVASIVE_PATHS = {
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
    "/end;": "/end",  # Twisted drops the empty parameter.
}
"""Spellings of forbidden paths, and the normalised form of each."""
ORDINARY_PATHS = (
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


def proxy_of(site: Site) -> Host:
    """Return a proxy that answers RULES for the robots.txt of each host."""
    proxy = site.add()
    proxy.limit = lambda hit: (
        robots(RULES) if hit.path.endswith("/robots.txt") else None
    )
    return proxy


def path_and_query(hit: Hit) -> str:
    """Return the path and query of a request, also of a request through a proxy."""
    rest = re.sub("^[a-z]+://[^/?]*", "", hit.target)
    return rest if rest.startswith("/") else f"/{rest}"


def forbidden_targets(host: Host, dialect: str = "rfc9309") -> list[str]:
    """Return the targets of the requests to *host* that RULES forbids: the path and query of each request, or
    its URL if *host* is a proxy.

    A request counts as forbidden if RULES forbids its path as sent, or its path as normalised by RFC 3986.
    ``tests.protocol.reference`` decides, not the parser of this package. *dialect* is a value of REP_DIALECT.
    """
    rules = Reference(RULES.encode(), DIALECTS[dialect])
    return [
        hit.target
        for hit in host.hits
        for path in (path_and_query(hit), normalised(path_and_query(hit)))
        if path != "/robots.txt"
        and not rules.decide(f"http://host{path}", "testbot")[0]
    ]


def normalised(text: str) -> str:
    """Normalise a path and query by RFC 3986, sections 5.2.4 and 6.2.2.2,
    independently of the package.
    """

    def unescape(octet: re.Match[str]) -> str:
        character = chr(int(octet[1], 16))
        return character if character in UNRESERVED else octet[0]

    path, mark, query = re.sub("%([0-9a-fA-F]{2})", unescape, text).partition("?")
    _, *segments = path.replace("\\", "/").split("/")
    kept_segments: list[str] = []
    for number, segment in enumerate(segments, 1):
        if segment == "..":
            del kept_segments[-1:]
        elif segment != ".":
            kept_segments.append(segment)
        if segment in {".", ".."} and number == len(segments):
            kept_segments.append("")
    return "/" + "/".join(kept_segments) + mark + query


def test_no_spelling_of_a_path_bypasses_a_rule(
    site: Site, every_mode: str, tmp_path: Path
) -> None:
    """A path that leads to a forbidden page through dot segments or escapes is refused. The denial and the
    ledger have the normalised URL. Ordinary paths are fetched. The same applies with a proxy.
    """
    host, proxy = site.add(RULES), proxy_of(site)
    starts = {host.origin: {}, "http://host.test": {"proxy": proxy.origin}}
    requests = [
        {"url": start + path, "meta": meta}
        for start, meta in starts.items()
        for path in (*EVASIVE_PATHS, *ORDINARY_PATHS)
    ]
    ledger = tmp_path / "ledger"
    settings = {"REP_LEDGER": str(ledger)}
    result = run_crawl(requests, mode=every_mode, settings=settings)
    assert forbidden_targets(host) == forbidden_targets(proxy) == []
    expected = {path.replace("\\", "/"): form for path, form in EVASIVE_PATHS.items()}
    if every_mode == "reactorless":
        expected["/a%26xb"] = "/a&xb"  # as aiohttp sends it
    forms = {
        start + path: start + expected[path] for start in starts for path in expected
    }
    messages = {error["url"]: error["message"] for error in result.errors}
    assert messages.keys() == forms.keys()
    assert [
        url for url in forms if not messages[url].endswith(f", as {forms[url]}")
    ] == []
    recorded = rows(ledger, "SELECT url, form FROM decision")
    assert {row["url"]: row["form"] for row in recorded} == forms
    for start in starts:
        (line,) = result.lines("DEBUG", start + "/./secret/2")
        assert f"as {start}/secret/2" in line
    assert len(result.responses) == len(requests) - len(messages)
    assert result.stats["rep/denied/rule"] == len(messages)


def test_robotstxt_is_requested_by_the_normalised_host_name(
    site: Site, mode: str
) -> None:
    """The host names have escapes or unusual characters. A URL whose host or port is invalid is refused."""
    proxy = proxy_of(site)
    hosts, bad = (
        [f"http://{host}" for host in part] for part in (ODD_HOSTS, BAD_HOSTS)
    )
    urls = [origin + path for origin in (*hosts, *bad) for path in ("/no", "/open")]
    meta = {"proxy": proxy.origin}
    result = run_crawl([{"url": url, "meta": meta} for url in urls], mode=mode)
    assert forbidden_targets(proxy) == []
    robots_requests = [
        hit.target for hit in proxy.hits if hit.target.endswith("/robots.txt")
    ]
    expected = {f"http://{host}/robots.txt" for host in ODD_HOSTS.values()}
    assert sorted(robots_requests) == sorted(expected)
    assert len(result.responses) == result.stats["rep/denied/rule"] == len(ODD_HOSTS)
    for denials in (result.errors, result.denied):
        of_bad = [denial for denial in denials if denial["reason"] == "bad-url"]
        assert len(of_bad) == 2 * len(bad)
        assert {denial["robotstxt_url"] for denial in of_bad} == {""}
    assert {error["error"] for error in result.errors} == {"RobotsDenied"}
    assert result.stats["rep/denied/bad-url"] == 2 * len(bad)
    lines = result.lines("DEBUG", "Refused", "host or port", "invalid")
    assert len(lines) == 2 * len(bad)


@pytest.mark.skipif(
    not hasattr(Request, "_url_is_verbatim"), reason="This Scrapy encodes every URL"
)
@pytest.mark.parametrize("where", ["direct", "proxy"])
def test_verbatim_urls_are_judged_as_the_server_reads_them(
    site: Site, where: str, mode: str
) -> None:
    """If the meta of a request has ``verbatim_url``, Scrapy does not encode the URL. The rules are applied to
    the URL as the server reads it. If the host or port of the URL is invalid, the request is refused.
    """
    host, meta = site.add(RULES), {"verbatim_url": True}
    name, port = host.name, str(host.port)
    if where == "proxy":
        host, name, port = proxy_of(site), "host.test", "4790"
        meta["proxy"] = host.origin
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
        f"http://{name}\n:{port}/no",
        *(start + path for path in paths),
    ]
    urls = [*bad, *denied, f"{start}/open[1]|2"]
    result = run_crawl([{"url": url, "meta": meta} for url in urls], mode=mode)
    assert forbidden_targets(host) == []
    assert [path_and_query(hit) for hit in host.hits] == ["/robots.txt", "/open[1]|2"]
    reasons = {error["url"]: error["reason"] for error in result.errors}
    assert reasons == {**dict.fromkeys(bad, "bad-url"), **dict.fromkeys(denied, "rule")}


def test_urls_that_only_resemble_robotstxt_follow_the_rules(
    site: Site, every_mode: str
) -> None:
    """A URL that is not exactly /robots.txt follows the rules as each page does. A request for /robots.txt
    gets a copy of the response that the crawl has fetched. No meta key of a request bypasses the rules.
    """
    host = site.add(RULES)
    paths = ["/robots.txt", "/robots.txt;x", "/robots.txt;no", "/robots.txt?x"]
    metas: list[dict[str, Any]] = [{"_rep_fetch": value} for value in (True, None, {})]
    metas.append({"is_start_request": True, "rep_fetch": True, "robotstxt": True})
    secret = [
        {"url": host.url(f"/secret/{number}"), "meta": meta}
        for number, meta in enumerate(metas)
    ]
    result = run_crawl([*map(host.url, paths), *secret], mode=every_mode)
    assert host.pages == ["/robots.txt;x", "/robots.txt?x"]
    assert len(host.robots_hits) == 1
    copies = [response["url"] for response in result.responses if response["flags"]]
    assert copies == [host.robotstxt]
    assert result.stats["rep/denied/rule"] == len(result.errors) == 1 + len(metas)


_WORDS = (
    "/ / / secret secret no a b .. . %2e %2E %73 %2F %5c \\ %26 & x ! %21 ? q end é"
    " %C3%A9 %e9 # ; = % %zz // h %00 %20 $ * ~ %7E : @ [ | ^ ツ"
)
PIECES = (*_WORDS.split(), *"\t\n\r \x0b\0\x7f")
_HOST_WORDS = (
    "a b B . - _ + ! * %61 %2e %2E %20 ü %C3%BC ~ | \\ %00 %25 ( , 1 ' 。 ß ^ {"
)
HOST_PIECES = (*_HOST_WORDS.split(), *" \t")
USERS = (*("",) * 9, "u@", "u:p@", "a@b@", ":@", "%40@", "u:80@")
PORTS = (*("",) * 12, ":80", ":0", ":8080", ":080", ":+80", ":8_0", ":", ":x", ":99999", ": 80")  # fmt: skip
STARTS = (*("http://",) * 6, "HTTP://", " http://", "ht\ttp://")
DIALECT = {"asyncio": "rfc9309", "select": "classic", "reactorless": "google"}


def requests_of(urls: list[str], **meta: Any) -> list[dict[str, Any]]:
    """Return two requests for each valid URL of *urls*: one that Scrapy encodes, and one that is verbatim."""
    requests = []
    for url in urls:
        for encoding in ({}, {"verbatim_url": True}):
            request = {"url": url, "meta": {**meta, **encoding}, "dont_filter": True}
            try:
                # Scrapy's scheduler would fail in the same way.
                urlsplit(Request(**request).url)
            except (ValueError, TypeError):
                continue
            requests.append(request)
    return requests


@pytest.mark.slow
def test_no_random_url_is_sent_whose_request_line_is_forbidden(
    site: Site, mode: str
) -> None:
    """The random URLs are the same in each run. The reference parser judges the request lines in the access
    log.
    """
    proxy, host, dialect = proxy_of(site), site.add(RULES), DIALECT[mode]
    rng = Random(1)

    def random_text(pieces: tuple[str, ...], least: int, most: int) -> str:
        """Return between *least* and *most* random *pieces* as one text."""
        return "".join(rng.choices(pieces, k=rng.randint(least, most)))

    urls_of_random_hosts = [
        f"{random_text(STARTS, 1, 1)}{random_text(USERS, 1, 1)}{random_text(HOST_PIECES[:8], 0, 2)}"
        f"{random_text(HOST_PIECES, 1, 2)}{random_text(PORTS, 1, 1)}{random_text(PIECES, 0, 8)}"
        for _ in range(100)
    ]
    urls_of_host = [host.url("/" + random_text(PIECES, 0, 8)) for _ in range(100)]
    requests = [
        *requests_of(urls_of_random_hosts, proxy=proxy.origin),
        *requests_of(urls_of_host),
    ]
    result = run_crawl(requests, mode=mode, settings={"REP_DIALECT": dialect})
    assert forbidden_targets(proxy, dialect) == []
    assert forbidden_targets(host, dialect) == []
    assert len(proxy.hits) > 40
    assert len(host.hits) > 75
    assert result.stats["rep/denied/rule"] > 15
    assert result.stats["rep/denied/bad-url"] > 25
