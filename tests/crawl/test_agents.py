"""The user agent whose rules a crawl follows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.crawl.crawl import run_crawl

if TYPE_CHECKING:
    from tests.crawl.server import Site

pytestmark = [pytest.mark.newest, pytest.mark.unmeasured]

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
    """Return the user agents whose rules a crawl followed."""
    host = site.add(RULES)
    requests = [
        {"url": host.url(f"/{name}"), "headers": headers or {}} for name in NAMES
    ]
    result = run_crawl(requests, settings=settings, **kwargs)
    assert len(host.robots_hits) == 1
    assert not result.lines("WARNING", "ROBOTSTXT_USER_AGENT")
    return set(NAMES) - {path[1:] for path in host.pages}


def test_user_agent(site: Site) -> None:
    """By default, the rules are those for the product token in USER_AGENT,
    without version and URL.
    """
    settings = {"USER_AGENT": "defaultbot/2.0 (+https://example.com/)"}
    assert followed(site, settings) == {"defaultbot"}


def test_user_agent_of_the_spider(site: Site, mode: str) -> None:
    """``spider.user_agent`` has priority over USER_AGENT."""
    settings = {"USER_AGENT": "defaultbot"}
    names = followed(site, settings, spider="MozillaSpider", mode=mode)
    assert names == {"spiderbot"}


def test_default_request_headers(site: Site) -> None:
    """A User-Agent in DEFAULT_REQUEST_HEADERS has priority over USER_AGENT."""
    headers = {"User-Agent": "headerbot/1.0"}
    settings = {"USER_AGENT": "defaultbot", "DEFAULT_REQUEST_HEADERS": headers}
    assert followed(site, settings) == {"headerbot"}


def test_the_header_of_a_request(site: Site) -> None:
    """The User-Agent header of a request has priority over all settings of the header."""
    settings = {"DEFAULT_REQUEST_HEADERS": {"User-Agent": "headerbot/1.0"}}
    names = followed(
        site, settings, {"User-Agent": "ownbot/1.0"}, spider="MozillaSpider"
    )
    assert names == {"ownbot"}


def test_requests_by_several_names(site: Site) -> None:
    """Requests with different User-Agent headers share one robots.txt, and
    each follows its own rules.
    """
    host = site.add(RULES)
    requests = [
        {"url": host.url(f"/{path}?{name}"), "headers": {"User-Agent": name}}
        for name in ("ownbot", "spiderbot")
        for path in ("ownbot", "spiderbot")
    ]
    run_crawl(requests)
    assert host.pages == ["/ownbot?spiderbot", "/spiderbot?ownbot"]
    assert len(host.robots_hits) == 1


def test_robotstxt_user_agent(site: Site) -> None:
    """ROBOTSTXT_USER_AGENT has priority over any header. Of several names, the first with a
    group in robots.txt is used.
    """
    names = ["unheard-of", "ownbot", "headerbot"]
    settings = {"ROBOTSTXT_USER_AGENT": names, "USER_AGENT": "defaultbot"}
    assert followed(site, settings) == {"ownbot"}


@pytest.mark.parametrize("user_agent", [BROWSER, ""], ids=["browser", "empty"])
def test_a_name_that_is_none(site: Site, user_agent: str) -> None:
    """With a browser's User-Agent, or an empty one, one warning is logged, and
    the rules for ``*`` hold.
    """
    host = site.add(RULES)
    urls = [host.url(f"/{name}") for name in NAMES]
    result = run_crawl(urls, settings={"USER_AGENT": user_agent})
    assert len(result.lines("WARNING", "ROBOTSTXT_USER_AGENT")) == 1
    assert set(NAMES) - {path[1:] for path in host.pages} == {"everyone"}


def test_a_browser_with_a_name(site: Site) -> None:
    """ROBOTSTXT_USER_AGENT has priority over a browser's User-Agent."""
    settings = {"USER_AGENT": BROWSER, "ROBOTSTXT_USER_AGENT": "ownbot"}
    assert followed(site, settings) == {"ownbot"}


def test_a_name_with_digits(site: Site) -> None:
    """A user agent with digits finds its group, and a warning says that RFC 9309 allows no
    digits. Another warning says that ROBOTSTXT_PARSER has no effect.
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
    """ROBOTSTXT_PARSER causes no warning if it is this package's parser."""
    host = site.add("User-agent: *\nDisallow: /a\n")
    settings = {"USER_AGENT": "mybot", "ROBOTSTXT_PARSER": "scrapy_rep.RobotParser"}
    result = run_crawl([host.url("/a"), host.url("/b")], settings=settings)
    assert host.pages == ["/b"]
    assert not result.lines("WARNING", "ROBOTSTXT_PARSER")
    assert not result.lines("WARNING", "RFC 9309")
