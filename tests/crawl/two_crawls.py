"""Run several crawls in one process.

``python -m tests.crawl.two_crawls MODE CRAWLS``: a list in JSON, with a list for each crawl: its
settings, and its URLs.
"""

from __future__ import annotations

import json
import sys

from scrapy.crawler import AsyncCrawlerProcess, CrawlerProcess

from tests.crawl.crawl import ADDON, QUIET
from tests.crawl.runner import MODE_SETTINGS
from tests.crawl.spiders import PlanSpider


def main(mode: str, crawls: str) -> None:
    settings = {**QUIET, **ADDON, **MODE_SETTINGS[mode], "LOG_LEVEL": "ERROR"}
    kind = CrawlerProcess if mode == "select" else AsyncCrawlerProcess
    process = kind(settings)
    for own, *urls in json.loads(crawls):
        spider = type("Spider", (PlanSpider,), {"custom_settings": own})
        process.crawl(spider, steps=[[{"url": url} for url in urls]])
    process.start()


if __name__ == "__main__":
    main(*sys.argv[1:])
