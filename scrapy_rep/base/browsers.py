"""Detects the requests, responses and download handlers of browsers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy.utils.misc import load_object

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.http import Response
    from scrapy.settings import BaseSettings

ABORT_FORBIDDEN = "scrapy_rep.playwright.abort_forbidden"
"""The value for the setting PLAYWRIGHT_ABORT_REQUEST: the import path of this package's function that aborts
a browser's requests for forbidden URLs."""

PAGE_INIT_META = "playwright_page_init_callback"
"""The meta key of a callback. scrapy-playwright calls the callback with each new browser page, before the page
opens the request's URL."""

# Names of browser automation tools, in lower case. Import paths of their download handlers contain these names.
_NAMES = (
    "camoufox", "headless", "nodriver", "patchright", "playwright", "puppeteer", "pyppeteer",
    "selenium", "webdriver", "zendriver",
)  # fmt: skip

_PLAYWRIGHT = "scrapy_playwright."


def is_for_browser(request: Request) -> bool:
    """Whether scrapy-playwright will download *request* with its browser."""
    return bool(request.meta.get("playwright"))


def is_from_browser(response: Response) -> bool:
    """Whether scrapy-playwright downloaded *response* with its browser."""
    return "playwright" in response.flags


def browser_handler(settings: BaseSettings) -> tuple[str, bool] | None:
    """Return two values about the download handler for http or https that uses a browser: its import path, and whether
    it is the handler of scrapy-playwright or a subclass of that. Return None if neither handler uses a browser.

    A handler counts as using a browser if the import path of its class, or of a base class, contains the
    name of a known browser tool.
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
    """Whether a crawl with these settings can download pages with scrapy-playwright."""
    handler = browser_handler(settings)
    is_playwright = handler is not None and handler[1]
    return is_playwright or abort_setting(settings) is not None


def abort_setting(settings: BaseSettings) -> Any:
    """Return the value of the setting PLAYWRIGHT_ABORT_REQUEST: a function or its import path, or None if the
    setting is not set. scrapy-playwright calls the function to decide whether to abort a browser's request.
    """
    return settings.get("PLAYWRIGHT_ABORT_REQUEST")
