"""Tests of :class:`RobotsTxtFetcher` and of its requests. The responses are fakes."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request, signals
from scrapy.exceptions import IgnoreRequest, StopDownload
from twisted.internet.defer import CancelledError

from scrapy_rep.base.settings import RepSettings
from scrapy_rep.crawl.fetching.fetcher import RobotsTxtFetcher
from scrapy_rep.crawl.fetching.request import (
    FetchMiddleware,
    RobotsTxtRequest,
    add_template,
)
from scrapy_rep.protocol.access.results import Failure
from tests.fakes import ROBOTS, answer, coroutine_test, fake_crawler

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from scrapy_rep.protocol.access.results import AccessResult
    from tests.fakes import FakeEngine

pytestmark = pytest.mark.newest

URL = "http://example.com/robots.txt"
TEMPLATE = Request("http://example.com/page", headers={"User-Agent": "mybot"})
"""A page request that waits for robots.txt."""


async def fetch(
    answers: dict[str, Any], template: Request = TEMPLATE, **settings: Any
) -> tuple[AccessResult, FakeEngine]:
    """Fetch URL for the page request *template*, and return the result and the engine. *answers* contains a response,
    an exception, or a list of these for each URL.
    """
    crawler = fake_crawler(settings, answers)
    fetcher = RobotsTxtFetcher(crawler, RepSettings(crawler.settings))
    templates = [template]
    result = await fetcher.fetch(URL, templates)
    return result, crawler.engine


@coroutine_test
async def test_scrapys_robotstxt_stats_do_not_count_other_files() -> None:
    """Scrapy's stats ``robotstxt/...`` count no fetch or redirect of tdmrep.json, and no error after the redirect."""
    file, moved = "http://example.com/.well-known/tdmrep.json", "http://a.example/moved"
    answers = {file: answer(file, b"", 301, Location=moved), moved: OSError("reset")}
    crawler = fake_crawler({}, answers)
    fetcher = RobotsTxtFetcher(crawler, RepSettings(crawler.settings))

    async def check(request: Request, templates: list[Request]) -> None:
        """Allow each request."""

    result = await fetcher.fetch(file, [TEMPLATE], check=check)
    assert (result.access, result.redirects) == ("unreachable", (moved,))
    assert crawler.stats.get_stats() == {}


@coroutine_test
async def test_an_exception_in_the_check_counts_as_an_error_of_the_crawler(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """``check`` decides whether robots.txt allows a request. If ``check`` raises an unexpected exception, the log
    reports an error in this crawler, and blames no component of the project. The fetch is not repeated.
    """
    crawler = fake_crawler({}, {URL: answer(URL)})
    fetcher = RobotsTxtFetcher(crawler, RepSettings(crawler.settings))
    checked = []

    async def check(request: Request, templates: list[Request]) -> None:
        checked.append(request.url)
        raise RuntimeError("a bug")

    result = await fetcher.fetch(URL, [TEMPLATE], check=check)
    assert (result.access, checked) == ("unreachable", [URL])
    assert "an error in this crawler, not at the site" in caplog.text
    assert "REP_REQUEST_META_KEYS" not in caplog.text


@pytest.mark.parametrize("hops", [0, 1, 5, 6])
@coroutine_test
async def test_2_3_1_2_five_redirects_are_followed(hops: int) -> None:
    """Redirects to other hosts are followed too. After more than five redirects, robots.txt is unavailable (RFC 9309,
    2.3.1.2).
    """
    urls = [URL, *(f"http://host{hop}.example/r" for hop in range(hops))]
    answers = {
        url: answer(url, b"", 301, Location=following)
        for url, following in pairwise(urls)
    }
    result, engine = await fetch({**answers, urls[-1]: answer(urls[-1])})
    assert [request.url for request in engine.asked] == urls[:6]
    assert (result.url, list(result.redirects)) == (URL, urls[1:6])
    if hops <= 5:
        assert (result.status, result.body) == (200, ROBOTS)
    else:
        assert result.access == "unavailable"
        assert result.error == "redirected more than 5 times"


@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("http://user:secret@OTHER.example:80/r?x#top", "http://other.example/r?x"),
        ("http://not a host/", None),
        ("https://", None),
        ("file:///etc/passwd", None),
        ("data:,x", None),
        ("ftp://example.com/r", None),
        ("http://[", None),
        ("", None),
    ],
)
@coroutine_test
async def test_redirects_are_followed_to_http_urls_and_without_userinfo(
    location: str, target: str | None
) -> None:
    """The userinfo and the fragment are removed from the URL. A redirect to an invalid URL, or to a scheme other than
    http and https, ends the fetch.
    """
    answers = {URL: answer(URL, b"", 302, Location=location)}
    if target:
        answers[target] = answer(target)
    result, engine = await fetch(answers)
    assert [request.url for request in engine.asked] == list(answers)
    assert result.access == ("successful" if target else "unavailable")
    assert result.body == (ROBOTS if target else b"")


