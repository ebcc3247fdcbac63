"""The fetcher, with fake responses."""

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
CAUSE = Request("http://example.com/page", headers={"User-Agent": "mybot"})


async def fetch(
    answers: dict[str, Any], cause: Request = CAUSE, **settings: Any
) -> tuple[AccessResult, FakeEngine]:
    crawler = fake_crawler(settings, answers)
    read = RepSettings(crawler.settings)
    templates = [cause]
    result = await RobotsTxtFetcher(crawler, read).fetch(URL, templates)
    return result, crawler.engine


@coroutine_test
async def test_scrapys_robotstxt_stats_do_not_count_other_files() -> None:
    """Scrapy's stats about robots.txt do not count another file, nor the errors of the
    requests that follow its redirect.
    """
    file, moved = "http://example.com/.well-known/tdmrep.json", "http://a.example/moved"
    answers = {file: answer(file, b"", 301, Location=moved), moved: OSError("reset")}
    crawler = fake_crawler({}, answers)
    read = RepSettings(crawler.settings)
    fetcher = RobotsTxtFetcher(crawler, read)

    async def check(request: Request, templates: list[Request]) -> None:
        """Nothing is forbidden."""

    result = await fetcher.fetch(file, [CAUSE], check=check)
    assert (result.access, result.redirects) == ("unreachable", (moved,))
    assert crawler.stats.get_stats() == {}


