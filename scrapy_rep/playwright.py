"""Makes the browser of scrapy-playwright obey robots.txt.

In the settings of a project::

    PLAYWRIGHT_ABORT_REQUEST = "scrapy_rep.playwright.abort_forbidden"
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import cache, partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from scrapy.utils.misc import load_object

from scrapy_rep.base.log import get_logger
from scrapy_rep.base.meta import PAGE_INIT
from scrapy_rep.crawl.gate.browsers import Browsers, browsers_of, open_crawls

if TYPE_CHECKING:
    from collections.abc import Coroutine

    import scrapy
    from playwright.async_api import (
        Browser,
        BrowserContext,
        CDPSession,
        Page,
        Request,
        Route,
    )

logger = get_logger(__name__)

# The error reason that Chromium gets for a refused request. scrapy-playwright would take a
# navigation that fails with "Aborted" for the download of a file.
_REFUSED = "BlockedByClient"

# What speculation rules prefetch or prerender is in no DevTools session. So files of rules are
# refused by their media type, and rules in a document are removed before Chromium applies them
# (https://html.spec.whatwg.org/multipage/speculative-loading.html).
_SPECULATION_RULES = "application/speculationrules+json"
_REMOVE_SPECULATION_RULES = """new MutationObserver((records) => {
  for (const { addedNodes } of records)
    for (const node of addedNodes)
      for (const script of [node, ...(node.querySelectorAll?.("script") ?? [])])
        if (script.localName === "script" && script.type === "speculationrules")
          script.remove();
}).observe(document, { childList: true, subtree: true });"""

# All requests, and the responses among which the files of speculation rules are.
_PATTERNS = [
    {"urlPattern": "*"},
    {"urlPattern": "*", "resourceType": "Other", "requestStage": "Response"},
]


async def abort_forbidden(request: Request) -> bool:
    """Return True if Playwright must abort *request*: robots.txt of its origin forbids the
    URL, or is unreachable.

    Waits until robots.txt is known. Also returns True if the page or the spider closes
    meanwhile, after an error, and if it cannot find out which crawl the browser belongs to.
    Returns False for Chromium, which reports its requests in a DevTools session.
    """
    page = None
    # Playwright raises an error of a private class if the request has no page: the requests
    # of a service worker, and the first request of a popup.
    with suppress(Exception):
        page = _PAGES.get(request.frame.page)
    if page is not None:
        return not await page.may_send(request)
    crawls = open_crawls()
    if crawls and not any(crawls):  # No crawl in this process obeys robots.txt.
        return False
    browsers = crawls[0] if len(crawls) == 1 else None
    if browsers is None:
        _warn_of_unknown_crawl()
        return True
    return not await _in_crawl_loop(browsers, browsers.may_fetch(request.url, ""))


async def watch_page(page: Page, request: scrapy.Request) -> None:
    """Check the requests of *page* and its browser from now on. The page is about to load
    *request*.

    scrapy-playwright calls this function: a crawl that uses :func:`abort_forbidden` sets it
    as the ``playwright_page_init_callback`` of its requests. It calls the spider's own
    callback, if there is one, at its end.
    """
    browsers = browsers_of(request)
    if browsers is not None:
        if page not in _PAGES:
            _PAGES[page] = await _Page.open(page, browsers)
        _PAGES[page].cause = request
    callback = request.meta.get(PAGE_INIT)
    if callback is not None:
        await load_object(callback)(page, request)


async def _in_crawl_loop(browsers: Browsers, check: Coroutine[Any, Any, bool]) -> bool:
    """Run *check* in the event loop of the crawl, and return its result."""
    loop = browsers.loop
    if loop is None or loop is asyncio.get_running_loop():
        return await check
    # scrapy-playwright may run its browser in the event loop of another thread.
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(check, loop))


@cache
def _warn_of_unknown_crawl() -> None:
    logger.error(
        "scrapy-rep aborts requests of a browser, because it does not know which crawl "
        "they belong to. Is scrapy_rep.Addon in ADDONS?"
    )


class _Browser:
    """Checks the requests of one browser.

    Playwright does not report redirects, nor the requests of shared workers and of pages that are
    closing; scrapy-playwright does not ask about popups. Chromium reports all HTTP requests in a
    DevTools session with the browser, as opposed to a session with a page. Firefox and WebKit have
    no such session.
    """

    def __init__(self, browsers: Browsers) -> None:
        self._browsers = browsers
        self.has_session = False
        self.frames: dict[str, _Page] = {}
        """The page of each frame, by the ID that Chromium gave the frame."""

        self._checks: dict[asyncio.Future[bool], set[_Page]] = {}
        """The checks in progress, each with the open pages that may need its result."""

        self._answers: set[asyncio.Future[None]] = set()

    @classmethod
    async def of(cls, browsers: Browsers, context: BrowserContext) -> _Browser:
        """Return the _Browser for *context*, which is prepared for the load of a page."""
        key = context.browser or context
        if key not in _BROWSERS:
            _BROWSERS[key] = asyncio.ensure_future(cls(browsers)._open(context.browser))
        browser = await _BROWSERS[key]
        if context not in _CONTEXTS:
            _CONTEXTS[context] = asyncio.ensure_future(
                context.add_init_script(_REMOVE_SPECULATION_RULES)
                if browser.has_session
                # scrapy-playwright asks only about the pages that it opened itself.
                else context.route("**", browser._route_popup)
            )
        await _CONTEXTS[context]
        return browser

    async def _open(self, browser: Browser | None) -> _Browser:
        """Open the DevTools session with *browser*, if it has one."""
        with suppress(Exception):
            assert browser is not None
            session = await browser.new_browser_cdp_session()
            session.on("Fetch.requestPaused", partial(self._on_paused, session))
            await session.send("Fetch.enable", {"patterns": _PATTERNS})
            self.has_session = True
        return self

    async def may_fetch(
        self, url: str, page: _Page | None, *, is_top: bool = False
    ) -> bool:
        """Return True if robots.txt allows *url*, which *page* needs; None if any page may need
        it. Return False if the page closes first.
        """
        page_url, cause = ("", None) if page is None else (page.url, page.cause)
        check = self._browsers.may_fetch(url, page_url, cause, is_top=is_top)
        task = asyncio.ensure_future(_in_crawl_loop(self._browsers, check))
        self._checks[task] = set(self.frames.values()) if page is None else {page}
        try:
            await asyncio.wait([task])
        finally:
            del self._checks[task]
            task.cancel()
        return not task.cancelled() and task.result()

    def forget(self, page: _Page) -> None:
        """Cancel the checks that only *page*, which is closed, needed."""
        frames = self.frames.items()
        self.frames = {frame: each for frame, each in frames if each is not page}
        for task, pages in self._checks.items():
            if pages == {page}:
                task.cancel()
            pages.discard(page)

    def _on_paused(self, session: CDPSession, event: dict[str, Any]) -> None:
        answer = asyncio.ensure_future(self._answer(session, event))
        self._answers.add(answer)
        answer.add_done_callback(self._answers.discard)

    async def _answer(self, session: CDPSession, event: dict[str, Any]) -> None:
        """Stop the request or response of *event*, or let it continue."""
        answer: dict[str, Any] = {"requestId": event["requestId"]}
        if not await self._is_allowed(event):
            answer["errorReason"] = _REFUSED
        method = "failRequest" if "errorReason" in answer else "continueRequest"
        # The page may be closed by now.
        with suppress(Exception):
            await session.send(f"Fetch.{method}", answer)

    async def _is_allowed(self, event: dict[str, Any]) -> bool:
        if {"responseStatusCode", "responseErrorReason"} & event.keys():
            headers = event.get("responseHeaders", ())
            types = [h["value"] for h in headers if h["name"].lower() == "content-type"]
            return not any(_SPECULATION_RULES in kind.lower() for kind in types)
        page = self.frames.get(event["frameId"])
        is_main_frame = page is not None and page.main_frame == event["frameId"]
        is_top = is_main_frame and event["resourceType"] == "Document"
        return await self.may_fetch(event["request"]["url"], page, is_top=is_top)

    async def _route_popup(self, route: Route, request: Request) -> None:
        # The page may be closed by now.
        with suppress(Exception):
            if await self.may_fetch(request.url, None):
                await route.continue_()
            else:
                await route.abort("blockedbyclient")


class _Page:
    """A page that scrapy-playwright has opened."""

    def __init__(self, page: Page, browser: _Browser) -> None:
        self._page = page
        self._browser = browser
        self.cause: scrapy.Request | None = None
        """The request of the spider that the page loads."""

        self.main_frame = ""

    @classmethod
    async def open(cls, page: Page, browsers: Browsers) -> _Page:
        """Prepare for the loads of *page*: Chromium does not report requests that are already
        in flight.
        """
        self = cls(page, await _Browser.of(browsers, page.context))
        page.once("close", self._forget)
        # This fails in Firefox and WebKit.
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
        """The URL that the page shows, or is about to show."""
        url = self._page.url
        return url if self.cause is None or url.startswith("http") else self.cause.url

    async def may_send(self, request: Request) -> bool:
        """Return True if robots.txt allows *request*, or its DevTools session decides."""
        if self._browser.has_session:
            return True
        is_main_frame = request.frame == self._page.main_frame
        is_top = is_main_frame and request.is_navigation_request()
        return await self._browser.may_fetch(request.url, self, is_top=is_top)

    def _add_frame(self, event: dict[str, Any]) -> None:
        self._browser.frames[event["frameId"]] = self

    def _remove_frame(self, event: dict[str, Any]) -> None:
        # A frame that only moves to another process keeps its ID.
        if event["reason"] == "remove":
            self._browser.frames.pop(event["frameId"], None)

    def _forget(self, page: Page) -> None:
        _PAGES.pop(page, None)
        self._browser.forget(self)


_PAGES: dict[Page, _Page] = {}

_BROWSERS: WeakKeyDictionary[Browser | BrowserContext, asyncio.Future[_Browser]] = (
    WeakKeyDictionary()
)

_CONTEXTS: WeakKeyDictionary[BrowserContext, asyncio.Future[Any]] = WeakKeyDictionary()
