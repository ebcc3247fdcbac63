"""Makes the browser of scrapy-playwright obey robots.txt. A project enables this by the setting::

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

# The error reason with which Chromium fails a forbidden request. "Aborted" cannot be used, because scrapy-playwright
# takes it for the download of a file.
_ERROR_REASON = "BlockedByClient"

# Speculation rules let Chromium prefetch and prerender pages. These requests cannot be checked, because no DevTools
# session reports them. Therefore, files with speculation rules are refused by their media type, and speculation rules
# in a document are removed before Chromium applies them
# (https://html.spec.whatwg.org/multipage/speculative-loading.html).
_SPECULATION_RULES = "application/speculationrules+json"
_REMOVE_SPECULATION_RULES = """new MutationObserver((records) => {
  for (const { addedNodes } of records)
    for (const node of addedNodes)
      for (const script of [node, ...(node.querySelectorAll?.("script") ?? [])])
        if (script.localName === "script" && script.type === "speculationrules")
          script.remove();
}).observe(document, { childList: true, subtree: true });"""

# Chromium pauses the requests and responses that match these patterns, until they are checked: all requests, and the
# responses that may be files with speculation rules.
_PATTERNS = [
    {"urlPattern": "*"},
    {"urlPattern": "*", "resourceType": "Other", "requestStage": "Response"},
]


async def abort_forbidden(request: Request) -> bool:
    """Return True if Playwright must abort *request*, because the robots.txt of its origin forbids the URL or is
    unreachable. The function waits until robots.txt is fetched.

    Also return True if the page or the spider closes during the wait, if the check fails with an error, or if it is
    not known to which crawl the browser belongs. In Chromium, return False for each request of a page, because a
    DevTools session checks these requests.
    """
    page = None
    # Some requests do not belong to a page, for example requests of service workers and the first request of a popup.
    # For these, Playwright raises an exception of a private class.
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
    """Start to check the requests of *page* and its browser against robots.txt, before *page* loads *request*.

    In a crawl that uses :func:`abort_forbidden`, PlaywrightMiddleware puts this function into the meta key
    ``playwright_page_init_callback`` of each request for the browser. So scrapy-playwright calls it for each of these
    requests. If the spider had set a callback of its own in this meta key, this function calls that callback at the
    end.
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
        "scrapy-rep aborts requests of a browser, because it cannot tell which crawl they belong to, and "
        "whether this crawl obeys robots.txt. Check that scrapy_rep.Addon is in ADDONS, and run only one "
        "crawl with a browser in each process"
    )


