"""Tests of :mod:`scrapy_rep.playwright`, which checks the requests of a browser. The browser is a fake.

The tests in ``tests/crawl/test_browser.py`` use a real Chromium. No test uses a real Firefox or WebKit.
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any
from unittest.mock import AsyncMock, Mock, PropertyMock
from weakref import WeakKeyDictionary

import pytest
from scrapy import Request
from scrapy.http import HtmlResponse
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred

from scrapy_rep import playwright, usage_preferences
from scrapy_rep.crawl.frontier.frontier import Frontier
from scrapy_rep.crawl.gate import BrowserGate, RobotsTxtMiddleware
from scrapy_rep.crawl.pages.indexing import IndexingMiddleware
from scrapy_rep.exceptions import RobotsDenied, SpiderClosing
from scrapy_rep.playwright import PlaywrightMiddleware, abort_forbidden, watch_page
from scrapy_rep.protocol.robots import RobotsTxt
from tests.fakes import answer, coroutine_test, fake_crawler

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

pytestmark = pytest.mark.newest

SITE = "http://example.com"
ROBOTS_URL = f"{SITE}/robots.txt"
PUBLIC, PRIVATE = f"{SITE}/public", f"{SITE}/private/1"
ROBOTS = b"User-agent: *\nDisallow: /private/\nContent-Usage: /used/ train-ai=n\n"
PAGE_INIT = "playwright_page_init_callback"
ABORTS = {"PLAYWRIGHT_ABORT_REQUEST": "scrapy_rep.playwright.abort_forbidden"}


@pytest.fixture(autouse=True)
def _no_other_crawls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the crawls of earlier tests."""
    monkeypatch.setattr(playwright, "_GUARDS", WeakKeyDictionary())
    playwright._warn_of_unknown_crawl.cache_clear()  # It is logged once per process.


class FakeGate(BrowserGate):
    """A gate that forbids the URLs in /private/."""

    def __init__(self) -> None:
        self.checked: list[tuple[str, str]] = []
        """The URL of each request that was checked, with the URL of the page in the browser that needs it. If the page
        is not known, its URL is an empty string.
        """

    async def refusal_of(
        self, url: str, cause: Request | None, page: str = ""
    ) -> Exception | None:
        self.checked.append((url, page))
        return DENIED if "/private/" in url else None


DENIED = RobotsDenied("forbidden", Mock())


def fake_guard(**settings: Any) -> PlaywrightMiddleware:
    """Return the middleware of a crawl with a :class:`FakeGate`."""
    return guard_of(fake_crawler({**ABORTS, **settings}), FakeGate())


def guard_of(crawler: Crawler, gate: BrowserGate | None) -> PlaywrightMiddleware:
    """Return the middleware of *crawler* with *gate*. If *gate* is None, the crawl does not obey robots.txt."""
    guard = PlaywrightMiddleware.from_crawler(crawler)
    guard.gate = gate
    return guard


def crawl(**settings: Any) -> tuple[PlaywrightMiddleware, Crawler]:
    """Return the middleware of a crawl with a real gate, and the crawler. ROBOTS is the robots.txt of SITE."""
    settings = {"USER_AGENT": "mybot", "REP_WAIT_TIMEOUT": 0, **ABORTS, **settings}
    crawler = fake_crawler(settings, {ROBOTS_URL: answer(ROBOTS_URL, ROBOTS)})
    return guard_of(crawler, RobotsTxtMiddleware.from_crawler(crawler)), crawler


async def is_aborted(url: str, page: Any = None, *, is_navigation: bool = True) -> bool:
    """Return whether a request of *page* for *url* is aborted. If *page* is None, a service worker makes the request.
    If *is_navigation* is False, the request is for a part of the page, such as an image.
    """
    request = Mock(url=url)
    request.is_navigation_request.return_value = is_navigation
    type(request).frame = PropertyMock(
        return_value=page, side_effect=None if page else RuntimeError("no frame")
    )
    return await abort_forbidden(request)


def new_context(session: Any = None) -> Any:
    """Return a browser context of Chromium that has the DevTools *session*. If *session* is None, return a context of
    Firefox, which has no DevTools sessions.
    """
    if session is None:
        no_session = AsyncMock(side_effect=RuntimeError("only available in Chromium"))
        return AsyncMock(browser=None, new_cdp_session=no_session)
    context = AsyncMock(new_cdp_session=AsyncMock(return_value=session))
    context.browser.new_browser_cdp_session.return_value = session
    return context


def new_session() -> Any:
    """Return a DevTools session. The main frame of its pages has the id "main"."""
    session = AsyncMock(on=Mock())
    session.send.return_value = {"frameTree": {"frame": {"id": "main"}}}
    return session


