"""The adapter for scrapy-rep."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from conformance.cases import agents_of, body_of
from conformance.fetching import Fetcher
from scrapy_rep.protocol.access.entries import renew
from scrapy_rep.protocol.access.site_rules import robots_of
from scrapy_rep.protocol.dialect import DIALECTS
from scrapy_rep.protocol.indexing.rules import IndexingRules
from scrapy_rep.protocol.robots import RobotsTxt

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy_rep.protocol.access.entries import CacheEntry
    from scrapy_rep.protocol.dialect import Dialect
    from scrapy_rep.protocol.robotstxt.pace import RequestRate

_INDEXING = (
    *("index", "follow", "archive", "snippet", "image_index", "translate"),
    *("index_embedded", "max_snippet", "max_image_preview", "max_video_preview"),
)


class ScrapyRep:
    """The adapter for scrapy-rep in one dialect. It supports all kinds of questions in the suite."""

    def __init__(self, dialect: str) -> None:
        self.name = "scrapy-rep"
        self.dialect = dialect

    def answer(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        dialect = DIALECTS[question["dialect"]]
        agents = agents_of(question)
        if question["kind"] == "indexing":
            return _indexing(question, agents, dialect)
        if question["kind"] == "fetch":
            return _after_fetches(question, agents, dialect)
        url = question.get("robots_url")
        robots = RobotsTxt.parse(body_of(question), dialect, url)
        if question["kind"] == "sitemaps":
            return {"sitemaps": list(robots.sitemaps)}
        if question["kind"] == "pace":
            return {
                "crawl_delay": robots.crawl_delay(agents),
                "request_rate": _rate(robots.request_rate(agents)),
            }
        return _decided(robots, question["url"], agents)


def _decided(robots: RobotsTxt, url: str, agents: tuple[str, ...]) -> dict[str, Any]:
    decision = robots.decide(url, agents)
    return {"allowed": decision.allowed, "line": decision.line}


def _rate(rate: RequestRate | None) -> object:
    return rate and [rate.requests, rate.seconds]


def _indexing(
    question: Mapping[str, Any], agents: tuple[str, ...], dialect: Dialect
) -> dict[str, Any]:
    rules = IndexingRules.of_page(
        [value.encode("latin-1") for value in question.get("headers", ())],
        question.get("html", "").encode(),
        agents,
        dialect,
    )
    after = rules.unavailable_after
    answer = {name: getattr(rules, name) for name in _INDEXING}
    answer["unavailable_after"] = after and f"{after:%Y-%m-%dT%H:%M:%SZ}"
    if "now" in question:
        answer["indexable"] = rules.indexable(datetime.fromisoformat(question["now"]))
    return answer


def _after_fetches(
    question: Mapping[str, Any], agents: tuple[str, ...], dialect: Dialect
) -> dict[str, Any]:
    """Return the answer to a question about a URL after a series of robots.txt fetches. If the question contains a time
    ``at``, the answer includes whether the robots.txt is still fresh at this time, so that it need not be fetched
    again.
    """
    entry: CacheEntry | None = None
    for fetch in question["fetches"]:
        fetcher = Fetcher(fetch["answers"])
        result = fetcher.fetch(question["robots_url"], dialect.max_redirects)
        now = float(fetch["at"])
        elapsed = 0.0 if entry is None else now - entry.fetched
        entry = renew(
            result,
            entry,
            dialect=dialect,
            now=now,
            elapsed=elapsed,
            min_age=0.0,
        )
    assert entry is not None
    robots = robots_of(entry, dialect)
    answer = _decided(robots, question["url"], agents)
    if "at" in question:
        answer["fresh"] = entry.is_fresh(question["at"])
    return answer