class PlaywrightMiddleware:
    """Checks the requests of scrapy-playwright's browser against robots.txt.

    Scrapy's middlewares see only the requests of the spider. The browser sends further requests when it follows
    redirects, runs scripts, or loads images and frames.
    """

    ORDER = 594
    """The order in ``DOWNLOADER_MIDDLEWARES``. ArrivalMiddleware (595) sees responses and errors before this
    middleware, and judges the URL that a browser reached after redirects."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._logger = CrawlLog(__name__, crawler)
        self._denied: WeakKeyDictionary[scrapy.Request, RobotsDenied] = (
            WeakKeyDictionary()
        )
        """The exception to raise for a request of the spider, if a redirect or a script has led the browser from the
        URL of the request to a URL that robots.txt forbids. The keys are the requests. An entry is removed when the
        browser's response or failure for the request arrives."""

        self._loop: asyncio.AbstractEventLoop | None = None
        """The event loop of the crawl. None before the crawl's first request for the browser."""

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
        """The gate, which judges requests by robots.txt. None if the crawl ignores robots.txt or is a dry run."""
        return gate_of(self._crawler)

    def process_request(self, request: scrapy.Request) -> None:
        """Set :func:`watch_page` as the page init callback of *request*. Change nothing if *request* is not for the
        browser, or if the project does not use :func:`abort_forbidden`.
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
        """Restore the page init callback that :meth:`process_request` replaced in ``request.meta``. Otherwise, the
        spider's page init callback would be missing in a serialised request, and in a retry, which copies the meta.
        """
        if request.meta.get(PAGE_INIT_META) != WATCH_PAGE:
            return
        callback = _PAGE_INIT.pop(request, None)
        if callback is None:
            del request.meta[PAGE_INIT_META]
        else:
            request.meta[PAGE_INIT_META] = callback

    def process_response(self, request: scrapy.Request, response: Response) -> Response:
        """Return *response*. Raises RobotsDenied if robots.txt forbids the page. In this case, *response* is only an
        error page of the browser.
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
        """Warn if ``PLAYWRIGHT_ABORT_REQUEST`` is a function of the project that does not call
        :func:`abort_forbidden`, so that the browser may fetch forbidden URLs. The warning is logged once.
        """
        predicate = abort_setting(self._crawler.settings)
        if self._is_asked or self._has_warned or predicate is None:
            return
        self._has_warned = True
        self._logger.warning(
            "PLAYWRIGHT_ABORT_REQUEST is %(value)r, which does not await %(ours)s, so the "
            "browser may fetch URLs that robots.txt forbids. Set PLAYWRIGHT_ABORT_REQUEST to "
            "%(ours)s, or await %(ours)s in your function",
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
        """Wait until robots.txt is fetched, and return whether the browser may fetch *url*.

        :param cause: the spider's request for the page that needs *url*; None if it is not known
        :param page: the URL of the page that needs *url*; empty if it is not known
        :param is_top: whether *url* is the page itself, not a part of the page such as an image. If robots.txt forbids
            the page itself, the errback of *cause* receives RobotsDenied
        """
        self._is_asked = True
        if self.gate is None:
            return True
        check = self.gate.refusal_of(url, cause, page)
        if self._loop in {None, asyncio.get_running_loop()}:
            refusal = await check
        else:
            # scrapy-playwright may run the browser in the event loop of another thread, but robots.txt must be
            # fetched in the event loop of the crawl.
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
    """Checks the requests of one browser against robots.txt.

    ``PLAYWRIGHT_ABORT_REQUEST`` is not enough. Playwright reports no requests that follow a redirect, and no requests
    that come from a shared worker or a closing page. scrapy-playwright reports no requests of popups.

    In Chromium, a DevTools session with the browser (as opposed to a page) reports every HTTP request, so this class
    opens such a session and checks all requests. Firefox and WebKit do not support DevTools sessions. There, this class
    checks the requests that :func:`abort_forbidden` passes on, and the requests of popups.
    """

    def __init__(self, guard: PlaywrightMiddleware) -> None:
        self._guard = guard
        self.has_session = False
        self._frames: dict[str, _WatchedPage] = {}
        """The page to which each frame belongs, by Chromium's frame ID."""

        self._checks: dict[asyncio.Future[bool], set[_WatchedPage]] = {}
        """The checks in progress, each with the open pages that may need its result. A check is cancelled when the
        last of these pages closes."""

        self._answers: set[asyncio.Future[None]] = set()

    @classmethod
    async def of(cls, guard: PlaywrightMiddleware, context: BrowserContext) -> _Browser:
        """Return the object that checks the requests of *context*'s browser. Before this method returns, it opens a
        DevTools session, or adds routes if the browser supports no session, so that the first page is checked too.
        """
        key = context.browser or context
        if key not in _BROWSERS:
            _BROWSERS[key] = asyncio.ensure_future(cls(guard)._open(context.browser))
        browser = await _BROWSERS[key]
        if context not in _CONTEXTS:
            _CONTEXTS[context] = asyncio.ensure_future(
                context.add_init_script(_REMOVE_SPECULATION_RULES)
                if browser.has_session
                # Needed for popups, since scrapy-playwright checks only the requests of pages that it opened itself.
                else context.route("**", browser._route_popup)
            )
        await _CONTEXTS[context]
        return browser

    async def _open(self, browser: Browser | None) -> _Browser:
        """Open a DevTools session in which Chromium pauses each request for a check. For other browsers, open no
        session. Return this object.
        """
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
        """Wait until robots.txt is fetched, and return whether it allows *url*. Return False if the page that needs
        *url* closes first.

        :param page: the page that needs *url*; None if it can be any page of the browser
        :param is_top: whether *url* is the page itself, not a part of the page
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
        """Record that *frame* belongs to *page*, so that requests of *frame* count as requests of *page*."""
        self._frames[frame] = page

    def remove_frame(self, frame: str) -> None:
        """Record that *frame* no longer belongs to a page, because it was removed from its page."""
        self._frames.pop(frame, None)

    def forget(self, page: _WatchedPage) -> None:
        """Forget the frames of *page*, which was closed, and cancel the running robots.txt checks for *page*. If
        several open pages can need the result of a check, it is cancelled only when the last of these pages is closed.
        """
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
        """Let the paused request or response of *event* continue if it is allowed. Otherwise, make it fail."""
        answer: dict[str, Any] = {"requestId": event["requestId"]}
        if not await self._is_allowed(event):
            answer["errorReason"] = _ERROR_REASON
        method = "failRequest" if "errorReason" in answer else "continueRequest"
        # send() fails if the page was closed during the check.
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
        # Both calls fail if the page was closed during the check.
        with suppress(Exception):
            if await self.may_fetch(request.url, None):
                await route.continue_()
            else:
                await route.abort("blockedbyclient")


class _WatchedPage:
    """A page that scrapy-playwright opened. The requests of the page are checked against robots.txt."""

    def __init__(self, page: Page, browser: _Browser) -> None:
        self._page = page
        self._browser = browser
        self.cause: scrapy.Request | None = None
        """The spider's request that the page loads. None before the first load."""

        self.main_frame = ""

    @classmethod
    async def open(cls, page: Page, guard: PlaywrightMiddleware) -> _WatchedPage:
        """Start to watch the requests of *page*, and return the watched page. This method must be called before
        *page* loads anything, since Chromium does not report requests that are already in flight.
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
        """The URL that the page shows. If this is not an http or https URL, for example before the first load, the URL
        of the spider's request.
        """
        url = self._page.url
        return url if self.cause is None or url.startswith("http") else self.cause.url

    def begin_load(self, cause: scrapy.Request) -> None:
        """Record that the page is about to load *cause*, a request from the spider."""
        self.cause = cause

    async def may_send(self, request: Request) -> bool:
        """Return whether the page may send *request*. If the browser has a DevTools session, always return True,
        because that session checks the request. Otherwise, return whether robots.txt allows the URL.
        """
        if self._browser.has_session:
            return True
        is_main_frame = request.frame == self._page.main_frame
        is_top = is_main_frame and request.is_navigation_request()
        return await self._browser.may_fetch(request.url, self, is_top=is_top)

    def _add_frame(self, event: dict[str, Any]) -> None:
        self._browser.add_frame(event["frameId"], self)

    def _remove_frame(self, event: dict[str, Any]) -> None:
        # If the reason is "swap", the frame only moves to another process and keeps its ID.
        if event["reason"] == "remove":
            self._browser.remove_frame(event["frameId"])

    def _forget(self, page: Page) -> None:
        _PAGES.pop(page, None)
        self._browser.forget(self)


_GUARDS: WeakKeyDictionary[Crawler, PlaywrightMiddleware] = WeakKeyDictionary()
"""The PlaywrightMiddleware of each crawl in this process. It is needed because scrapy-playwright does not pass the
crawler to :func:`abort_forbidden`."""

_BY_REQUEST: WeakKeyDictionary[scrapy.Request, PlaywrightMiddleware] = (
    WeakKeyDictionary()
)
"""For each request that a browser is to load, the PlaywrightMiddleware of the request's crawl."""

_PAGE_INIT: WeakKeyDictionary[scrapy.Request, Any] = WeakKeyDictionary()
"""The ``playwright_page_init_callback`` that the spider set for each request in flight. The request's meta contains
:func:`watch_page` in its place. The value is None if the spider set no callback."""

_PAGES: dict[Page, _WatchedPage] = {}

_BROWSERS: WeakKeyDictionary[Browser | BrowserContext, asyncio.Future[_Browser]] = (
    WeakKeyDictionary()
)

_CONTEXTS: WeakKeyDictionary[BrowserContext, asyncio.Future[Any]] = WeakKeyDictionary()
