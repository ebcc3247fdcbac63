"""The checks of a browser's requests, with a fake browser and fake responses."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import pytest
from scrapy import Request
from scrapy.http import HtmlResponse
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred

from scrapy_rep import playwright
from scrapy_rep.downloadermiddlewares import browsers
from scrapy_rep.downloadermiddlewares.indexing import IndexingMiddleware
from scrapy_rep.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy_rep.exceptions import RobotsDenied, SpiderClosing
from scrapy_rep.frontier.hosts import Hosts
from scrapy_rep.playwright import abort_forbidden, watch_page
from scrapy_rep.protocol.robots import RobotsTxt
from tests.fakes import answer, coroutine_test, fake_crawler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy.crawler import Crawler

pytestmark = pytest.mark.newest

SITE = "http://example.com"
ROBOTS_URL = f"{SITE}/robots.txt"
PUBLIC, PRIVATE = f"{SITE}/public", f"{SITE}/private/1"
ROBOTS = b"User-agent: *\nDisallow: /private/\nContent-Usage: /used/ train-ai=n\n"
OURS = {"PLAYWRIGHT_ABORT_REQUEST": browsers.ABORT_FORBIDDEN}

calls: list[tuple[Any, Request]] = []


async def own_callback(page: Any, request: Request) -> None:
    """The page init callback of a project."""
    calls.append((page, request))


@pytest.fixture(autouse=True)
def _no_other_crawls(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(browsers, "_BY_CRAWLER", WeakKeyDictionary())
    for each in vars(playwright).values():  # Each warning comes once.
        if hasattr(each, "cache_clear"):
            each.cache_clear()
    yield
    calls.clear()


def crawl(**settings: Any) -> tuple[RobotsTxtMiddleware, Crawler]:
    settings = {"USER_AGENT": "mybot", "REP_WAIT_MAX": 0, **settings}
    crawler = fake_crawler(settings, {ROBOTS_URL: answer(ROBOTS_URL, ROBOTS)})
    return RobotsTxtMiddleware.from_crawler(crawler), crawler


class Session:
    """A DevTools session."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Any]] = []
        self.has_sent = asyncio.Event()
        self.receivers: dict[str, Callable[[Any], None]] = {}

    def on(self, name: str, receiver: Callable[[Any], None]) -> None:
        self.receivers[name] = receiver

    async def send(self, method: str, arguments: Any = None) -> Any:
        self.sent.append((method, arguments))
        self.has_sent.set()
        return {"frameTree": {"frame": {"id": "main"}}}

    def pauses(self, event: dict[str, Any]) -> bool:
        """Return True if Chromium pauses *event*: one of the patterns asks for it."""
        stage = "Response" if "responseStatusCode" in event else "Request"
        (patterns,) = (
            arguments["patterns"]
            for method, arguments in self.sent
            if method == "Fetch.enable"
        )
        return any(
            pattern.get("requestStage", "Request") == stage
            and pattern.get("resourceType", event["resourceType"])
            == event["resourceType"]
            for pattern in patterns
        )


class Browser:
    """Chromium, which has one DevTools session in this test."""

    def __init__(self) -> None:
        self.sessions: list[Session] = []

    async def new_browser_cdp_session(self) -> Session:
        self.sessions.append(Session())
        return self.sessions[-1]


class Context:
    """A browser context. Without a *browser*, it is one of Firefox."""

    def __init__(self, browser: Browser | None = None) -> None:
        self.browser = browser
        self.scripts: list[str] = []
        self.routes: list[Any] = []
        self.page_sessions: list[Session] = []

    async def add_init_script(self, script: str) -> None:
        self.scripts.append(script)

    async def route(self, pattern: str, handler: Any) -> None:
        self.routes.append(handler)

    async def new_cdp_session(self, target: Any) -> Session:
        if self.browser is None:
            raise RuntimeError("CDP session is only available in Chromium")
        self.page_sessions.append(Session())
        return self.page_sessions[-1]


class Page:
    def __init__(self, context: Context) -> None:
        self.context = context
        self.url = "about:blank"
        self.page = self.main_frame = self
        self.on_close: list[Callable[[Any], None]] = []

    def once(self, name: str, receiver: Callable[[Any], None]) -> None:
        assert name == "close"
        self.on_close.append(receiver)

    def close(self) -> None:
        for receiver in self.on_close:
            receiver(self)


class Route:
    """A request that Playwright holds."""

    def __init__(self) -> None:
        self.answers: list[str] = []

    async def continue_(self) -> None:
        self.answers.append("continue")

    async def abort(self, reason: str) -> None:
        self.answers.append("abort")


