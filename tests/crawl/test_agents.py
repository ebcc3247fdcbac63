"""Whose rules are followed: those for the name that the crawl goes by."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.crawl.crawl import run_crawl

if TYPE_CHECKING:
    from tests.crawl.server import Site

pytestmark = pytest.mark.newest

RULES = """\
User-agent: *
Disallow: /everyone
User-agent: defaultbot
Disallow: /defaultbot
User-agent: spiderbot
Disallow: /spiderbot
User-agent: headerbot
Disallow: /headerbot
User-agent: ownbot
Disallow: /ownbot
"""
BROWSER = (
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) "
    "Chrome/142.0.0.0 Safari/537.36"
)
NAMES = ("everyone", "defaultbot", "spiderbot", "headerbot", "ownbot")


def followed(
    site: Site,
    settings: dict[str, object],
    headers: dict[str, str] | None = None,
    **kwargs: object,
) -> set[str]:
    """Return the names whose rules a crawl kept to."""
    host = site.add(RULES)
    requests = [
        {"url": host.url(f"/{name}"), "headers": headers or {}} for name in NAMES
    ]
    result = run_crawl(requests, settings=settings, **kwargs)
    assert len(host.robots_hits) == 1
    assert not result.lines("WARNING", "ROBOTSTXT_USER_AGENT")
    return set(NAMES) - {path[1:] for path in host.pages}


def test_user_agent(site: Site) -> None:
    """Without anything else, USER_AGENT is the name, its version and URL apart."""
    settings = {"USER_AGENT": "defaultbot/2.0 (+https://example.com/)"}
    assert followed(site, settings) == {"defaultbot"}


def test_user_agent_of_the_spider(site: Site, mode: str) -> None:
    """``spider.user_agent`` is what is sent, so it is the name."""
    settings = {"USER_AGENT": "defaultbot"}
    names = followed(site, settings, spider="MozillaSpider", mode=mode)
    assert names == {"spiderbot"}


def test_default_request_headers(site: Site) -> None:
    """So is a User-Agent in DEFAULT_REQUEST_HEADERS."""
    headers = {"User-Agent": "headerbot/1.0"}
    settings = {"USER_AGENT": "defaultbot", "DEFAULT_REQUEST_HEADERS": headers}
    assert followed(site, settings) == {"headerbot"}


def test_the_header_of_a_request(site: Site) -> None:
    """And the header of the request itself comes before all others."""
    settings = {"DEFAULT_REQUEST_HEADERS": {"User-Agent": "headerbot/1.0"}}
    names = followed(
        site, settings, {"User-Agent": "ownbot/1.0"}, spider="MozillaSpider"
    )
    assert names == {"ownbot"}


def test_requests_by_several_names(site: Site) -> None:
    """One robots.txt serves requests of different names, each by its own rules."""
    host = site.add(RULES)
    requests = [
        {"url": host.url(f"/{path}?{name}"), "headers": {"User-Agent": name}}
        for name in ("ownbot", "spiderbot")
        for path in ("ownbot", "spiderbot")
    ]
    run_crawl(requests)
    assert host.pages == ["/ownbot?spiderbot", "/spiderbot?ownbot"]
    assert len(host.robots_hits) == 1


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("ownbot", "ownbot"),
        (["headerbot", "ownbot"], "headerbot"),
        (["unheard-of", "ownbot", "headerbot"], "ownbot"),
        (["unheard-of", "unseen"], "everyone"),
        ("unheard-of,OwnBot", "ownbot"),
    ],
)
def test_robotstxt_user_agent(site: Site, names: object, expected: str) -> None:
    """ROBOTSTXT_USER_AGENT is the name whatever is sent; of several, the first with a group."""
    settings = {"ROBOTSTXT_USER_AGENT": names, "USER_AGENT": "defaultbot"}
    assert followed(site, settings) == {expected}


@pytest.mark.parametrize("user_agent", [BROWSER, ""], ids=["browser", "empty"])
def test_a_name_that_is_none(site: Site, user_agent: str) -> None:
    """A browser's User-Agent, or none, is told once; the rules for everyone are kept to."""
    host = site.add(RULES)
    urls = [host.url(f"/{name}") for name in NAMES]
    result = run_crawl(urls, settings={"USER_AGENT": user_agent})
    assert len(result.lines("WARNING", "ROBOTSTXT_USER_AGENT")) == 1
    assert set(NAMES) - {path[1:] for path in host.pages} == {"everyone"}


def test_a_browser_with_a_name(site: Site) -> None:
    """A browser's User-Agent is no matter where ROBOTSTXT_USER_AGENT says who it is."""
    settings = {"USER_AGENT": BROWSER, "ROBOTSTXT_USER_AGENT": "ownbot"}
    assert followed(site, settings) == {"ownbot"}


def test_a_name_with_digits(site: Site) -> None:
    """It is followed as it is, and one warning says what RFC 9309 knows; another says
    that Scrapy's setting for a parser is not used.
    """
    host = site.add("User-agent: *\nDisallow:\nUser-agent: MJ12bot\nDisallow: /a\n")
    result = run_crawl(
        [host.url("/a"), host.url("/b")],
        settings={
            "USER_AGENT": "MJ12bot/1.4",
            "ROBOTSTXT_PARSER": "scrapy.robotstxt.PythonRobotParser",
        },
    )
    assert host.pages == ["/b"]
    (name,) = result.lines("WARNING", "RFC 9309")
    assert "MJ12bot" in name
    (parser,) = result.lines("WARNING", "ROBOTSTXT_PARSER")
    assert "scrapy.robotstxt.PythonRobotParser" in parser


def test_this_package_as_the_parser_is_no_news(site: Site) -> None:
    """Nothing is said of a parser that is this package's."""
    host = site.add("User-agent: *\nDisallow: /a\n")
    settings = {"USER_AGENT": "mybot", "ROBOTSTXT_PARSER": "scrapy_rep.RobotParser"}
    result = run_crawl([host.url("/a"), host.url("/b")], settings=settings)
    assert host.pages == ["/b"]
    assert not result.lines("WARNING", "ROBOTSTXT_PARSER")
    assert not result.lines("WARNING", "RFC 9309")
