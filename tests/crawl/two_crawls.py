"""Runs several crawls at the same time in one process: ``python -m tests.crawl.two_crawls MODE CRAWLS [LOG_LEVEL]``.

MODE is the mode of Scrapy: asyncio, select, or reactorless. CRAWLS is a JSON list with an item for each crawl. The item
contains the settings and the URLs of the crawl: ``[{"DOWNLOAD_DELAY": 1}, "http://127.0.0.1/1",
"http://127.0.0.1/2"]``. LOG_LEVEL is by default ERROR. The spiders are called plan-0, plan-1, and so on.
"""

from __future__ import annotations

import json
import sys

from scrapy.crawler import AsyncCrawlerProcess, CrawlerProcess

from tests.crawl.crawl import ADDON, QUIET
from tests.crawl.runner import MODE_SETTINGS
from tests.crawl.spiders import PlanSpider


def main(mode: str, crawls: str, log_level: str = "ERROR") -> None:
    settings = {**QUIET, **ADDON, **MODE_SETTINGS[mode], "LOG_LEVEL": log_level}
    process_class = CrawlerProcess if mode == "select" else AsyncCrawlerProcess
    process = process_class(settings)
    for number, (spider_settings, *urls) in enumerate(json.loads(crawls)):
        attributes = {"name": f"plan-{number}", "custom_settings": spider_settings}
        spider = type("Spider", (PlanSpider,), attributes)
        process.crawl(spider, steps=[[{"url": url} for url in urls]])
    process.start()


if __name__ == "__main__":
    main(*sys.argv[1:])
