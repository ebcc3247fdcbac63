"""Makes the browser of scrapy-playwright obey robots.txt, with this setting of the project::

PLAYWRIGHT_ABORT_REQUEST = "scrapy_rep.playwright.abort_forbidden"
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import scrapy
from scrapy import signals
from scrapy.utils.misc import load_object

from scrapy_rep.base.browsers import (
    ABORT_FORBIDDEN,
    PAGE_INIT_META,
    abort_setting,
    is_for_browser,
    is_from_browser,
)
from scrapy_rep.base.log import CrawlLog, get_logger
from scrapy_rep.base.requests import is_of_http
from scrapy_rep.crawl.gate import gate_of
from scrapy_rep.exceptions import RobotsDenied

if TYPE_CHECKING:
    from playwright.async_api import (
        Browser,
        BrowserContext,
        CDPSession,
        Page,
        Request,
        Route,
    )
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_rep.crawl.gate import BrowserGate

logger = get_logger(__name__)

WATCH_PAGE = "scrapy_rep.playwright.watch_page"

# The reason with which a forbidden request fails in Chromium. Not "Aborted", which scrapy-playwright takes for the
# download of a file.
_ERROR_REASON = "BlockedByClient"

# Speculation rules let Chromium prefetch and prerender pages by requests that no DevTools session reports, so they
# could not be checked. Therefore, files of such rules are refused by their media type, and rules in a document are
# removed before Chromium applies them (https://html.spec.whatwg.org/multipage/speculative-loading.html).
_SPECULATION_RULES = "application/speculationrules+json"
_REMOVE_SPECULATION_RULES = """new MutationObserver((records) => {
  for (const { addedNodes } of records)
    for (const node of addedNodes)
      for (const script of [node, ...(node.querySelectorAll?.("script") ?? [])])
        if (script.localName === "script" && script.type === "speculationrules")
          script.remove();
}).observe(document, { childList: true, subtree: true });"""

# What Chromium pauses until it is checked: all requests, and the responses that may be files of speculation rules.
_PATTERNS = [
    {"urlPattern": "*"},
    {"urlPattern": "*", "resourceType": "Other", "requestStage": "Response"},
]


async def abort_forbidden(request: Request) -> bool:
    """Return True if Playwright must abort *request*, because the robots.txt of its origin forbids the URL or is
    unreachable. Wait until robots.txt is known.

    Also return True if the page or the spider closes meanwhile, after an error, and if it is unknown to which
    crawl the browser belongs. Return False for Chromium, since its requests are checked in a DevTools
    session.
    """
    page = None
    # Playwright raises an exception of a private class if the request has no page, as those of service workers and
    # the first one of a popup.
    with suppress(Exception):
        page = _PAGES.get(request.frame.page)
    if page is not None:
        return not await page.may_send(request)
    guards = list(_GUARDS.values())
    if guards and all(guard.gate is None for guard in guards):
        return False  # All crawls of this process that use a browser ignore robots.txt: abort nothing.
    if len(guards) != 1:
        _warn_of_unknown_crawl()
        return True
    return not await guards[0].may_fetch(request.url)


async def watch_page(page: Page, request: scrapy.Request) -> None:
    """Start to check the requests of *page* and its browser, before the page loads *request*.

    scrapy-playwright calls this function for each request of a crawl that uses :func:`abort_forbidden`, as
    the ``playwright_page_init_callback``. At its end, it calls the callback that the spider had set there.
    """
    guard = _BY_REQUEST.get(request)
    if guard is not None:
        if page not in _PAGES:
            _PAGES[page] = await _WatchedPage.open(page, guard)
        _PAGES[page].begin_load(request)
    callback = _PAGE_INIT.get(request)
    if callback is not None:
        await load_object(callback)(page, request)


@cache
def _warn_of_unknown_crawl() -> None:
    logger.error(
        "scrapy-rep aborts requests of a browser, because it is unknown to which crawl they "
        "belong, and so whether robots.txt must be obeyed. Check that scrapy_rep.Addon is in ADDONS"
    )


class PlaywrightMiddleware:
    """Judges the requests of the browser of scrapy-playwright by robots.txt.

    The middlewares of Scrapy see only the requests of the spider. The browser sends many more, when it follows
    redirects, runs scripts, and loads images and frames.
    """

    ORDER = 594
    """The order in ``DOWNLOADER_MIDDLEWARES``. Responses and errors come here after ArrivalMiddleware (595), which
    judges the URL to which a browser was redirected."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._logger = CrawlLog(__name__, crawler)
        self._denied: WeakKeyDictionary[scrapy.Request, RobotsDenied] = (
            WeakKeyDictionary()
        )
        """The refusals of pages that the browser loads, by the request of the spider, until its response or error
        comes."""

        self._loop: asyncio.AbstractEventLoop | None = None
        """The event loop of the crawl; None before its first request for a browser."""

        self._is_asked = False
        self._has_warned = False
        _GUARDS[crawler] = self
        crawler.signals.connect(self._spider_closed, signals.spider_closed)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> PlaywrightMiddleware:
        return cls(crawler)

    def _spider_closed(self) -> None:
        _GUARDS.pop(self._crawler, None)

    @cached_property
    def gate(self) -> BrowserGate | None:
        """The gate that judges requests by robots.txt; None if the crawl ignores robots.txt."""
        return gate_of(self._crawler)

    def process_request(self, request: scrapy.Request) -> None:
        """Set :func:`watch_page` as the page init callback of *request*, if it is for the browser and the project uses
        :func:`abort_forbidden`.
        """
        if not is_for_browser(request) or self.gate is None:
            return
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        if self._is_asked or _is_ours(abort_setting(self._crawler.settings)):
            _BY_REQUEST[request] = self
            callback = request.meta.get(PAGE_INIT_META)
            if callback != WATCH_PAGE:
                _PAGE_INIT[request] = callback
            request.meta[PAGE_INIT_META] = WATCH_PAGE

    @staticmethod
    def _restore_meta(request: scrapy.Request) -> None:
        """Undo the change of :meth:`process_request` to ``request.meta``, since projects serialise meta, and retries
        copy it.
        """
        if request.meta.get(PAGE_INIT_META) != WATCH_PAGE:
            return
        callback = _PAGE_INIT.pop(request, None)
        if callback is None:
            del request.meta[PAGE_INIT_META]
        else:
            request.meta[PAGE_INIT_META] = callback

    def process_response(self, request: scrapy.Request, response: Response) -> Response:
        """Return *response*, or raise RobotsDenied if robots.txt forbids the page. In this case, *response* is only
        an error page of the browser.
        """
        self._restore_meta(request)
        denied = self._denied.pop(request, None)
        if denied is not None and not is_of_http(response):
            raise denied
        if is_from_browser(response) and self.gate is not None:
            self._warn_of_own_predicate()
        return response

    def process_exception(self, request: scrapy.Request, exception: Exception) -> None:
        """Raise RobotsDenied in place of *exception* if the browser failed because robots.txt forbids the page."""
        self._restore_meta(request)
        denied = self._denied.pop(request, None)
        if denied is not None:
            raise denied

    def _warn_of_own_predicate(self) -> None:
        """Warn, once, if ``PLAYWRIGHT_ABORT_REQUEST`` is a function of the project that never calls
        :func:`abort_forbidden`, so that the browser may fetch forbidden URLs.
        """
        predicate = abort_setting(self._crawler.settings)
        if self._is_asked or self._has_warned or predicate is None:
            return
        self._has_warned = True
        self._logger.warning(
            "PLAYWRIGHT_ABORT_REQUEST is %(value)r, which does not await %(ours)s, so that the "
            "browser may fetch URLs that robots.txt forbids. Set PLAYWRIGHT_ABORT_REQUEST to "
            "%(ours)s, or await that function in yours.",
            value=predicate,
            ours=ABORT_FORBIDDEN,
        )

    async def may_fetch(
        self,
        url: str,
        cause: scrapy.Request | None = None,
        page: str = "",
        *,
        is_top: bool = False,
    ) -> bool:
        """Return whether the browser may fetch *url*, when robots.txt is known.

        :param cause: the request of the spider for the page that needs *url*; None if it is not known
        :param page: the URL of that page
        :param is_top: whether *url* is the page itself, and not a part of it. The errback of *cause* then gets a
            refusal
        """
        self._is_asked = True
        if self.gate is None:
            return True
        check = self.gate.refusal_of(url, cause, page)
        if self._loop in {None, asyncio.get_running_loop()}:
            refusal = await check
        else:
            # scrapy-playwright may run the browser in the event loop of another thread; robots.txt is fetched in
            # that of the crawl.
            call = asyncio.run_coroutine_threadsafe(check, self._loop)
            refusal = await asyncio.wrap_future(call)
        if is_top and cause is not None and isinstance(refusal, RobotsDenied):
            self._denied[cause] = refusal
        return refusal is None


