"""The checks of a browser's requests, with a fake browser. ``tests/crawl/test_browser.py`` has what
Chromium sends; there is no Firefox and no WebKit.
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
    monkeypatch.setattr(playwright, "_GUARDS", WeakKeyDictionary())
    playwright._warn_of_unknown_crawl.cache_clear()  # It comes once.


class FakeGate(BrowserGate):
    """Forbids the URLs of /private/, and notes about which it was asked, with their page."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    async def refusal_of(
        self, url: str, cause: Request | None, page: str = ""
    ) -> Exception | None:
        self.asked.append((url, page))
        return DENIED if "/private/" in url else None


DENIED = RobotsDenied("forbidden", Mock())


def guarded(**settings: Any) -> PlaywrightMiddleware:
    """Return the middleware of a crawl whose gate is a fake."""
    return guard_of(fake_crawler({**ABORTS, **settings}), FakeGate())


def guard_of(crawler: Crawler, gate: BrowserGate | None) -> PlaywrightMiddleware:
    guard = PlaywrightMiddleware.from_crawler(crawler)
    guard.gate = gate
    return guard


def crawl(**settings: Any) -> tuple[PlaywrightMiddleware, Crawler]:
    """Return the middleware of a crawl with its gate."""
    settings = {"USER_AGENT": "mybot", "REP_WAIT_TIMEOUT": 0, **ABORTS, **settings}
    crawler = fake_crawler(settings, {ROBOTS_URL: answer(ROBOTS_URL, ROBOTS)})
    return guard_of(crawler, RobotsTxtMiddleware.from_crawler(crawler)), crawler


async def is_aborted(url: str, page: Any = None, *, is_page: bool = True) -> bool:
    """Ask about a request of *page*; without one, it is that of a service worker."""
    request = Mock(url=url)
    request.is_navigation_request.return_value = is_page
    type(request).frame = PropertyMock(
        return_value=page, side_effect=None if page else RuntimeError("no frame")
    )
    return await abort_forbidden(request)


def new_context(session: Any = None) -> Any:
    """Return a browser context of Chromium, which has one DevTools *session* in this test, or of
    Firefox, which has none.
    """
    if session is None:
        no_session = AsyncMock(side_effect=RuntimeError("only available in Chromium"))
        return AsyncMock(browser=None, new_cdp_session=no_session)
    context = AsyncMock(new_cdp_session=AsyncMock(return_value=session))
    context.browser.new_browser_cdp_session.return_value = session
    return context


def new_session() -> Any:
    session = AsyncMock(on=Mock())
    session.send.return_value = {"frameTree": {"frame": {"id": "main"}}}
    return session


def new_page(context: Any) -> Any:
    page = Mock(context=context, url="about:blank")
    page.page = page.main_frame = page
    return page


async def watched(guard: PlaywrightMiddleware, page: Any) -> Request:
    """Let scrapy-playwright open *page*. Return the request of the spider."""
    request = Request(PUBLIC, meta={"playwright": True})
    guard.process_request(request)
    await watch_page(page, request)
    return request


async def answer_of(session: Any, url: str, **event: Any) -> str:
    """Report a request in *session*, and return the method that answers it."""
    receivers = dict(call.args for call in session.on.call_args_list)
    answered = asyncio.Event()
    session.send.side_effect = lambda *_: answered.set()
    common = {"requestId": 1, "frameId": "main", "resourceType": "Document"}
    receivers["Fetch.requestPaused"]({**common, "request": {"url": url}, **event})
    await asyncio.wait_for(answered.wait(), 60)
    return session.send.call_args.args[0]


