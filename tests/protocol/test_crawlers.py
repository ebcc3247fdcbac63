"""The table of well-known crawlers."""

from urllib.parse import urlsplit

import pytest

from scrapy_rep.protocol.agents import is_product_token
from scrapy_rep.protocol.crawlers import CRAWLERS
from scrapy_rep.protocol.robots import RobotsTxt


@pytest.mark.parametrize("name", CRAWLERS)
def test_entries_have_a_token_an_operator_a_purpose_and_a_source(name):
    crawler = CRAWLERS[name]
    assert crawler.token.lower() == name
    assert all(map(is_product_token, crawler.agents))
    assert crawler.operator
    assert crawler.purpose
    assert urlsplit(crawler.source).netloc


@pytest.mark.parametrize("name", CRAWLERS)
def test_each_crawler_follows_the_group_that_names_it(name):
    """So each token is one that a user-agent line of its dialect can name."""
    crawler = CRAWLERS[name]
    body = f"User-agent: {crawler.token}\nDisallow: /\n".encode()
    robots = RobotsTxt.parse(body, dialect=crawler.dialect)
    decision = robots.decide("https://example.com/", crawler.agents)
    assert (decision.allowed, decision.agent) == (False, crawler.token)


def test_applebot_follows_the_group_for_googlebot_if_it_has_none():
    robots = RobotsTxt.parse(b"User-agent: Googlebot\nDisallow: /\n")
    crawler = CRAWLERS["applebot"]
    assert not robots.is_allowed("https://example.com/", crawler.agents)
