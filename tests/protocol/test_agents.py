"""Tests of product tokens, which name a crawler. They are taken from a User-Agent header or from the
table of known crawlers.
"""

from __future__ import annotations

from string import ascii_letters, digits
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_rep.protocol.agents import is_product_token, product_tokens
from scrapy_rep.protocol.crawlers import CRAWLERS
from scrapy_rep.protocol.robots import RobotsTxt

WEBKIT = "AppleWebKit/537.36 (KHTML, like Gecko"
CHROME = "Chrome/120.0.0.0"
MOZILLA = "Mozilla/5.0 (compatible;"


@pytest.mark.parametrize(
    ("user_agent", "token"),
    [
        ("mybot", "mybot"), ("my-bot_x", "my-bot_x"), ("360Spider/1.0", "360Spider"),
        ("mybot/1.0 (+https://example.com/bot)", "mybot"), ("Cliqzbot.2/1.0", "Cliqzbot.2"),
        ("Scrapy/2.19.0 (+https://scrapy.org)", "Scrapy"), ("curl/8.5.0", "curl"),
        ("AdsBot-Google (+http://www.google.com/adsbot.html)", "AdsBot-Google"),
        ("DuckDuckBot/1.1; (+http://duckduckgo.com/duckduckbot.html)", "DuckDuckBot"),
        (f"{MOZILLA} mybot/1.0; +https://example.com/)", "mybot"),
        (f"{MOZILLA} MJ12bot/v1.4.8; http://mj12bot.com/)", "MJ12bot"),
        (f"{MOZILLA} Baiduspider/2.0; +http://www.baidu.com/search/spider.html)", "Baiduspider"),
        ((f"Mozilla/5.0 {WEBKIT}; compatible; Googlebot/2.1; +http://www.google.com/bot.html) "
         f"{CHROME} Safari/537.36"), "Googlebot"),
        ((f"Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X Build/MMB29P) {WEBKIT}) {CHROME} "
         "Mobile Safari/537.36 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"),
         "Googlebot"),
        (f"Mozilla/5.0 {WEBKIT}); compatible; GPTBot/1.1; +https://openai.com/gptbot", "GPTBot"),
        (f"Mozilla/5.0 {WEBKIT}; compatible; ClaudeBot/1.0; +claudebot@anthropic.com)",
         "ClaudeBot"),
        (("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_5) AppleWebKit/605.1.15 (KHTML, like Gecko) "
         "Version/13.1.1 Safari/605.1.15 (Applebot/0.1; +http://www.apple.com/go/applebot)"),
         "Applebot"),
        # Browsers.
        (f"Mozilla/5.0 (Windows NT 10.0; Win64; x64) {WEBKIT}) {CHROME} Safari/537.36", None),
        (f"Mozilla/5.0 (Linux; Android 10; K) {WEBKIT}) {CHROME} Mobile Safari/537.36", None),
        (f"Mozilla/5.0 (Windows NT 10.0) {WEBKIT}) {CHROME} Safari/537.36 Edg/120.0.0.0", None),
        (f"Mozilla/5.0 (Windows NT 10.0) {WEBKIT}) {CHROME} Safari/537.36 OPR/106.0.0.0", None),
        (f"Mozilla/5.0 (X11; Linux x86_64) {WEBKIT}) HeadlessChrome/120.0 Safari/537.36", None),
        ("Mozilla/5.0 (X11; Ubuntu; Linux x86_64; rv:121.0) Gecko/20100101 Firefox/121.0", None),
        (("Mozilla/5.0 (iPhone; CPU iPhone OS 17_2 like Mac OS X) AppleWebKit/605.1.15 "
         "(KHTML, like Gecko) Version/17.2 Mobile/15E148 Safari/604.1"), None),
        (f"{MOZILLA} MSIE 10.0; Windows NT 6.2; Trident/6.0)", None),
        (("Mozilla/4.0 (compatible; MSIE 8.0; Windows NT 6.1; WOW64; Trident/4.0; SLCC2; "
         ".NET CLR 2.0.50727; .NET CLR 3.5.30729; Media Center PC 6.0; InfoPath.3)"), None),
        ("Mozilla/5.0 (Windows NT 10.0; WOW64; Trident/7.0; rv:11.0) like Gecko", None),
        ("Opera/9.80 (Windows NT 6.1; U; en) Presto/2.8.131 Version/11.11", None),
        # Neither crawlers nor browsers.
        ("Mozilla/5.0", None), ("", None), ("/", None), ("()", None), ("((((", None), ("ツ/1", None),
    ],
)  # fmt: skip
def test_a_user_agent_gives_the_product_token_of_a_crawler_and_none_of_a_browser(
    user_agent: str, token: str | None
) -> None:
    assert product_tokens(user_agent) == ((token,) if token else ())


@given(st.one_of(st.text(), st.text("()/; aB-_+:.1", max_size=60)))
def test_the_tokens_of_any_user_agent_are_valid_and_unique(user_agent: str) -> None:
    """Tokens consist of letters, digits, ``_``, ``-`` and ``.``. A very long header does not take
    long.
    """
    tokens = product_tokens(user_agent)
    assert len(set(tokens)) == len(tokens)
    assert set("".join(tokens)) <= set(ascii_letters + digits + "_-.")
    product_tokens(user_agent * 2_000)


@pytest.mark.parametrize("name", CRAWLERS)
def test_each_crawler_follows_the_group_that_names_it(name: str) -> None:
    """Each entry of CRAWLERS has valid product tokens, an operator, a purpose and the URL of a source."""
    crawler = CRAWLERS[name]
    assert crawler.token.lower() == name
    assert all(map(is_product_token, crawler.agents))
    assert crawler.operator
    assert crawler.purpose
    assert urlsplit(crawler.source).netloc
    body = f"User-agent: {crawler.token}\nDisallow: /\n".encode()
    robots = RobotsTxt.parse(body, dialect=crawler.dialect)
    decision = robots.decide("https://example.com/", crawler.agents)
    assert (decision.allowed, decision.agent) == (False, crawler.token)


def test_applebot_follows_the_group_for_googlebot_if_it_has_none() -> None:
    """The groups for the product tokens of a crawler are tried in the order of its tokens."""
    robots = RobotsTxt.parse(b"User-agent: Googlebot\nDisallow: /\n")
    crawler = CRAWLERS["applebot"]
    assert not robots.is_allowed("https://example.com/", crawler.agents)
