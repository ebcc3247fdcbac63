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

from scrapy_rep.frontier.browsers import Browsers, browsers_of, open_crawls
from scrapy_rep.log import get_logger
from scrapy_rep.meta import PAGE_INIT

if TYPE_CHECKING:
    from collections.abc import Coroutine

    import scrapy
    from playwright.async_api import (
        BrowserContext,
        CDPSession,
        Frame,
        Page,
        Request,
        Route,
    )

logger = get_logger(__name__)

# The error reason that Chromium gets for a refused request. scrapy-playwright would take a
# navigation that fails with "Aborted" for the download of a file.
_REFUSED = "BlockedByClient"


async def abort_forbidden(request: Request) -> bool:
    """Return True if Playwright must abort *request*: robots.txt of its origin forbids the
    URL, or is unreachable.

    Waits until robots.txt is known. Also returns True if the spider closes meanwhile, after
    an error, and if it cannot find out which crawl the browser belongs to.
    """
    # Playwright raises an error of a private class if the request has no page: the requests
    # of a service worker, and the first request of a popup.
    with suppress(Exception):
        page = request.frame.page
        guard = _GUARDS.get(page)
        if guard is not None:
            return not await guard.may_send(request)
    crawls = open_crawls()
    if crawls and not any(crawls):  # No crawl in this process obeys robots.txt.
        return False
    browsers = crawls[0] if len(crawls) == 1 else None
    if browsers is None:
        _warn_of_unknown_crawl()
        return True
    return not await _in_crawl_loop(browsers, browsers.may_fetch(request.url, ""))


async def watch_page(page: Page, request: scrapy.Request) -> None:
    """Check the requests of *page* from now on. The page is about to load *request*.

    scrapy-playwright calls this function: a crawl that uses :func:`abort_forbidden` sets it
    as the ``playwright_page_init_callback`` of its requests. It calls the spider's own
    callback, if there is one, at its end.
    """
    browsers = browsers_of(request)
    if browsers is not None:
        if page not in _GUARDS:
            _GUARDS[page] = _PageGuard(page, browsers)
            page.once("close", _forget)
        await _GUARDS[page].begin(request)
    callback = request.meta.get(PAGE_INIT)
    if callback is not None:
        await load_object(callback)(page, request)


def _forget(page: Page) -> None:
    _GUARDS.pop(page, None)


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


@cache
def _warn_of_isolation() -> None:
    logger.warning(
        "Chromium runs the frames of other sites in separate processes. scrapy-rep cannot "
        "stop a redirect of the first request of such a frame: the browser follows it even "
        'where robots.txt forbids it. Add %r to the "args" of PLAYWRIGHT_LAUNCH_OPTIONS.',
        "--disable-site-isolation-trials",
    )


class _PageGuard:
    """Checks the requests of one page.

    Playwright reports only the first request of a redirect chain. Chromium reports each of
    them in a DevTools session: one for the page, and one for each frame that runs in a
    process of its own.
    """

    def __init__(self, page: Page, browsers: Browsers) -> None:
        self._page = page
        self._browsers = browsers
        self._sessions: dict[tuple[object, str], asyncio.Future[None]] = {}
        self._main_frame = ""
        self._cause: scrapy.Request | None = None
        self._answers: set[asyncio.Future[None]] = set()

    async def begin(self, cause: scrapy.Request) -> None:
        """Prepare for the load of *cause*. The session must be open before that: Chromium does
        not report requests that are already in flight.
        """
        self._cause = cause
        context = self._page.context
        if context not in _CONTEXTS:
            _CONTEXTS[context] = asyncio.ensure_future(
                context.route("**", partial(_route_popup, self._browsers))
            )
        await _CONTEXTS[context]
        await self._listen(self._page, "")

    async def may_send(self, request: Request) -> bool:
        """Return True if robots.txt allows *request*."""
        frame, page = request.frame, self._page
        is_top = request.is_navigation_request() and frame == page.main_frame
        if not await self._may_fetch(request.url, is_top=is_top):
            return False
        if frame != page.main_frame:
            # Each navigation may move the frame to another process.
            await self._listen(frame, frame.url)
        return True

    async def _may_fetch(self, url: str, *, is_top: bool) -> bool:
        browsers, cause, page_url = self._browsers, self._cause, self._page.url
        if cause is not None and not page_url.startswith("http"):
            page_url = cause.url
        check = browsers.may_fetch(url, page_url, cause, is_top=is_top)
        return await _in_crawl_loop(browsers, check)

    async def _listen(self, target: Page | Frame, url: str) -> None:
        key = target, url
        if key not in self._sessions:
            self._sessions[key] = asyncio.ensure_future(self._open(target))
        await self._sessions[key]

    async def _open(self, target: Page | Frame) -> None:
        # This fails in Firefox and WebKit, and for a frame without its own process.
        with suppress(Exception):
            session = await self._page.context.new_cdp_session(target)
            session.on("Fetch.requestPaused", partial(self._on_paused, session))
            tree = await session.send("Page.getFrameTree")
            if target is self._page:
                self._main_frame = tree["frameTree"]["frame"]["id"]
            else:
                _warn_of_isolation()
            await session.send("Fetch.enable", {"patterns": [{"urlPattern": "*"}]})

    def _on_paused(self, session: CDPSession, event: dict[str, Any]) -> None:
        answer = asyncio.ensure_future(self._answer(session, event))
        self._answers.add(answer)
        answer.add_done_callback(self._answers.discard)

    async def _answer(self, session: CDPSession, event: dict[str, Any]) -> None:
        """Stop the request of *event* if it is a forbidden redirect, or let it continue."""
        is_top = event["resourceType"] == "Document" and (
            event["frameId"] == self._main_frame
        )
        answer: dict[str, Any] = {"requestId": event["requestId"]}
        is_refused = "redirectedRequestId" in event and not await self._may_fetch(
            event["request"]["url"], is_top=is_top
        )
        if is_refused:
            answer["errorReason"] = _REFUSED
        # The page may be closed by now.
        with suppress(Exception):
            await session.send(
                "Fetch.failRequest" if is_refused else "Fetch.continueRequest", answer
            )


async def _route_popup(browsers: Browsers, route: Route, request: Request) -> None:
    """Answer a request of a popup: scrapy-playwright only asks about the pages that it opened
    itself. Abort the request if it is redirected, as no session reports redirects of popups.
    """
    # The page may be closed by now.
    with suppress(Exception):
        if await _in_crawl_loop(browsers, browsers.may_fetch(request.url, "")):
            response = await route.fetch(max_redirects=0)
            if response.status // 100 != 3:
                await route.fulfill(response=response)
                return
        await route.abort("blockedbyclient")


_GUARDS: dict[Page, _PageGuard] = {}

_CONTEXTS: WeakKeyDictionary[BrowserContext, asyncio.Future[object]] = (
    WeakKeyDictionary()
)
