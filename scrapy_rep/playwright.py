"""For scrapy-playwright: the browser asks for nothing that robots.txt forbids.

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

# Chromium's name for what was blocked by those who watch over it. A page whose navigation
# ends with it has failed; one that "was aborted" would be taken for a file to be saved.
_REFUSED = "BlockedByClient"


async def abort_forbidden(request: Request) -> bool:
    """Whether *request*, of a browser of scrapy-playwright's, must not be sent: whether the
    robots.txt of its origin forbids it to the crawler, or can't be had.

    Waits for a robots.txt that is not known. Aborts all where it can't be told for which
    crawl of several the browser works.
    """
    # Playwright raises what is no public class of errors where there is no page: for a
    # service worker, and the first request of a page that a page opens.
    with suppress(Exception):
        page = request.frame.page
        watch = _WATCHES.get(page)
        if watch is not None:
            return not await watch.may_send(request)
    crawls = open_crawls()
    if not any(crawls) and crawls:
        return False
    (browsers,) = crawls if len(crawls) == 1 else (None,)
    if browsers is None:
        _warn_of_unknown_crawl()
        return True
    return not await _ask(browsers, browsers.may_fetch(request.url, ""))


async def watch_page(page: Page, request: scrapy.Request) -> None:
    """Watch over *page*, which is about to go to the URL of *request*.

    scrapy-playwright calls it: scrapy-rep puts it into the meta of the requests of a crawl
    that asks :func:`abort_forbidden`, in front of what is there.
    """
    browsers = browsers_of(request)
    if browsers is not None:
        if page not in _WATCHES:
            _WATCHES[page] = _Watch(page, browsers)
            page.once("close", _forget)
        await _WATCHES[page].begin(request)
    callback = request.meta.get(PAGE_INIT)
    if callback is not None:
        await load_object(callback)(page, request)


def _forget(page: Page) -> None:
    _WATCHES.pop(page, None)


async def _ask(browsers: Browsers, question: Coroutine[Any, Any, bool]) -> bool:
    """The answer to *question*, which is to be asked where the crawl runs."""
    loop = browsers.loop
    if loop is None or loop is asyncio.get_running_loop():
        return await question
    # scrapy-playwright can have its browser run on a thread.
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(question, loop))


@cache
def _warn_of_unknown_crawl() -> None:
    logger.error(
        "A browser wants to send a request, and scrapy-rep can't tell for which crawl: it "
        "is aborted, as all such requests are. Is scrapy_rep.Addon in ADDONS?"
    )


@cache
def _warn_of_isolation() -> None:
    logger.warning(
        "Chromium has frames of other sites in processes of their own: what their first "
        "requests are redirected to is fetched whatever robots.txt says. Add %r to the "
        '"args" of PLAYWRIGHT_LAUNCH_OPTIONS.',
        "--disable-site-isolation-trials",
    )


class _Watch:
    """Looks after what a page does.

    Playwright hands out the first request of a chain of redirects alone. Chromium tells of
    each, in a session of its protocol: one for the page, and one for each frame that has a
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
        """Listen before the page goes to the URL of *cause*: what is on its way already is
        not told of.
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
        """Whether *request* may be sent."""
        frame, page = request.frame, self._page
        is_main = request.is_navigation_request() and frame == page.main_frame
        if not await self._may_fetch(request.url, stops=is_main):
            return False
        if frame != page.main_frame:
            # It may be in another process after each navigation.
            await self._listen(frame, frame.url)
        return True

    async def _may_fetch(self, url: str, *, stops: bool) -> bool:
        browsers, cause, page_url = self._browsers, self._cause, self._page.url
        if cause is not None and not page_url.startswith("http"):
            page_url = cause.url
        question = browsers.may_fetch(url, page_url, cause, stops=stops)
        return await _ask(browsers, question)

    async def _listen(self, target: Page | Frame, url: str) -> None:
        key = target, url
        if key not in self._sessions:
            self._sessions[key] = asyncio.ensure_future(self._open(target))
        await self._sessions[key]

    async def _open(self, target: Page | Frame) -> None:
        # Other browsers have no such sessions, and most frames none of their own.
        with suppress(Exception):
            session = await self._page.context.new_cdp_session(target)
            session.on("Fetch.requestPaused", partial(self._paused, session))
            tree = await session.send("Page.getFrameTree")
            if target is self._page:
                self._main_frame = tree["frameTree"]["frame"]["id"]
            else:
                _warn_of_isolation()
            await session.send("Fetch.enable", {"patterns": [{"urlPattern": "*"}]})

    def _paused(self, session: CDPSession, event: dict[str, Any]) -> None:
        answer = asyncio.ensure_future(self._answer(session, event))
        self._answers.add(answer)
        answer.add_done_callback(self._answers.discard)

    async def _answer(self, session: CDPSession, event: dict[str, Any]) -> None:
        """Let the request of *event* go on, if it is not a redirect that is forbidden."""
        stops = event["resourceType"] == "Document" and (
            event["frameId"] == self._main_frame
        )
        answer: dict[str, Any] = {"requestId": event["requestId"]}
        is_refused = "redirectedRequestId" in event and not await self._may_fetch(
            event["request"]["url"], stops=stops
        )
        if is_refused:
            answer["errorReason"] = _REFUSED
        # The page may be closed by now.
        with suppress(Exception):
            await session.send(
                "Fetch.failRequest" if is_refused else "Fetch.continueRequest", answer
            )


async def _route_popup(browsers: Browsers, route: Route, request: Request) -> None:
    """Ask about a request of a page that a page has opened: scrapy-playwright asks about
    those of its own. There is no session yet in which its redirects would be told.
    """
    # The page may be closed by now.
    with suppress(Exception):
        if await _ask(browsers, browsers.may_fetch(request.url, "")):
            response = await route.fetch(max_redirects=0)
            if response.status // 100 != 3:
                await route.fulfill(response=response)
                return
        await route.abort("blockedbyclient")


_WATCHES: dict[Page, _Watch] = {}

_CONTEXTS: WeakKeyDictionary[BrowserContext, asyncio.Future[object]] = (
    WeakKeyDictionary()
)
