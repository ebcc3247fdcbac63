"""Detects the requests, responses and download handlers of browsers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy.utils.misc import load_object

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.http import Response
    from scrapy.settings import BaseSettings

ABORT_FORBIDDEN = "scrapy_rep.playwright.abort_forbidden"
"""The import path of the function for the setting PLAYWRIGHT_ABORT_REQUEST."""

PAGE_INIT_META = "playwright_page_init_callback"
"""The meta key of the function that scrapy-playwright calls with a new page, before the page
opens the URL of the request."""

_NAMES = (
    "camoufox", "headless", "nodriver", "patchright", "playwright", "puppeteer", "pyppeteer",
    "selenium", "webdriver", "zendriver",
)  # fmt: skip

_PLAYWRIGHT = "scrapy_playwright."


def is_for_browser(request: Request) -> bool:
    """Whether scrapy-playwright will download *request* with its browser."""
    return bool(request.meta.get("playwright"))


def is_from_browser(response: Response) -> bool:
    """Whether scrapy-playwright has downloaded *response* with its browser."""
    return "playwright" in response.flags


def browser_handler(settings: BaseSettings) -> tuple[str, bool] | None:
    """Return the import path of the first download handler (http, then https) that uses a browser, and
    whether it belongs to scrapy-playwright. Return None if neither uses a browser. A handler uses a browser
    if the import path of its class, or of a base class, has the name of a known one.
    """
    handlers = settings.getdict("DOWNLOAD_HANDLERS")
    for scheme in ("http", "https"):
        try:
            handler = load_object(handlers.get(scheme) or "")
        except (ImportError, NameError, TypeError, ValueError):
            # Scrapy reports the invalid handler at the first download.
            continue
        paths = [
            f"{kind.__module__}.{kind.__qualname__}"
            for kind in getattr(handler, "__mro__", (type(handler),))
        ]
        is_playwright = any(path.startswith(_PLAYWRIGHT) for path in paths)
        if is_playwright or any(name in " ".join(paths).lower() for name in _NAMES):
            return paths[0], is_playwright
    return None


def uses_playwright(settings: BaseSettings) -> bool:
    """Whether scrapy-playwright may download for a crawl."""
    handler = browser_handler(settings)
    is_playwright = handler is not None and handler[1]
    return is_playwright or abort_setting(settings) is not None


def abort_setting(settings: BaseSettings) -> Any:
    """Return the setting for the function by which scrapy-playwright decides whether to abort a
    request, or None.
    """
    return settings.get("PLAYWRIGHT_ABORT_REQUEST")