class BrowserRequest:
    """A request of the browser; without a *frame*, that of a service worker."""

    def __init__(self, url: str, frame: Any = None, *, is_page: bool = True) -> None:
        self.url = url
        self._frame = frame
        self._is_page = is_page

    @property
    def frame(self) -> Any:
        if self._frame is None:
            raise RuntimeError(
                "Service Worker requests do not have an associated frame."
            )
        return self._frame

    def is_navigation_request(self) -> bool:
        return self._is_page


async def is_aborted(url: str, frame: Any = None, *, is_page: bool = True) -> bool:
    request: Any = BrowserRequest(url, frame, is_page=is_page)
    return await abort_forbidden(request)


# Requests without a page.


@coroutine_test
async def test_requests_without_a_page() -> None:
    """If there is one crawl, its robots.txt rules apply to the requests of service workers."""
    mw, crawler = crawl()
    assert await is_aborted(PRIVATE)
    assert not await is_aborted(PUBLIC)
    assert not await is_aborted("data:,x")
    assert crawler.stats.get_value("rep/browser/aborted") == 1
    assert mw is not None


@coroutine_test
async def test_requests_of_an_unknown_crawl(caplog: pytest.LogCaptureFixture) -> None:
    """If several crawls could own a request without a page, or none, it is aborted, with one
    log message.
    """
    assert await is_aborted(PUBLIC)
    one, other = crawl(), crawl()
    assert await is_aborted(PUBLIC)
    assert len(caplog.records) == 1
    assert caplog.records[0].levelname == "ERROR"
    assert "scrapy_rep.Addon" in caplog.text
    assert (one, other) is not None


@coroutine_test
async def test_crawls_that_do_not_obey(caplog: pytest.LogCaptureFixture) -> None:
    """If no crawl obeys robots.txt, such requests pass; if one of several does, they are
    aborted.
    """
    free, another = fake_crawler(), fake_crawler()
    for crawler in (free, another):
        browsers.register(crawler, None)
    assert not await is_aborted(PRIVATE)
    mw, _ = crawl()
    assert await is_aborted(PUBLIC)
    assert mw is not None


@coroutine_test
async def test_a_browser_on_a_thread() -> None:
    """A browser on another thread has robots.txt checked on the event loop of the crawl."""
    mw, crawler = crawl(**OURS)
    request = Request(PUBLIC, meta={"playwright": True})
    await mw.process_request(request)

    def on_thread() -> list[bool]:
        async def ask() -> list[bool]:
            return [await is_aborted(url) for url in (PRIVATE, PUBLIC)]

        return asyncio.run(ask())

    loop = asyncio.get_running_loop()
    assert await loop.run_in_executor(None, on_thread) == [True, False]
    assert [each.url for each in crawler.engine.asked] == [ROBOTS_URL]


@pytest.mark.parametrize(
    ("error", "is_logged"),
    [(SpiderClosing("closing"), False), (RuntimeError("x"), True)],
)
@coroutine_test
async def test_what_cannot_be_decided(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    is_logged: bool,
) -> None:
    """A request is aborted if the check fails, and while the spider closes."""
    mw, _ = crawl()

    async def known(*args: Any, **kwargs: Any) -> None:
        raise error

    monkeypatch.setattr(Hosts, "known", known)
    assert await is_aborted(PUBLIC)
    assert [PUBLIC in line for line in caplog.messages] == [True] * is_logged
    assert mw is not None


@coroutine_test
async def test_a_host_that_cannot_be_read() -> None:
    """A URL whose host cannot be read is refused to browsers as to spiders."""
    mw, crawler = crawl()
    assert await is_aborted("http://a|b/")
    assert crawler.stats.get_value("rep/denied/bad-url") == 1
    assert mw is not None


# Pages.


async def watched(mw: RobotsTxtMiddleware, page: Any) -> Request:
    """Let scrapy-playwright open *page*. Return the request of the spider."""
    request = Request(PUBLIC, meta={"playwright": True})
    await mw.process_request(request)
    await watch_page(page, request)
    return request


async def answers(session: Session, *events: dict[str, Any]) -> list[str]:
    """Report *events* in *session*, and return the answers."""
    for number, event in enumerate(events):
        session.has_sent.clear()
        common = {"requestId": number, "frameId": "main", "resourceType": "Document"}
        paused = {**common, **event}
        assert session.pauses(paused)
        session.receivers["Fetch.requestPaused"](paused)
        await session.has_sent.wait()
    return [method for method, _ in session.sent[-len(events) :]]


