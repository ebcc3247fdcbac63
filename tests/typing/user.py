"""Code as a user of the package writes it. Type checkers check that the public names have the expected
types.

The test command runs mypy on this file. ``python3 dev.py package`` runs mypy and pyright on it, with the
installed wheel.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider
from typing_extensions import assert_type

from scrapy_rep import (
    GOOGLE,
    RFC9309,
    Decision,
    Dialect,
    Finding,
    IndexingRules,
    Reason,
    RobotsDenied,
    RobotsTxt,
    Rule,
    UsagePreferences,
    indexing_rules,
    lint,
    product_tokens,
    usage_preferences,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy.http import Response
    from twisted.python.failure import Failure


def library(body: bytes) -> None:
    assert_type(RFC9309, Dialect)
    robots = RobotsTxt.parse(body, dialect=GOOGLE, url="https://example.com/robots.txt")
    assert_type(robots, RobotsTxt)
    assert_type(robots.is_allowed("https://example.com/", "mybot"), bool)
    decision = robots.decide("https://example.com/", ["mybot-images", "mybot"])
    assert_type(decision, Decision)
    assert_type(decision.allowed, bool)
    assert_type(decision.reason, Reason)
    assert_type(decision.rule, Rule | None)
    assert_type(decision.line, int)
    assert_type(decision.agent, str | None)
    assert_type(robots.crawl_delay("mybot"), float | None)
    assert_type(robots.sitemaps, tuple[str, ...])
    assert_type(lint(b"", RFC9309), tuple[Finding, ...])
    assert_type(product_tokens("mybot/1.0"), tuple[str, ...])


def pages(html: bytes) -> None:
    rules = IndexingRules.parse(
        headers=[("X-Robots-Tag", b"noindex")], html=html, agents=("mybot",)
    )
    assert_type(rules, IndexingRules)
    assert_type(rules.index, bool)
    assert_type(rules.max_snippet, int | None)
    assert_type(rules.unavailable_after, datetime | None)
    assert_type(rules.indexable(datetime.now(timezone.utc)), bool)
    prefs = UsagePreferences.parse(
        headers=[("Content-Usage", b"train-ai=n")], html=html
    )
    assert_type(prefs | prefs, UsagePreferences)
    assert_type(prefs.get("train-ai"), bool | None)


class TypedSpider(Spider):
    name = "typed"

    async def start(self) -> AsyncIterator[Any]:
        yield Request("https://example.com/", errback=self.refused)

    def parse(self, response: Response) -> Iterator[Any]:
        rules = indexing_rules(response)
        assert_type(rules, IndexingRules)
        assert_type(usage_preferences(response), UsagePreferences)
        yield {"url": response.url, "index": rules.index}

    def refused(self, failure: Failure) -> None:
        if isinstance(failure.value, RobotsDenied):
            assert_type(failure.value.record.reason, str)
            assert_type(failure.value.record.line, int | None)
