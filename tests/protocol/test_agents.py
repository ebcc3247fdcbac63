"""Product tokens: the name of a crawler, taken from its User-Agent header."""

from __future__ import annotations

from string import ascii_letters, digits

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_rep.protocol.agents import product_tokens

WEBKIT = "AppleWebKit/537.36 (KHTML, like Gecko"
CHROME = "Chrome/120.0.0.0"


@pytest.mark.parametrize(
    ("user_agent", "tokens"),
    [
        ("mybot", ("mybot",)),
        ("my-bot_x", ("my-bot_x",)),
        ("mybot/1.0", ("mybot",)),
        ("mybot/1.0 (+https://example.com/bot)", ("mybot",)),
        ("Mozilla/5.0 (compatible; mybot/1.0; +https://example.com/)", ("mybot",)),
        ("Scrapy/2.19.0 (+https://scrapy.org)", ("Scrapy",)),
        ("curl/8.5.0", ("curl",)),
        ("AI2Bot", ("AI2Bot",)),
        ("MJ12bot/1.4", ("MJ12bot",)),
        ("Mozilla/5.0 (compatible; MJ12bot/v1.4.8; http://mj12bot.com/)", ("MJ12bot",)),
        ("360Spider/1.0", ("360Spider",)),
        ("Cliqzbot.2/1.0", ("Cliqzbot.2",)),
        ("python-requests/2.32.3", ("python-requests",)),
        ((f"Mozilla/5.0 {WEBKIT}; compatible; Googlebot/2.1; "
         f"+http://www.google.com/bot.html) {CHROME} Safari/537.36"), ("Googlebot",)),
        ((f"Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X Build/MMB29P) {WEBKIT}) {CHROME} "
         "Mobile Safari/537.36 (compatible; Googlebot/2.1; "
         "+http://www.google.com/bot.html)"), ("Googlebot",)),
        ("Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
         ("Googlebot",)),
        ("Googlebot-Image/1.0", ("Googlebot-Image",)),
        ("AdsBot-Google (+http://www.google.com/adsbot.html)", ("AdsBot-Google",)),
        ((f"Mozilla/5.0 {WEBKIT}; compatible; bingbot/2.0; "
         f"+http://www.bing.com/bingbot.htm) {CHROME} Safari/537.36"), ("bingbot",)),
        (f"Mozilla/5.0 {WEBKIT}); compatible; GPTBot/1.1; +https://openai.com/gptbot", ("GPTBot",)),
        (f"Mozilla/5.0 {WEBKIT}; compatible; ClaudeBot/1.0; +claudebot@anthropic.com)",
         ("ClaudeBot",)),
        (("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_5) AppleWebKit/605.1.15 (KHTML, "
         "like Gecko) Version/13.1.1 Safari/605.1.15 "
         "(Applebot/0.1; +http://www.apple.com/go/applebot)"), ("Applebot",)),
        ("Mozilla/5.0 (compatible; YandexBot/3.0; +http://yandex.com/bots)", ("YandexBot",)),
        (("Mozilla/5.0 (compatible; Baiduspider/2.0; "
         "+http://www.baidu.com/search/spider.html)"), ("Baiduspider",)),
        ("DuckDuckBot/1.1; (+http://duckduckgo.com/duckduckbot.html)", ("DuckDuckBot",)),
        ("facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)",
         ("facebookexternalhit",)),
        ("CCBot/2.0 (https://commoncrawl.org/faq/)", ("CCBot",)),
    ],
)  # fmt: skip
def test_crawlers_are_found_by_name(user_agent: str, tokens: tuple[str, ...]) -> None:
    """The User-Agent header of a crawler gives its product token for robots.txt."""
    assert product_tokens(user_agent) == tokens


@pytest.mark.parametrize(
    "user_agent",
    [
        f"Mozilla/5.0 (Windows NT 10.0; Win64; x64) {WEBKIT}) {CHROME} Safari/537.36",
        f"Mozilla/5.0 (X11; Linux x86_64) {WEBKIT}) {CHROME} Safari/537.36",
        f"Mozilla/5.0 (Linux; Android 10; K) {WEBKIT}) {CHROME} Mobile Safari/537.36",
        f"Mozilla/5.0 (Windows NT 10.0) {WEBKIT}) {CHROME} Safari/537.36 Edg/120.0.0.0",
        f"Mozilla/5.0 (X11; Linux x86_64) {WEBKIT}) HeadlessChrome/120.0 Safari/537.36",
        (
            "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:121.0) Gecko/20100101 "
            "Firefox/121.0"
        ),
        "Mozilla/5.0 (X11; Ubuntu; Linux x86_64; rv:121.0) Gecko/20100101 Firefox/121.0",
        (
            "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, "
            "like Gecko) Version/17.2 Safari/605.1.15"
        ),
        (
            "Mozilla/5.0 (iPhone; CPU iPhone OS 17_2 like Mac OS X) AppleWebKit/605.1.15 "
            "(KHTML, like Gecko) Version/17.2 Mobile/15E148 Safari/604.1"
        ),
        "Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)",
        "Mozilla/5.0 (compatible; MSIE 10.0; Windows NT 6.2; Trident/6.0)",
        (
            "Mozilla/4.0 (compatible; MSIE 8.0; Windows NT 6.1; WOW64; Trident/4.0; SLCC2; "
            ".NET CLR 2.0.50727; .NET CLR 3.5.30729; Media Center PC 6.0; InfoPath.3)"
        ),
        "Mozilla/5.0 (Windows NT 10.0; WOW64; Trident/7.0; rv:11.0) like Gecko",
        "Opera/9.80 (Windows NT 6.1; U; en) Presto/2.8.131 Version/11.11",
        f"Mozilla/5.0 (Windows NT 10.0) {WEBKIT}) {CHROME} Safari/537.36 OPR/106.0.0.0",
        "Mozilla/5.0",
    ],
)
def test_browsers_have_no_token(user_agent: str) -> None:
    """A User-Agent header that a browser could send gives no product token."""
    assert product_tokens(user_agent) == ()


@pytest.mark.parametrize("user_agent", ["", " ", "/", "()", "((((", "+", "ツ/1"])
def test_garbage_has_no_token(user_agent: str) -> None:
    """A User-Agent header without a product token gives none."""
    assert product_tokens(user_agent) == ()


@given(st.one_of(st.text(), st.text("()/; aB-_+:.1", max_size=60)))
def test_any_header_gives_valid_tokens_once_each(user_agent: str) -> None:
    """Tokens of any header consist of letters, digits, ``_``, ``-`` and ``.``, each once."""
    tokens = product_tokens(user_agent)
    assert isinstance(tokens, tuple)
    assert len(set(tokens)) == len(tokens)
    for token in tokens:
        assert token.isascii()
        assert set(token) <= set(ascii_letters + digits + "_-.")


def test_hostile_header_is_read_at_once() -> None:
    """Neither a long header nor deeply nested brackets take long to parse."""
    for text in ("(" * 100_000, "a/" * 50_000, "(;" * 50_000, "- " * 50_000):
        assert isinstance(product_tokens(text), tuple)
