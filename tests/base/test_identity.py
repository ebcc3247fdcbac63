"""The product tokens that a crawl follows, by its settings, its spider and its requests."""

from __future__ import annotations

from typing import Any

import pytest
from scrapy import Request, signals

from scrapy_rep.base.identity import Identity
from tests.fakes import fake_crawler

pytestmark = pytest.mark.newest

BROWSER = "Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0"
BROWSER_BY_DEFAULT = {"DEFAULT_REQUEST_HEADERS": {"User-Agent": BROWSER}}
HEADER = {"DEFAULT_REQUEST_HEADERS": {"User-Agent": "headerbot/1.0"}}


@pytest.mark.parametrize(
    ("settings", "header", "tokens"),
    [
        ({"USER_AGENT": "defaultbot/2.0 (+https://example.com/)"}, None, "defaultbot"),
        ({"USER_AGENT": "defaultbot", **HEADER}, None, "headerbot"),
        ({"USER_AGENT": "a", **HEADER}, "own/1.0", "own"),
        ({"USER_AGENT": "a", "ROBOTSTXT_USER_AGENT": ["b", "c"]}, None, "b c"),
        ({"USER_AGENT": BROWSER, "ROBOTSTXT_USER_AGENT": "ownbot"}, None, "ownbot"),
        ({"ROBOTSTXT_USER_AGENT": "b"}, "own/1.0", "b"),
        ({"USER_AGENT": "a/1.0"}, BROWSER, "a"),
        ({"USER_AGENT": b"a", **BROWSER_BY_DEFAULT}, None, "a"),
        ({}, BROWSER, "Scrapy"),
        ({"USER_AGENT": BROWSER}, None, ""),
        ({"USER_AGENT": BROWSER}, "Mozilla/5.0", ""),
        ({"USER_AGENT": ""}, None, ""),
    ],
)
def test_the_header_of_a_request_names_the_crawler_before_user_agent(
    settings: dict[str, Any], header: str | None, tokens: str
) -> None:
    """The product token is that of USER_AGENT, without version and URL. A User-Agent in
    DEFAULT_REQUEST_HEADERS has priority, then the *header* of a request, if they have a token, and
    ROBOTSTXT_USER_AGENT over any header.
    """
    request = Request("http://example.com/", headers={"User-Agent": header or ""})
    identity = Identity.of(fake_crawler(settings))
    assert identity.tokens(request if header else None) == tuple(tokens.split())


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"USER_AGENT": "MJ12bot/1.4 (https://a.example)"}, ("MJ12bot", "RFC 9309")),
        (
            {"ROBOTSTXT_PARSER": "scrapy.robotstxt.PythonRobotParser"},
            ("ROBOTSTXT_PARSER", "scrapy.robotstxt.PythonRobotParser"),
        ),
        ({"ROBOTSTXT_PARSER": "scrapy_rep.RobotParser"}, ()),
        (
            {"USER_AGENT": "a/1.0"},
            ("'a/1.0' does not contain your URL or e-mail address",),
        ),
        (HEADER, ("'headerbot/1.0' does not contain your URL",)),
        (
            {"USER_AGENT": "Scrapy/2.19 (+https://scrapy.org)"},
            ("does not contain your URL or e-mail",),
        ),
        ({"USER_AGENT": "a/1.0 (me@example.com)"}, ()),
    ],
)
def test_a_name_that_no_site_can_ask_for_is_logged(
    settings: dict[str, str], named: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    """One warning says that RFC 9309 allows no digits in the name of a user agent, another that
    ROBOTSTXT_PARSER has no effect, unless it is this package's parser; one line that a User-Agent
    names nobody whom a site could ask.
    """
    caplog.set_level("INFO", "scrapy_rep")
    crawler = fake_crawler({"USER_AGENT": "a (+https://a.example)", **settings})
    identity = Identity.of(crawler)
    crawler.signals.send_catch_log(signals.spider_opened, spider=crawler.spider)
    assert identity.tokens(None)
    assert len(caplog.messages) == bool(named)
    assert all(word in caplog.messages[0] for word in named)
