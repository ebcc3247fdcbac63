"""A crawler without a network. Its fake engine returns responses that a test has prepared."""

from __future__ import annotations

from functools import wraps
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest_twisted
from scrapy.http import Response, TextResponse
from scrapy.spiders import Spider
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from scrapy.utils.test import get_crawler

from scrapy_rep.signals import decision_made

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator

    from scrapy import Request
    from scrapy.crawler import Crawler
    from twisted.internet.defer import Deferred

    from scrapy_rep.record import Record

    Answer = Response | Exception | Callable[[], Deferred[Response]]


def coroutine_test(
    test: Callable[..., Coroutine[Any, Any, None]],
) -> Callable[..., Any]:
    """Decorate the coroutine function *test*, so that pytest can run it as a test. The coroutine runs as Scrapy runs
    the coroutines of its components.
    """

    @pytest_twisted.inlineCallbacks
    @wraps(test)
    def run(*args: Any, **kwargs: Any) -> Generator[Deferred[None], None, None]:
        yield deferred_from_coro(test(*args, **kwargs))

    return run


ROBOTS = b"User-agent: *\nDisallow: /private/\nSitemap: /map.xml\n"


def answer(url: str, body: bytes = ROBOTS, status: int = 200, **headers: str) -> Any:
    """Return a response from *url*. In the names of *headers*, an underscore stands for a hyphen: ``Retry_After``."""
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    return TextResponse(url, status=status, headers=fields, body=body)


class FakeEngine:
    """An engine that returns prepared responses, and records the requests.

    *answers* maps each URL to a response, to an exception that is raised, or to a function that returns a Deferred of
    the response. A list contains one of these for each request of the URL, in order.
    """

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers
        self.asked: list[Request] = []
        """The requests that were downloaded, in order."""

        self._slot = SimpleNamespace(closing=None)
        self.downloader = SimpleNamespace(middleware=None)

    async def download_async(self, request: Request) -> Response:
        self.asked.append(request)
        answer = self.answers[request.url]
        if isinstance(answer, list):
            answer = answer.pop(0)
        if callable(answer):
            answer = await maybe_deferred_to_future(answer())
        if isinstance(answer, BaseException):
            request.failed(answer)
            raise answer
        return answer


def fake_crawler(
    settings: dict[str, Any] | None = None, answers: dict[str, Any] | None = None
) -> Crawler:
    """Return a crawler that obeys robots.txt. It has a spider, and a :class:`FakeEngine` instead of Scrapy's engine.

    *answers* maps each URL to the response that the fake engine returns. :class:`FakeEngine` describes further values.
    """
    crawler = get_crawler(Spider, {"ROBOTSTXT_OBEY": True, **(settings or {})})
    crawler.spider = Spider.from_crawler(crawler, "fake")
    crawler.engine = FakeEngine(answers or {})
    return crawler


def records(crawler: Crawler) -> list[Record]:
    """Return a list to which the record of each later decision of *crawler* is added."""
    received: list[Record] = []

    def receive(record: Record) -> None:
        received.append(record)

    crawler.signals.connect(receive, decision_made, weak=False)
    return received
