"""Tests of :class:`Identity`, which finds the product tokens of a crawler in the settings and in the headers of
requests.
"""

from __future__ import annotations

from typing import Any

import pytest
from scrapy import Request, signals

from scrapy_rep.base.identity import Identity
from tests.fakes import fake_crawler

pytestmark = pytest.mark.newest

BROWSER = "Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0"
BROWSER_HEADER = {"DEFAULT_REQUEST_HEADERS": {"User-Agent": BROWSER}}
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
        ({"USER_AGENT": b"a", **BROWSER_HEADER}, None, "a"),
        ({}, BROWSER, "Scrapy"),
        ({"USER_AGENT": BROWSER}, None, ""),
        ({"USER_AGENT": BROWSER}, "Mozilla/5.0", ""),
        ({"USER_AGENT": ""}, None, ""),
    ],
)
def test_the_product_tokens_come_from_the_header_or_setting_with_the_highest_priority(
    settings: dict[str, Any], header: str | None, tokens: str
) -> None:
    """The tokens come from the first of these that is present and contains a token: ROBOTSTXT_USER_AGENT, the
    User-Agent header of the request (*header*), the User-Agent in DEFAULT_REQUEST_HEADERS, and USER_AGENT. Versions and
    URLs are no part of a token.
    """
    request = Request("http://example.com/", headers={"User-Agent": header or ""})
    identity = Identity.of(fake_crawler(settings))
    assert identity.tokens(request if header else None) == tuple(tokens.split())


@pytest.mark.parametrize(
    ("settings", "parts"),
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
def test_problems_of_the_user_agent_and_of_the_parser_setting_are_logged(
    settings: dict[str, str], parts: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    """Three problems are logged: a product token with digits, which RFC 9309 does not allow; a ROBOTSTXT_PARSER that
    has no effect, because it is not the parser of this package; and a User-Agent that contains no URL or e-mail address
    at which a site could contact the owner of the crawler.
    """
    caplog.set_level("INFO", "scrapy_rep")
    crawler = fake_crawler({"USER_AGENT": "a (+https://a.example)", **settings})
    identity = Identity.of(crawler)
    crawler.signals.send_catch_log(signals.spider_opened, spider=crawler.spider)
    assert identity.tokens(None)
    assert len(caplog.messages) == bool(parts)
    assert all(part in caplog.messages[0] for part in parts)