@coroutine_test
async def test_a_browser_with_a_session() -> None:
    """One DevTools session with the browser decides about the requests of all its pages, and
    Playwright about none. If the page itself is refused, and not only an image of it, the errback
    gets the refusal.
    """
    mw, crawler = crawl(**OURS)
    browser = Browser()
    context = Context(browser)
    pages: list[Any] = [Page(context), Page(context), Page(Context(browser))]
    await watched(mw, pages[1])
    await watched(mw, pages[2])
    for _ in range(2):  # A page can be used again.
        request = await watched(mw, pages[0])
    assert not await is_aborted(PRIVATE, pages[0])
    assert crawler.stats.get_value("rep/browser/aborted") is None
    (session,) = browser.sessions
    assert len(context.scripts) == 1
    assert await answers(
        session,
        {"request": {"url": PRIVATE}},
        {"request": {"url": PUBLIC}},
        {"request": {"url": PRIVATE}, "frameId": "unknown"},
    ) == ["Fetch.failRequest", "Fetch.continueRequest", "Fetch.failRequest"]
    with pytest.raises(RobotsDenied, match=f"by a browser from {PUBLIC}$"):
        mw.process_exception(request, RuntimeError("net::ERR_BLOCKED_BY_CLIENT"))
    assert crawler.stats.get_value("rep/browser/aborted") == 2
    image = {"request": {"url": PRIVATE}, "resourceType": "Image"}
    assert await answers(session, image) == ["Fetch.failRequest"]
    mw.process_exception(request, RuntimeError("net::ERR_TIMED_OUT"))


@pytest.mark.parametrize(("reason", "is_known"), [("swap", True), ("remove", False)])
@coroutine_test
async def test_a_frame_that_is_detached(reason: str, is_known: bool) -> None:
    """A frame that moves to another process of Chromium still belongs to its page, so the
    errback gets the refusal of the page. A frame that is removed belongs to no page.
    """
    mw, _ = crawl(**OURS)
    browser = Browser()
    context = Context(browser)
    request = await watched(mw, Page(context))
    (of_page,) = context.page_sessions
    of_page.receivers["Page.frameDetached"]({"frameId": "main", "reason": reason})
    refused = await answers(browser.sessions[0], {"request": {"url": PRIVATE}})
    assert refused == ["Fetch.failRequest"]
    error = RuntimeError("net::ERR_BLOCKED_BY_CLIENT")
    with pytest.raises(RobotsDenied) if is_known else nullcontext():
        mw.process_exception(request, error)


@pytest.mark.parametrize(
    ("headers", "answer"),
    [
        ([("content-type", "application/speculationrules+json")], "failRequest"),
        ([("Content-Type", "Application/SpeculationRules+JSON; a=b")], "failRequest"),
        ([("Content-Type", "text/javascript")], "continueRequest"),
        ([], "continueRequest"),
    ],
)
@coroutine_test
async def test_a_file_of_speculation_rules(
    headers: list[tuple[str, str]], answer: str
) -> None:
    """Chromium gets no file of speculation rules, and other files as they are."""
    mw, _ = crawl(**OURS)
    browser = Browser()
    await watched(mw, Page(Context(browser)))
    event = {
        "request": {"url": PUBLIC},
        "resourceType": "Other",
        "responseStatusCode": 200,
        "responseHeaders": [{"name": name, "value": value} for name, value in headers],
    }
    assert await answers(browser.sessions[0], event) == [f"Fetch.{answer}"]


@coroutine_test
async def test_a_browser_without_a_session() -> None:
    """In Firefox and WebKit, what Playwright reports is checked, with the first request of a
    popup.
    """
    mw, _ = crawl(**OURS)
    page: Any = Page(Context())
    request = await watched(mw, page)
    assert not await is_aborted(PUBLIC, page)
    assert await is_aborted(PRIVATE, page, is_page=False)
    mw.process_exception(request, RuntimeError("timed out"))
    assert await is_aborted(PRIVATE, page)
    with pytest.raises(RobotsDenied):
        mw.process_exception(request, RuntimeError("aborted"))
    (handler,) = page.context.routes
    route = Route()
    for url in (PUBLIC, PRIVATE):
        await handler(route, BrowserRequest(url))
    assert route.answers == ["continue", "abort"]