def new_page(context: Any) -> Any:
    page = Mock(context=context, url="about:blank")
    page.page = page.main_frame = page
    return page


async def open_page(guard: PlaywrightMiddleware, page: Any) -> Request:
    """Open *page* for a request of the spider, as scrapy-playwright does. Return this request."""
    request = Request(PUBLIC, meta={"playwright": True})
    guard.process_request(request)
    await watch_page(page, request)
    return request


async def pause_request(session: Any, url: str, **event: Any) -> str:
    """Let the browser report in *session* that its request for *url* is paused. Return the DevTools method with which
    the package answers: ``"Fetch.continueRequest"`` or ``"Fetch.failRequest"``.

    By default, the request is for the document of the page. *event* has the fields of the report that differ.
    """
    receivers = dict(call.args for call in session.on.call_args_list)
    is_decided = asyncio.Event()
    session.send.side_effect = lambda *_: is_decided.set()
    defaults = {"requestId": 1, "frameId": "main", "resourceType": "Document"}
    receivers["Fetch.requestPaused"]({**defaults, "request": {"url": url}, **event})
    await asyncio.wait_for(is_decided.wait(), 60)
    return session.send.call_args.args[0]


@pytest.mark.parametrize(
    ("obey", "url", "aborted"),
    [
        pytest.param([True], PRIVATE, True, id="a forbidden URL"),
        pytest.param([True], PUBLIC, False, id="an allowed URL"),
        pytest.param([True], "data:,x", False, id="a scheme without robots.txt"),
        pytest.param([True], "http://a|b/", True, id="an invalid host"),
        pytest.param([], PUBLIC, True, id="no known crawl"),
        pytest.param([True, True], PUBLIC, True, id="several crawls"),
        pytest.param([False, False], PRIVATE, False, id="crawls that do not obey"),
        pytest.param(
            [False, True], PUBLIC, True, id="several crawls, of which one obeys"
        ),
    ],
)
@coroutine_test
async def test_requests_of_service_workers_are_aborted_if_their_crawl_is_unknown(
    caplog: pytest.LogCaptureFixture, obey: list[bool], url: str, aborted: bool
) -> None:
    """If the process has one crawl, its rules apply to the requests of service workers. With no crawl or several
    crawls, nobody knows to which crawl a request belongs. Then the request is aborted, with one log message. It passes
    if crawls are running and none of them obeys robots.txt.
    """
    running = [crawl()[1] if obeys else fake_crawler() for obeys in obey]
    # The reference keeps the middlewares alive.
    _without_gate = [
        guard_of(crawler, None)
        for crawler, obeys in zip(running, obey, strict=True)
        if not obeys
    ]
    for _ in range(2):
        assert await is_aborted(url) is aborted
    is_unknown = aborted and len(running) != 1
    assert caplog.text.count("Check that scrapy_rep.Addon is in ADDONS") == is_unknown
    if len(running) == 1:
        count = running[0].stats.get_value("rep/browser/aborted", 0)
        assert count == 2 * aborted


@pytest.mark.parametrize(
    ("error", "is_logged"),
    [(SpiderClosing("closing"), False), (RuntimeError("x"), True)],
)
@coroutine_test
async def test_a_request_is_aborted_if_its_check_raises(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    is_logged: bool,
) -> None:
    """An error of the check is logged. While the spider closes, the check raises SpiderClosing, which is not logged."""
    _running = crawl()  # The reference keeps the crawl alive.

    async def until_known(*_: object) -> bool:
        raise error

    monkeypatch.setattr(Frontier, "until_known", until_known)
    assert await is_aborted(PUBLIC)
    assert [PUBLIC in line for line in caplog.messages] == [True] * is_logged


@coroutine_test
async def test_robotstxt_is_checked_on_the_event_loop_of_the_crawl() -> None:
    """The browser may run on the event loop of another thread."""
    guard, crawler = crawl()
    guard.process_request(Request(PUBLIC, meta={"playwright": True}))

    async def check() -> list[bool]:
        return [await is_aborted(url) for url in (PRIVATE, PUBLIC)]

    loop = asyncio.get_running_loop()
    are_aborted = await loop.run_in_executor(None, lambda: asyncio.run(check()))
    assert are_aborted == [True, False]
    assert [request.url for request in crawler.engine.asked] == [ROBOTS_URL]