def _is_ours(predicate: object) -> bool:
    """Whether *predicate*, the value of ``PLAYWRIGHT_ABORT_REQUEST``, is :func:`abort_forbidden`."""
    if isinstance(predicate, str):
        return predicate == ABORT_FORBIDDEN
    name = getattr(predicate, "__qualname__", "")
    return f"{getattr(predicate, '__module__', '')}.{name}" == ABORT_FORBIDDEN


class _Browser:
    """Checks all requests of one browser by robots.txt.

    Playwright itself does not report requests after redirects, of shared workers, and of closing pages, and
    scrapy-playwright does not ask about popups. Chromium reports every HTTP request in a DevTools session with
    the browser (not with a page), which this class uses. Firefox and WebKit have no DevTools session: there, only
    the requests of popups are checked in addition.
    """

    def __init__(self, guard: PlaywrightMiddleware) -> None:
        self._guard = guard
        self.has_session = False
        self._frames: dict[str, _WatchedPage] = {}
        """The page to which each frame belongs, by the frame ID of Chromium."""

        self._checks: dict[asyncio.Future[bool], set[_WatchedPage]] = {}
        """Each check in progress, with the open pages that may need its result. When the last of them closes, the
        check is cancelled."""

        self._answers: set[asyncio.Future[None]] = set()

    @classmethod
    async def of(cls, guard: PlaywrightMiddleware, context: BrowserContext) -> _Browser:
        """Return the watched browser of *context*, after its DevTools session or its routes are set up, so that pages
        can be loaded.
        """
        key = context.browser or context
        if key not in _BROWSERS:
            _BROWSERS[key] = asyncio.ensure_future(cls(guard)._open(context.browser))
        browser = await _BROWSERS[key]
        if context not in _CONTEXTS:
            _CONTEXTS[context] = asyncio.ensure_future(
                context.add_init_script(_REMOVE_SPECULATION_RULES)
                if browser.has_session
                # Needed for popups: scrapy-playwright asks only about requests of pages that it opened itself.
                else context.route("**", browser._route_popup)
            )
        await _CONTEXTS[context]
        return browser

    async def _open(self, browser: Browser | None) -> _Browser:
        """Open a DevTools session with *browser*, if it is Chromium, and let it pause each request for a check."""
        with suppress(Exception):
            assert browser is not None
            session = await browser.new_browser_cdp_session()
            session.on("Fetch.requestPaused", partial(self._on_paused, session))
            await session.send("Fetch.enable", {"patterns": _PATTERNS})
            self.has_session = True
        return self

    async def may_fetch(
        self, url: str, page: _WatchedPage | None, *, is_top: bool = False
    ) -> bool:
        """Return whether robots.txt allows *url*, when it is known. Return False if the page that needs *url* closes
        first.

        :param page: the page that needs *url*; None if it can be any page of the browser
        :param is_top: whether *url* is the page itself
        """
        page_url, cause = ("", None) if page is None else (page.url, page.cause)
        check = self._guard.may_fetch(url, cause, page_url, is_top=is_top)
        task = asyncio.ensure_future(check)
        self._checks[task] = set(self._frames.values()) if page is None else {page}
        try:
            await asyncio.wait([task])
        finally:
            del self._checks[task]
            task.cancel()
        return not task.cancelled() and task.result()

    def add_frame(self, frame: str, page: _WatchedPage) -> None:
        """Note that *frame* belongs to *page*, and so do its requests."""
        self._frames[frame] = page

    def remove_frame(self, frame: str) -> None:
        """Forget *frame*, which was removed from its page."""
        self._frames.pop(frame, None)

    def forget(self, page: _WatchedPage) -> None:
        """Forget the closed *page*: its frames, and the checks that no other page needs."""
        self._frames = {
            frame: owner for frame, owner in self._frames.items() if owner is not page
        }
        for task, pages in self._checks.items():
            if pages == {page}:
                task.cancel()
            pages.discard(page)

    def _on_paused(self, session: CDPSession, event: dict[str, Any]) -> None:
        answer = asyncio.ensure_future(self._answer(session, event))
        self._answers.add(answer)
        answer.add_done_callback(self._answers.discard)

    async def _answer(self, session: CDPSession, event: dict[str, Any]) -> None:
        """Let the paused request or response of *event* continue if it is allowed; else fail it."""
        answer: dict[str, Any] = {"requestId": event["requestId"]}
        if not await self._is_allowed(event):
            answer["errorReason"] = _ERROR_REASON
        method = "failRequest" if "errorReason" in answer else "continueRequest"
        # Sending fails if the page was closed meanwhile.
        with suppress(Exception):
            await session.send(f"Fetch.{method}", answer)

    async def _is_allowed(self, event: dict[str, Any]) -> bool:
        if {"responseStatusCode", "responseErrorReason"} & event.keys():
            headers = event.get("responseHeaders", ())
            types = [h["value"] for h in headers if h["name"].lower() == "content-type"]
            return not any(_SPECULATION_RULES in kind.lower() for kind in types)
        page = self._frames.get(event["frameId"])
        is_main_frame = page is not None and page.main_frame == event["frameId"]
        is_top = is_main_frame and event["resourceType"] == "Document"
        return await self.may_fetch(event["request"]["url"], page, is_top=is_top)

    async def _route_popup(self, route: Route, request: Request) -> None:
        # Both calls fail if the page was closed meanwhile.
        with suppress(Exception):
            if await self.may_fetch(request.url, None):
                await route.continue_()
            else:
                await route.abort("blockedbyclient")