@pytest.mark.parametrize("browser", [Browser, lambda: None])
@coroutine_test
async def test_a_page_that_closes(browser: Callable[[], Browser | None]) -> None:
    """When a page closes, its requests no longer wait for a robots.txt, and the fetch of that
    file ends unless another page needs it.
    """
    mw, crawler = crawl(**OURS)
    fetches: list[Deferred[Any]] = []
    began: Deferred[None] = Deferred()
    ended: Deferred[None] = Deferred()

    def hang() -> Deferred[Any]:
        fetches.append(Deferred(lambda _: ended.callback(None)))
        if len(fetches) == 2:
            began.callback(None)
        return fetches[-1]

    silent, busy = "http://silent.example/", "http://busy.example/"
    for each in (silent, busy):
        crawler.engine.answers[f"{each}robots.txt"] = hang
    context = Context(browser())
    one, other = Page(context), Page(context)
    await watched(mw, one)
    await watched(mw, other)
    tasks: list[asyncio.Future[Any]] = []

    async def ask(url: str, page: Any) -> None:
        check = playwright._PAGES[page]._browser.may_fetch(url, playwright._PAGES[page])
        tasks.append(asyncio.ensure_future(check))
        await asyncio.sleep(0)

    for url, page in ((silent, one), (busy, one), (busy, other)):
        await ask(url, page)
    await asyncio.wait_for(maybe_deferred_to_future(began), 60)
    one.close()
    assert not await tasks[0]
    assert not await tasks[1]
    await maybe_deferred_to_future(ended)
    assert not fetches[1].called
    fetches[1].callback(answer(f"{busy}robots.txt", b""))
    assert await tasks[2]
    other.close()
    assert not playwright._PAGES.keys() & {one, other}


@coroutine_test
async def test_a_callback_of_the_spider_for_its_page() -> None:
    """The page init callback of a request is called after that of the package, even if the
    crawl of the page is unknown.
    """
    mw, _ = crawl(**OURS)
    name = f"{__name__}.own_callback"
    key = "playwright_page_init_callback"
    request = Request(PUBLIC, meta={"playwright": True, key: name})
    await mw.process_request(request)
    assert request.meta[key] == browsers.WATCH_PAGE
    page: Any = Page(Context())
    await watch_page(page, request)
    assert len(page.context.routes) == 1
    # A retry copies the request.
    again = request.replace(dont_filter=True)
    unknown: Any = Page(Context())
    await watch_page(unknown, again)
    assert unknown.context.routes == []
    await mw.process_request(again)
    assert [(one, each) for one, each in calls] == [(page, request), (unknown, again)]
    assert again.meta[key] == browsers.WATCH_PAGE


@coroutine_test
async def test_a_predicate_that_does_not_ask(caplog: pytest.LogCaptureFixture) -> None:
    """If the project has its own predicate and that does not check robots.txt, one warning
    says so.
    """
    mw, _ = crawl(PLAYWRIGHT_ABORT_REQUEST="project.abort")

    async def download() -> None:
        request = Request(PUBLIC, meta={"playwright": True})
        await mw.process_request(request)
        assert "playwright_page_init_callback" not in request.meta
        response = HtmlResponse(PUBLIC, flags=["playwright"], request=request)
        await mw.process_response(request, response)

    for _ in range(2):
        await download()
    assert caplog.text.count("project.abort") == 1

    caplog.clear()
    mw, _ = crawl(PLAYWRIGHT_ABORT_REQUEST="project.abort")
    browsers._BY_CRAWLER.clear()
    browsers.register(mw._crawler, mw._browsers)
    assert await is_aborted(PRIVATE)
    response = HtmlResponse(PUBLIC, flags=["playwright"])
    request = Request(PUBLIC, meta={"playwright": True})
    await mw.process_response(request, response)
    assert "project.abort" not in caplog.text


# The URL of the response.


@pytest.mark.parametrize(("path", "is_used"), [("/used/a", False), ("/free/a", True)])
@coroutine_test
async def test_what_the_site_states_of_where_it_arrives(
    path: str, is_used: bool
) -> None:
    """After a redirect in the browser, the usage preferences for the URL of the response
    count, not those for the URL of the request.
    """
    mw, crawler = crawl(REP_PURPOSES=["train-ai"], REP_AGENTS={})
    reader = IndexingMiddleware.from_crawler(crawler)
    other = "/free/a" if path == "/used/a" else "/used/a"
    request = Request(f"{SITE}{other}", meta={"playwright": True})
    mw._browsers._purposes.note(request, RobotsTxt.parse(ROBOTS), None)
    response = HtmlResponse(f"{SITE}{path}", flags=["playwright"], request=request)
    await mw.process_response(request, response)
    reader.process_response(request, response)
    denial = request.meta["rep_usage"].denial(["train-ai"])
    assert (denial is None) is is_used