@pytest.mark.parametrize(
    ("obey", "url", "aborted"),
    [
        pytest.param([True], PRIVATE, True, id="a forbidden URL"),
        pytest.param([True], PUBLIC, False, id="an allowed URL"),
        pytest.param([True], "data:,x", False, id="a scheme without robots.txt"),
        pytest.param([True], "http://a|b/", True, id="a host that cannot be read"),
        pytest.param([], PUBLIC, True, id="no known crawl"),
        pytest.param([True, True], PUBLIC, True, id="one of several crawls"),
        pytest.param([False, False], PRIVATE, False, id="crawls that do not obey"),
        pytest.param([False, True], PUBLIC, True, id="one crawl that obeys"),
    ],
)
@coroutine_test
async def test_requests_of_service_workers_follow_the_one_crawl(
    caplog: pytest.LogCaptureFixture, obey: list[bool], url: str, aborted: bool
) -> None:
    """The rules of the one crawl apply to the requests of service workers. If it is unknown which
    crawl they belong to, they are aborted, with one log message; if no crawl obeys, they pass.
    """
    running = [crawl()[1] if obeys else fake_crawler() for obeys in obey]
    _kept = [
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
async def test_a_request_that_cannot_be_decided_is_aborted(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    is_logged: bool,
) -> None:
    """A request is aborted if the check fails, and while the spider closes."""
    _running = crawl()

    async def until_known(*_: object) -> bool:
        raise error

    monkeypatch.setattr(Frontier, "until_known", until_known)
    assert await is_aborted(PUBLIC)
    assert [PUBLIC in line for line in caplog.messages] == [True] * is_logged


@coroutine_test
async def test_robotstxt_is_checked_on_the_event_loop_of_the_crawl() -> None:
    """A browser on another thread has robots.txt checked on the event loop of the crawl."""
    guard, crawler = crawl()
    guard.process_request(Request(PUBLIC, meta={"playwright": True}))

    async def ask() -> list[bool]:
        return [await is_aborted(url) for url in (PRIVATE, PUBLIC)]

    loop = asyncio.get_running_loop()
    asked = await loop.run_in_executor(None, lambda: asyncio.run(ask()))
    assert asked == [True, False]
    assert [request.url for request in crawler.engine.asked] == [ROBOTS_URL]


@coroutine_test
async def test_one_session_decides_about_all_pages_of_a_browser() -> None:
    """One DevTools session with the browser decides about the requests of all its pages, and
    Playwright about none. If the page itself is refused, and not only an image of it, the errback
    gets the refusal.
    """
    guard = guarded()
    session = new_session()
    context = new_context(session)
    pages = [new_page(context), new_page(context)]
    for page in (pages[1], *pages[:1] * 2):  # A page can be used again.
        request = await watched(guard, page)
    assert not await is_aborted(PRIVATE, pages[0])
    context.browser.new_browser_cdp_session.assert_called_once_with()
    context.add_init_script.assert_called_once()
    assert await answer_of(session, PUBLIC) == "Fetch.continueRequest"
    image = {"resourceType": "Image"}
    assert await answer_of(session, PRIVATE, **image) == "Fetch.failRequest"
    guard.process_exception(request, RuntimeError("net::ERR_TIMED_OUT"))
    assert await answer_of(session, PRIVATE, frameId="?") == "Fetch.failRequest"
    guard.process_exception(request, RuntimeError("net::ERR_TIMED_OUT"))
    assert await answer_of(session, PRIVATE) == "Fetch.failRequest"
    with pytest.raises(RobotsDenied, match="forbidden"):
        guard.process_exception(request, RuntimeError("net::ERR_BLOCKED_BY_CLIENT"))
    assert isinstance(guard.gate, FakeGate)
    pages_asked = [
        (PUBLIC, PUBLIC),
        (PRIVATE, PUBLIC),
        (PRIVATE, ""),
        (PRIVATE, PUBLIC),
    ]
    assert guard.gate.asked == pages_asked


@pytest.mark.parametrize(("reason", "is_known"), [("swap", True), ("remove", False)])
@coroutine_test
async def test_a_detached_frame_still_belongs_to_its_page(
    reason: str, is_known: bool
) -> None:
    """A frame that moves to another process of Chromium still belongs to its page, so the
    errback gets the refusal of the page. A frame that is removed belongs to no page.
    """
    guard = guarded()
    session = new_session()
    request = await watched(guard, new_page(new_context(session)))
    receivers = dict(call.args for call in session.on.call_args_list)
    receivers["Page.frameDetached"]({"frameId": "main", "reason": reason})
    assert await answer_of(session, PRIVATE) == "Fetch.failRequest"
    with pytest.raises(RobotsDenied) if is_known else nullcontext():
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
    """Chromium gets no file of speculation rules, and other files as they are."""
    guard = guarded()
    session = new_session()
    await watched(guard, new_page(new_context(session)))
    fields = [{"name": name, "value": value} for name, value in headers.items()]
    response = {"responseStatusCode": 200, "responseHeaders": fields}
    assert await answer_of(session, PUBLIC, **response) == f"Fetch.{method}"


@coroutine_test
async def test_without_a_session_what_playwright_reports_is_checked() -> None:
    """In Firefox and WebKit, what Playwright reports is checked, with the first request of a
    popup.
    """
    guard = guarded()
    page = new_page(new_context())
    request = await watched(guard, page)
    assert not await is_aborted(PUBLIC, page)
    assert await is_aborted(PRIVATE, page, is_page=False)
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
async def test_requests_of_a_closed_page_wait_no_longer(session: Any) -> None:
    """When a page closes, its requests no longer wait for a robots.txt, and the fetch of that
    file ends unless another page needs it.
    """
    guard, crawler = crawl()
    fetches: list[Deferred[Any]] = []
    began: Deferred[None] = Deferred()
    ended: Deferred[None] = Deferred()

    def hang() -> Deferred[Any]:
        fetches.append(Deferred(lambda _: ended.callback(None)))
        if len(fetches) == 2:
            began.callback(None)
        return fetches[-1]

    silent, busy = "http://silent.example/", "http://busy.example/"
    for site in (silent, busy):
        crawler.engine.answers[f"{site}robots.txt"] = hang
    context = new_context(session)
    first, second = new_page(context), new_page(context)
    await watched(guard, first)
    await watched(guard, second)
    tasks = []
    for url, page in ((silent, first), (busy, first), (busy, second)):
        watcher = playwright._PAGES[page]
        check = watcher._browser.may_fetch(url, watcher)
        tasks.append(asyncio.ensure_future(check))
        await asyncio.sleep(0)
    await asyncio.wait_for(maybe_deferred_to_future(began), 60)

    def close(page: Any) -> None:
        for call in page.once.call_args_list:
            call.args[1](page)

    close(first)
    assert not await tasks[0]
    assert not await tasks[1]
    await maybe_deferred_to_future(ended)
    assert not fetches[1].called
    fetches[1].callback(answer(f"{busy}robots.txt", b""))
    assert await tasks[2]
    close(second)
    assert not playwright._PAGES.keys() & {first, second}


own_callback = AsyncMock()
"""The page init callback of a project."""


@coroutine_test
async def test_the_page_callback_of_a_spider_is_called_and_restored() -> None:
    """The page init callback of a request is called after that of the package, even if the
    crawl of the page is unknown; and it is in the meta of the request again when the download ends.
    """
    guard = guarded()
    meta = {"playwright": True, PAGE_INIT: f"{__name__}.own_callback"}
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
    called = [call.args for call in own_callback.call_args_list]
    assert called == [(page, request), (unknown, again)]
    guard.process_exception(again, OSError())
    assert again.meta == meta


def test_the_meta_of_a_request_is_restored_after_its_download() -> None:
    """The meta of a request for a browser is as it was when its download has ended, also if that was
    a copy of a request in the middle of its own download.
    """
    guard = guarded()
    request = Request(PUBLIC, meta={"playwright": True})
    guard.process_request(request)
    copied = request.copy()
    guard.process_request(copied)
    for ended in (request, copied):
        guard.process_response(ended, HtmlResponse(PUBLIC, request=ended))
        assert ended.meta == {"playwright": True}


@pytest.mark.parametrize("asks", [False, True])
@coroutine_test
async def test_a_predicate_that_does_not_check_causes_one_warning(
    caplog: pytest.LogCaptureFixture, asks: bool
) -> None:
    """If the project has its own predicate and that does not check robots.txt, one warning
    says so.
    """
    guard = guarded(PLAYWRIGHT_ABORT_REQUEST="project.abort")
    for _ in range(2):
        request = Request(PUBLIC, meta={"playwright": True})
        if asks:
            assert await is_aborted(PRIVATE)
        guard.process_request(request)
        assert (PAGE_INIT in request.meta) is asks
        response = HtmlResponse(PUBLIC, flags=["playwright"], request=request)
        guard.process_response(request, response)
    assert caplog.text.count("project.abort") == (not asks)


@pytest.mark.parametrize(("path", "is_used"), [("/used/a", False), ("/free/a", True)])
@coroutine_test
async def test_after_a_redirect_the_preferences_for_the_response_count(
    path: str, is_used: bool
) -> None:
    """After a redirect in the browser, the usage preferences for the URL of the response
    count, not those for the URL of the request.
    """
    guard, crawler = crawl(REP_PURPOSES=["train-ai"])
    mw = guard.gate
    assert isinstance(mw, RobotsTxtMiddleware)
    reader = IndexingMiddleware.from_crawler(crawler)
    other = "/free/a" if path == "/used/a" else "/used/a"
    request = Request(f"{SITE}{other}", meta={"playwright": True})
    mw._usage.note(request, RobotsTxt.parse(ROBOTS), None, ("mybot",))
    response = HtmlResponse(f"{SITE}{path}", flags=["playwright"], request=request)
    await mw.check_arrival(request, response)
    reader.process_response(request, response)
    denial = usage_preferences(response).denial(["train-ai"])
    assert (denial is None) is is_used