@coroutine_test
async def test_only_headers_about_body_and_lifetime_are_kept() -> None:
    """Cache-Control and Age are such headers; Set-Cookie is not."""
    fields = {"Cache_Control": "max-age=60", "Set_Cookie": "a=b", "Age": "5"}
    result, _ = await fetch({URL: answer(URL, **fields)})
    assert dict(result.headers) == {"age": "5", "cache-control": "max-age=60"}


@coroutine_test
async def test_up_to_four_retry_after_fields_are_kept() -> None:
    """The limit is more than an honest server sends."""
    busy = answer(URL, b"", 503)
    busy.headers.setlist("Retry-After", [b"%d" % number for number in range(9)])
    result, _ = await fetch({URL: busy})
    assert result.headers == tuple(("retry-after", seconds) for seconds in "0123")


@pytest.mark.parametrize(
    ("answers", "status", "error", "attempts"),
    [
        ([OSError("reset"), answer(URL)], 200, "", 2),
        ([OSError("reset")] * 4, None, "OSError: reset", 2),
        ([answer(URL, b"down", 503)], 503, "", 1),
        ([IgnoreRequest("no")], None, "dropped by a component: no", 1),
    ],
    ids=["one failure", "two failures", "a response", "dropped"],
)
@coroutine_test
async def test_a_request_without_a_response_is_sent_once_more(
    answers: list[Any], status: int | None, error: str, attempts: int
) -> None:
    """A request is not repeated after a response with the status 503, or if a middleware drops it."""
    result, engine = await fetch({URL: [*answers]})
    assert (result.status, result.error, len(engine.asked)) == (status, error, attempts)
    assert (result.access == "successful") is (status == 200)
    failures = {"OSError: reset": Failure.OTHER, "": None}
    assert result.failure is failures.get(error, Failure.DROPPED)


@pytest.mark.parametrize("error", [CancelledError(), asyncio.CancelledError()])
@pytest.mark.parametrize(
    "cause", ["another component", "the spider closes", "no request waits"]
)
@coroutine_test
async def test_robotstxt_is_unreachable_if_another_component_cancels_its_fetch(
    error: BaseException, cause: str
) -> None:
    """If the spider is closing, or no request waits for the file any more, the cancellation is raised instead."""
    crawler, templates = fake_crawler(), [TEMPLATE]

    async def take_room(_: Request) -> None:
        crawler.engine._slot.closing = cause == "the spider closes" or None
        if cause == "no request waits":
            templates.clear()
        raise error

    settings = RepSettings(crawler.settings)
    fetch = RobotsTxtFetcher(crawler, settings, take_room).fetch(URL, templates)
    if cause == "another component":
        result = await fetch
        assert (result.access, result.error) == ("unreachable", "cancelled")
    else:
        with pytest.raises(type(error)):
            await fetch