@coroutine_test
async def test_one_devtools_session_decides_about_all_pages_of_a_browser() -> None:
    """With a DevTools session, the handlers of Playwright itself decide nothing. If the document of the page is
    refused, the errback gets the refusal. If only an image is refused, the errback does not get it.
    """
    guard = fake_guard()
    session = new_session()
    context = new_context(session)
    pages = [new_page(context), new_page(context)]
    for page in (pages[1], *pages[:1] * 2):  # A page can be used again.
        request = await open_page(guard, page)
    assert not await is_aborted(PRIVATE, pages[0])
    context.browser.new_browser_cdp_session.assert_called_once_with()
    context.add_init_script.assert_called_once()
    assert await pause_request(session, PUBLIC) == "Fetch.continueRequest"
    image = {"resourceType": "Image"}
    assert await pause_request(session, PRIVATE, **image) == "Fetch.failRequest"
    guard.process_exception(request, RuntimeError("net::ERR_TIMED_OUT"))
    assert await pause_request(session, PRIVATE, frameId="?") == "Fetch.failRequest"
    guard.process_exception(request, RuntimeError("net::ERR_TIMED_OUT"))
    assert await pause_request(session, PRIVATE) == "Fetch.failRequest"
    with pytest.raises(RobotsDenied, match="forbidden"):
        guard.process_exception(request, RuntimeError("net::ERR_BLOCKED_BY_CLIENT"))
    assert isinstance(guard.gate, FakeGate)
    checked = [
        (PUBLIC, PUBLIC),
        (PRIVATE, PUBLIC),
        (PRIVATE, ""),
        (PRIVATE, PUBLIC),
    ]
    assert guard.gate.checked == checked


@pytest.mark.parametrize(("reason", "has_page"), [("swap", True), ("remove", False)])
@coroutine_test
async def test_a_swapped_frame_still_belongs_to_its_page(
    reason: str, has_page: bool
) -> None:
    """Chromium reports a frame that moves to another process as detached with the reason "swap". The frame still
    belongs to its page, so the errback gets the refusal of the page. A frame that is removed belongs to no page.
    """
    guard = fake_guard()
    session = new_session()
    request = await open_page(guard, new_page(new_context(session)))
    receivers = dict(call.args for call in session.on.call_args_list)
    receivers["Page.frameDetached"]({"frameId": "main", "reason": reason})
    assert await pause_request(session, PRIVATE) == "Fetch.failRequest"
    with pytest.raises(RobotsDenied) if has_page else nullcontext():
        guard.process_exception(request, RuntimeError("net::ERR_BLOCKED_BY_CLIENT"))


@pytest.mark.parametrize(
    ("headers", "method"),
    [
        ({"content-type": "application/speculationrules+json"}, "failRequest"),
        ({"Content-Type": "Application/SpeculationRules+JSON; a=b"}, "failRequest"),
        ({"Content-Type": "text/javascript"}, "continueRequest"),
        ({}, "continueRequest"),
    ],
)
@coroutine_test
async def test_chromium_gets_no_speculation_rules(
    headers: dict[str, str], method: str
) -> None:
    """Speculation rules let Chromium prefetch pages, and these requests cannot be checked. So a response with such
    rules fails. Other responses continue.
    """
    guard = fake_guard()
    session = new_session()
    await open_page(guard, new_page(new_context(session)))
    fields = [{"name": name, "value": value} for name, value in headers.items()]
    response = {"responseStatusCode": 200, "responseHeaders": fields}
    assert await pause_request(session, PUBLIC, **response) == f"Fetch.{method}"


@coroutine_test
async def test_without_a_devtools_session_playwright_reports_the_requests() -> None:
    """Firefox and WebKit have no DevTools sessions. The requests that Playwright reports are checked, and a route of
    the browser context checks the first request of a popup.
    """
    guard = fake_guard()
    page = new_page(new_context())
    request = await open_page(guard, page)
    assert not await is_aborted(PUBLIC, page)
    assert await is_aborted(PRIVATE, page, is_navigation=False)
    guard.process_exception(request, RuntimeError("timed out"))
    assert await is_aborted(PRIVATE, page)
    with pytest.raises(RobotsDenied):
        guard.process_exception(request, RuntimeError("aborted"))
    ((_, handler),) = (call.args for call in page.context.route.call_args_list)
    route = AsyncMock()
    for url in (PUBLIC, PRIVATE):
        await handler(route, Mock(url=url))
    assert [call[0] for call in route.method_calls] == ["continue_", "abort"]