@coroutine_test
async def test_an_error_in_a_check_is_one_of_the_crawler(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An error in a check of the fetched file is one of this crawler, not of a component of the
    project. The file is asked for once.
    """
    crawler = fake_crawler({}, {URL: answer(URL)})
    fetcher = RobotsTxtFetcher(crawler, RepSettings(crawler.settings))
    checked = []

    async def check(request: Request, templates: list[Request]) -> None:
        checked.append(request.url)
        raise RuntimeError("a bug")

    result = await fetcher.fetch(URL, [CAUSE], check=check)
    assert (result.access, checked) == ("unreachable", [URL])
    assert "an error in this crawler, not at the site" in caplog.text
    assert "REP_REQUEST_META_KEYS" not in caplog.text


@pytest.mark.parametrize("hops", [0, 1, 5, 6])
@coroutine_test
async def test_2_3_1_2_five_redirects_are_followed(hops: int) -> None:
    """Up to five redirects are followed, across any hosts. After them, robots.txt is unavailable."""
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
    ("location", "asked"),
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
async def test_redirects_lead_without_userinfo_and_to_http_alone(
    location: str, asked: str | None
) -> None:
    """A redirect is followed without userinfo and fragment. One to nowhere, or to another scheme
    than http and https, ends the fetch.
    """
    answers = {URL: answer(URL, b"", 302, Location=location)}
    if asked:
        answers[asked] = answer(asked)
    result, engine = await fetch(answers)
    assert [request.url for request in engine.asked] == list(answers)
    assert result.access == ("successful" if asked else "unavailable")
    assert result.body == (ROBOTS if asked else b"")


@coroutine_test
async def test_only_headers_about_body_and_lifetime_are_kept() -> None:
    """Only headers about the body and its lifetime are kept."""
    fields = {"Cache_Control": "max-age=60", "Set_Cookie": "a=b", "Age": "5"}
    result, _ = await fetch({URL: answer(URL, **fields)})
    assert dict(result.headers) == {"age": "5", "cache-control": "max-age=60"}


@coroutine_test
async def test_all_retry_after_fields_are_kept() -> None:
    """All Retry-After fields are kept, up to a number that no honest server reaches."""
    busy = answer(URL, b"", 503)
    busy.headers.setlist("Retry-After", [b"%d" % number for number in range(9)])
    result, _ = await fetch({URL: busy})
    assert result.headers == tuple(("retry-after", seconds) for seconds in "0123")


@pytest.mark.parametrize(
    ("answers", "status", "error", "asked"),
    [
        ([OSError("reset"), answer(URL)], 200, "", 2),
        ([OSError("reset")] * 4, None, "OSError: reset", 2),
        ([answer(URL, b"down", 503)], 503, "", 1),
        ([IgnoreRequest("no")], None, "dropped by a component: no", 1),
    ],
    ids=["once", "twice", "an answer", "dropped"],
)
@coroutine_test
async def test_a_request_without_a_response_is_sent_once_more(
    answers: list[Any], status: int | None, error: str, asked: int
) -> None:
    """A request without a response is sent once more. A 503 is a response; and a request that a
    middleware drops gets none.
    """
    result, engine = await fetch({URL: [*answers]})
    assert (result.status, result.error, len(engine.asked)) == (status, error, asked)
    assert (result.access == "successful") is (status == 200)
    failures = {"OSError: reset": Failure.OTHER, "": None}
    assert result.failure is failures.get(error, Failure.DROPPED)


@pytest.mark.parametrize("error", [CancelledError(), asyncio.CancelledError()])
@pytest.mark.parametrize(
    "why", ["another component", "the spider closes", "no one waits"]
)
@coroutine_test
async def test_a_cancelled_fetch_is_unreachable_unless_nobody_waits(
    error: BaseException, why: str
) -> None:
    """If another component cancels a fetch, robots.txt counts as unreachable. If the spider is
    closing, or nobody waits for it any more, the cancellation is raised.
    """
    crawler, templates = fake_crawler(), [CAUSE]

    async def take_turn(_: Request) -> None:
        crawler.engine._slot.closing = why == "the spider closes" or None
        if why == "no one waits":
            templates.clear()
        raise error

    read = RepSettings(crawler.settings)
    fetch = RobotsTxtFetcher(crawler, read, take_turn).fetch(URL, templates)
    if why == "another component":
        result = await fetch
        assert (result.access, result.error) == ("unreachable", "cancelled")
    else:
        with pytest.raises(type(error)):
            await fetch


@coroutine_test
async def test_an_error_of_the_crawler_makes_robotstxt_unreachable(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """After an error of this package in the fetch, robots.txt counts as unreachable, and the traceback
    is logged.
    """
    crawler = fake_crawler({}, {URL: OSError("reset")})

    def is_own_fault(_: Failure) -> bool:
        raise RuntimeError("out of order")

    read = RepSettings(crawler.settings)
    fetcher = RobotsTxtFetcher(crawler, read, is_own_fault=is_own_fault)
    result = await fetcher.fetch(URL, [CAUSE])
    assert (result.access, result.error) == (
        "unreachable",
        "RuntimeError: out of order",
    )
    (record,) = (record for record in caplog.records if record.exc_info)
    assert URL in record.getMessage()
    assert record.levelname == "ERROR"


@coroutine_test
async def test_each_attempt_uses_another_proxy() -> None:
    """The newest of the requests that wait for it comes first; then all others in turn, as many as
    there are proxies. A proxy that refuses gives no answer of the site.
    """
    templates: list[Request] = []
    for proxy in ("http://a", "http://b", "http://c", "http://b"):
        add_template(templates, Request(URL, meta={"proxy": proxy}))
    answers = {URL: [OSError("reset"), answer(URL, b"", 407), answer(URL)]}
    crawler = fake_crawler({}, answers)
    read = RepSettings(crawler.settings)
    result = await RobotsTxtFetcher(crawler, read).fetch(URL, templates)
    assert result.status == 200
    used = [request.meta["proxy"] for request in crawler.engine.asked]
    assert used == ["http://c", "http://b", "http://a"]


@coroutine_test
async def test_the_request_switches_off_what_would_interfere() -> None:
    """The request switches off each component of Scrapy that would interfere, and takes
    the proxy and slot of the original request.
    """
    cause = Request(
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
    _, engine = await fetch({URL: answer(URL)}, cause)
    request = engine.asked[0]
    assert request.headers.to_unicode_dict() == {
        "User-Agent": "mybot",
        "Proxy-Authorization": "Basic eA==",
    }
    assert request.cookies == {}
    wanted = {
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
    assert {key: request.meta[key] for key in wanted} == wanted
    assert "other" not in request.meta


def test_robotstxt_does_not_wait_in_the_slot_of_another_host() -> None:
    """A robots.txt does not wait in the download slot of another host, in which Scrapy keeps a request
    that this has redirected.
    """
    meta = {"download_slot": "b.example", "redirect_urls": ["http://b.example/"]}
    request = RobotsTxtRequest.of(URL, Request(URL, meta=meta), ["download_slot"])
    assert "download_slot" not in request.meta


@pytest.mark.parametrize(("asked", "timeout"), [(None, 30), (600, 30), (5, 5)])
def test_an_attempt_takes_30_seconds_at_most(
    asked: float | None, timeout: float
) -> None:
    """However long DOWNLOAD_TIMEOUT is, an attempt takes 30 seconds at most."""
    template = Request(URL, meta={"download_timeout": asked})
    request = RobotsTxtRequest.of(URL, template, ["download_timeout"])
    FetchMiddleware(fake_crawler({})).process_request(request)
    assert request.meta["download_timeout"] == timeout


async def received(
    *chunks: bytes, timeout: float = 30
) -> tuple[AccessResult, list[object], Crawler]:
    """Fetch a robots.txt that arrives in *chunks*. Return the result, what each chunk has caused,
    and the crawler.
    """
    keys = {"REP_REQUEST_META_KEYS": ["download_timeout"]}
    crawler, outcomes = fake_crawler(keys), []

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
    cause = Request(URL, meta={"download_timeout": timeout})
    templates = [cause]
    return await fetcher.fetch(URL, templates), outcomes, crawler


@coroutine_test
async def test_the_download_stops_at_the_size_limit() -> None:
    """The download stops at the size limit; the signal handler is connected only meanwhile."""
    result, (before, after), crawler = await received(b"x" * 512_000, b"x")
    assert (result.status, before) == (200, None)
    assert isinstance(after, StopDownload)
    assert after.fail is False
    assert not crawler.signals.send_catch_log(
        signals.bytes_received, data=b"", request=CAUSE, spider=crawler.spider
    )


@coroutine_test
async def test_a_body_that_trickles_in_is_given_up() -> None:
    """The whole download has a time-out, even if each read stays within its own."""
    result, _, _ = await received(b"x", b"x", b"x", timeout=1e-9)
    assert (result.status, result.error) == (None, "took longer than 1e-09 s")
