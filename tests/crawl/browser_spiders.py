"""Spiders whose pages a browser downloads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.browser import PATIENCE
from tests.crawl.spiders import PlanSpider

if TYPE_CHECKING:
    from scrapy import Request


class BrowserSpider(PlanSpider):
    """Downloads its requests with Playwright, unless their meta says otherwise.

    ``ends_at`` of a request is the path of the URL at which the page must end, ``state`` the
    state that it must reach, by default that it requests nothing more.
    """

    def request(self, arguments: dict[str, Any]) -> Request:
        # Playwright may not be installed where this module is imported.
        from scrapy_playwright.page import PageMethod  # noqa: PLC0415

        ends_at = arguments.pop("ends_at", None)
        state = arguments.pop("state", "networkidle")
        arguments["meta"] = {"playwright": True, **arguments.get("meta", {})}
        wait = PageMethod("wait_for_load_state", state, timeout=PATIENCE)
        if ends_at:
            wait = PageMethod("wait_for_url", f"**{ends_at}", timeout=PATIENCE)
        arguments["meta"]["playwright_page_methods"] = [wait]
        return super().request(arguments)
