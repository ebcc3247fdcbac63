"""Spiders whose requests a browser downloads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.browser import PATIENCE
from tests.crawl.spiders import PlanSpider

if TYPE_CHECKING:
    from scrapy import Request


class BrowserSpider(PlanSpider):
    """Has a browser download all requests but those that say no.

    ``ends_at`` of a request is the path of the URL that the page is to get to.
    """

    name = "browser"

    def request(self, arguments: dict[str, Any]) -> Request:
        # Not every process that loads this module has it.
        from scrapy_playwright.page import PageMethod  # noqa: PLC0415

        ends_at = arguments.pop("ends_at", None)
        arguments["meta"] = {"playwright": True, **arguments.get("meta", {})}
        wait = PageMethod("wait_for_load_state", "networkidle", timeout=PATIENCE)
        if ends_at:
            wait = PageMethod("wait_for_url", f"**{ends_at}", timeout=PATIENCE)
        arguments["meta"]["playwright_page_methods"] = [wait]
        return super().request(arguments)