@pytest.mark.parametrize("session", [new_session(), None], ids=["Chromium", "Firefox"])
@coroutine_test
async def test_requests_of_a_closed_page_stop_waiting(session: Any) -> None:
    """When a page closes, its requests no longer wait for a robots.txt. The fetch of this robots.txt is cancelled,
    unless another page waits for it.
    """
    guard, crawler = crawl()
    fetches: list[Deferred[Any]] = []
    both_began: Deferred[None] = Deferred()
    is_cancelled: Deferred[None] = Deferred()

    def hang() -> Deferred[Any]:
        fetches.append(Deferred(lambda _: is_cancelled.callback(None)))
        if len(fetches) == 2:
            both_began.callback(None)
        return fetches[-1]

    silent, busy = "http://silent.example/", "http://busy.example/"
    for site in (silent, busy):
        crawler.engine.answers[f"{site}robots.txt"] = hang
    context = new_context(session)
    first, second = new_page(context), new_page(context)
    await open_page(guard, first)
    await open_page(guard, second)
    tasks = []
    for url, page in ((silent, first), (busy, first), (busy, second)):
        watcher = playwright._PAGES[page]
        check = watcher._browser.may_fetch(url, watcher)
        tasks.append(asyncio.ensure_future(check))
        await asyncio.sleep(0)
    await asyncio.wait_for(maybe_deferred_to_future(both_began), 60)

    def close(page: Any) -> None:
        for call in page.once.call_args_list:
            call.args[1](page)

    close(first)
    assert not await tasks[0]
    assert not await tasks[1]
    await maybe_deferred_to_future(is_cancelled)
    assert not fetches[1].called
    fetches[1].callback(answer(f"{busy}robots.txt", b""))
    assert await tasks[2]
    close(second)
    assert not playwright._PAGES.keys() & {first, second}


project_callback = AsyncMock()
"""The page init callback of a project."""


@coroutine_test
async def test_the_page_init_callback_of_a_request_is_called_and_restored() -> None:
    """During the download, this package's page init callback is in the meta of the request, and calls the callback of
    the request, even if the crawl of the page is unknown. When the download has ended, the meta has the callback of
    the request again.
    """
    guard = fake_guard()
    meta = {"playwright": True, PAGE_INIT: f"{__name__}.project_callback"}
    request = Request(PUBLIC, meta=meta)
    guard.process_request(request)
    assert request.meta[PAGE_INIT] == playwright.WATCH_PAGE
    page, unknown = new_page(new_context()), new_page(new_context())
    await watch_page(page, request)
    page.context.route.assert_called_once()
    guard.process_response(request, HtmlResponse(PUBLIC, request=request))
    assert request.meta == meta
    again = request.replace(dont_filter=True)  # A retry copies the request.
    guard.process_request(again)
    del playwright._BY_REQUEST[again]
    await watch_page(unknown, again)
    unknown.context.route.assert_not_called()
    calls = [call.args for call in project_callback.call_args_list]
    assert calls == [(page, request), (unknown, again)]
    guard.process_exception(again, OSError())
    assert again.meta == meta


def test_the_meta_of_a_request_is_restored_after_its_download() -> None:
    """The meta of a copy is restored, too, even if the copy was made during the download."""
    guard = fake_guard()
    request = Request(PUBLIC, meta={"playwright": True})
    guard.process_request(request)
    copied = request.copy()
    guard.process_request(copied)
    for ended in (request, copied):
        guard.process_response(ended, HtmlResponse(PUBLIC, request=ended))
        assert ended.meta == {"playwright": True}


@pytest.mark.parametrize("checks", [False, True])
@coroutine_test
async def test_a_predicate_that_does_not_check_robotstxt_causes_one_warning(
    caplog: pytest.LogCaptureFixture, checks: bool
) -> None:
    """A project can set PLAYWRIGHT_ABORT_REQUEST to its own predicate, which should call ``abort_forbidden``."""
    guard = fake_guard(PLAYWRIGHT_ABORT_REQUEST="project.abort")
    for _ in range(2):
        request = Request(PUBLIC, meta={"playwright": True})
        if checks:
            assert await is_aborted(PRIVATE)
        guard.process_request(request)
        assert (PAGE_INIT in request.meta) is checks
        response = HtmlResponse(PUBLIC, flags=["playwright"], request=request)
        guard.process_response(request, response)
    assert caplog.text.count("project.abort") == (not checks)


@pytest.mark.parametrize(("path", "is_used"), [("/used/a", False), ("/free/a", True)])
@coroutine_test
async def test_the_usage_preferences_of_the_final_url_apply_after_a_redirect(
    path: str, is_used: bool
) -> None:
    """The browser follows the redirect by itself, so the request has another URL than the response."""
    guard, crawler = crawl(REP_PURPOSES=["train-ai"])
    gate = guard.gate
    assert isinstance(gate, RobotsTxtMiddleware)
    reader = IndexingMiddleware.from_crawler(crawler)
    other = "/free/a" if path == "/used/a" else "/used/a"
    request = Request(f"{SITE}{other}", meta={"playwright": True})
    gate._usage.note(request, RobotsTxt.parse(ROBOTS), None, ("mybot",))
    response = HtmlResponse(f"{SITE}{path}", flags=["playwright"], request=request)
    await gate.check_arrival(request, response)
    reader.process_response(request, response)
    denial = usage_preferences(response).denial(["train-ai"])
    assert (denial is None) is is_used