@coroutine_test
async def test_robotstxt_is_unreachable_after_an_error_of_this_package(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The traceback is logged."""
    crawler = fake_crawler({}, {URL: OSError("reset")})

    def is_own_fault(_: Failure) -> bool:
        raise RuntimeError("out of order")

    settings = RepSettings(crawler.settings)
    fetcher = RobotsTxtFetcher(crawler, settings, is_own_fault=is_own_fault)
    result = await fetcher.fetch(URL, [TEMPLATE])
    assert (result.access, result.error) == (
        "unreachable",
        "RuntimeError: out of order",
    )
    (record,) = (record for record in caplog.records if record.exc_info)
    assert URL in record.getMessage()
    assert record.levelname == "ERROR"


@coroutine_test
async def test_each_attempt_uses_another_proxy() -> None:
    """The first attempt uses the proxy of the newest waiting request. Each further attempt uses the proxy of another
    waiting request, until all proxies were used. A response in which a proxy refuses the request counts as a failed
    attempt.
    """
    templates: list[Request] = []
    for proxy in ("http://a", "http://b", "http://c", "http://b"):
        add_template(templates, Request(URL, meta={"proxy": proxy}))
    answers = {URL: [OSError("reset"), answer(URL, b"", 407), answer(URL)]}
    crawler = fake_crawler({}, answers)
    fetcher = RobotsTxtFetcher(crawler, RepSettings(crawler.settings))
    result = await fetcher.fetch(URL, templates)
    assert result.status == 200
    proxies = [request.meta["proxy"] for request in crawler.engine.asked]
    assert proxies == ["http://c", "http://b", "http://a"]


@coroutine_test
async def test_the_request_disables_scrapys_interfering_components() -> None:
    """The request for robots.txt copies the User-Agent, proxy and download slot of the page request. It copies no
    cookies, no other headers and no other meta keys.
    """
    template = Request(
        "http://example.com/page",
        headers={"User-Agent": "mybot", "Proxy-Authorization": "Basic eA==", "X": "1"},
        cookies={"a": "b"},
        meta={
            "proxy": "http://proxy.example",
            "_auth_proxy": "http://proxy.example",
            "download_slot": "slow",
            "other": 1,
        },
    )
    _, engine = await fetch({URL: answer(URL)}, template)
    request = engine.asked[0]
    assert request.headers.to_unicode_dict() == {
        "User-Agent": "mybot",
        "Proxy-Authorization": "Basic eA==",
    }
    assert request.cookies == {}
    expected = {
        "allow_offsite": True,
        "autothrottle_dont_adjust_delay": True,
        "dont_cache": True,
        "dont_merge_cookies": True,
        "dont_obey_robotstxt": True,
        "dont_redirect": True,
        "dont_retry": True,
        "download_slot": "slow",
        "proxy": "http://proxy.example",
    }
    assert {key: request.meta[key] for key in expected} == expected
    assert "other" not in request.meta


def test_robotstxt_does_not_wait_in_the_slot_of_another_host() -> None:
    """A redirected request stays in the download slot of the first host. The request for robots.txt must not get this
    slot, since it is sent to another host.
    """
    meta = {"download_slot": "b.example", "redirect_urls": ["http://b.example/"]}
    request = RobotsTxtRequest.of(URL, Request(URL, meta=meta), ["download_slot"])
    assert "download_slot" not in request.meta


@pytest.mark.parametrize(
    ("template_timeout", "timeout"), [(None, 30), (600, 30), (5, 5)]
)
def test_the_timeout_of_an_attempt_is_at_most_30_seconds(
    template_timeout: float | None, timeout: float
) -> None:
    """A longer DOWNLOAD_TIMEOUT, or a longer time-out of the page request, does not apply to robots.txt."""
    template = Request(URL, meta={"download_timeout": template_timeout})
    request = RobotsTxtRequest.of(URL, template, ["download_timeout"])
    FetchMiddleware(fake_crawler({})).process_request(request)
    assert request.meta["download_timeout"] == timeout


async def fetch_in_chunks(
    *chunks: bytes, timeout: float = 30
) -> tuple[AccessResult, list[object], Crawler]:
    """Fetch a robots.txt whose body arrives in *chunks*. Return the result; what the handler of the signal
    ``bytes_received`` returned or raised for each chunk; and the crawler.
    """
    settings = {"REP_REQUEST_META_KEYS": ["download_timeout"]}
    crawler, outcomes = fake_crawler(settings), []

    async def download(request: Request) -> Any:
        for data in chunks:
            [(_, outcome)] = crawler.signals.send_catch_log(
                signals.bytes_received,
                data=data,
                request=request,
                spider=crawler.spider,
                dont_log=StopDownload,
            )
            outcomes.append(getattr(outcome, "value", outcome))
            if getattr(outcomes[-1], "fail", False):
                raise outcomes[-1]
        return answer(URL)

    crawler.engine.download_async = download
    fetcher = RobotsTxtFetcher(crawler, RepSettings(crawler.settings))
    templates = [Request(URL, meta={"download_timeout": timeout})]
    return await fetcher.fetch(URL, templates), outcomes, crawler


@coroutine_test
async def test_the_download_stops_at_the_size_limit() -> None:
    """The package stops the download in a handler of the signal ``bytes_received``. The handler is disconnected after
    the download.
    """
    result, (before, after), crawler = await fetch_in_chunks(b"x" * 512_000, b"x")
    assert (result.status, before) == (200, None)
    assert isinstance(after, StopDownload)
    assert after.fail is False
    assert not crawler.signals.send_catch_log(
        signals.bytes_received, data=b"", request=TEMPLATE, spider=crawler.spider
    )


@coroutine_test
async def test_a_body_that_arrives_too_slowly_ends_the_download() -> None:
    """The time-out applies to the whole download. A server that sends a few bytes at a time cannot extend it."""
    result, _, _ = await fetch_in_chunks(b"x", b"x", b"x", timeout=1e-9)
    assert (result.status, result.error) == (None, "took longer than 1e-09 s")