class _WatchedPage:
    """A page that scrapy-playwright has opened. Its requests are checked by robots.txt."""

    def __init__(self, page: Page, browser: _Browser) -> None:
        self._page = page
        self._browser = browser
        self.cause: scrapy.Request | None = None
        """The request of the spider that the page loads."""

        self.main_frame = ""

    @classmethod
    async def open(cls, page: Page, guard: PlaywrightMiddleware) -> _WatchedPage:
        """Return the watched page for *page*. Call it before *page* loads anything, since Chromium does not report
        requests that are already in flight.
        """
        self = cls(page, await _Browser.of(guard, page.context))
        page.once("close", self._forget)
        # These calls fail in Firefox and WebKit, which have no DevTools sessions.
        with suppress(Exception):
            session = await page.context.new_cdp_session(page)
            session.on("Page.frameAttached", self._add_frame)
            session.on("Page.frameDetached", self._remove_frame)
            await session.send("Page.enable")
            tree = await session.send("Page.getFrameTree")
            self.main_frame = tree["frameTree"]["frame"]["id"]
            self._add_frame({"frameId": self.main_frame})
        return self

    @property
    def url(self) -> str:
        """The URL that the page shows; before its first load, the URL that the spider has requested."""
        url = self._page.url
        return url if self.cause is None or url.startswith("http") else self.cause.url

    def begin_load(self, cause: scrapy.Request) -> None:
        """Note that the page is about to load *cause*, a request of the spider."""
        self.cause = cause

    async def may_send(self, request: Request) -> bool:
        """Return whether robots.txt allows *request*; True if a DevTools session checks the request instead."""
        if self._browser.has_session:
            return True
        is_main_frame = request.frame == self._page.main_frame
        is_top = is_main_frame and request.is_navigation_request()
        return await self._browser.may_fetch(request.url, self, is_top=is_top)

    def _add_frame(self, event: dict[str, Any]) -> None:
        self._browser.add_frame(event["frameId"], self)

    def _remove_frame(self, event: dict[str, Any]) -> None:
        # With another reason, the frame only moves to another process, and keeps its ID.
        if event["reason"] == "remove":
            self._browser.remove_frame(event["frameId"])

    def _forget(self, page: Page) -> None:
        _PAGES.pop(page, None)
        self._browser.forget(self)


_GUARDS: WeakKeyDictionary[Crawler, PlaywrightMiddleware] = WeakKeyDictionary()
"""The PlaywrightMiddleware of each crawl in this process. scrapy-playwright calls :func:`abort_forbidden` without
saying for which crawl."""

_BY_REQUEST: WeakKeyDictionary[scrapy.Request, PlaywrightMiddleware] = (
    WeakKeyDictionary()
)
"""The PlaywrightMiddleware of the crawl to which each request for a browser belongs."""

_PAGE_INIT: WeakKeyDictionary[scrapy.Request, Any] = WeakKeyDictionary()
"""The ``playwright_page_init_callback`` that the spider has set for each request in flight, and that
:func:`watch_page` replaces meanwhile; None if the spider has set none."""

_PAGES: dict[Page, _WatchedPage] = {}

_BROWSERS: WeakKeyDictionary[Browser | BrowserContext, asyncio.Future[_Browser]] = (
    WeakKeyDictionary()
)

_CONTEXTS: WeakKeyDictionary[BrowserContext, asyncio.Future[Any]] = WeakKeyDictionary()
