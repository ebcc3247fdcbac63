"""Run two crawls in one process.

``python -m tests.crawl.two_crawls MODE SETTINGS URL... -- URL...``, with settings in JSON.
"""

from __future__ import annotations

import json
import sys

from scrapy.crawler import AsyncCrawlerProcess, CrawlerProcess

from tests.crawl.crawl import ADDON, QUIET
from tests.crawl.runner import MODE_SETTINGS
from tests.crawl.spiders import PlanSpider


def main() -> None:
    mode, own, *urls = sys.argv[1:]
    at = urls.index("--")
    settings = {**QUIET, **ADDON, **MODE_SETTINGS[mode], **json.loads(own)}
    settings["LOG_LEVEL"] = "ERROR"
    kind = CrawlerProcess if mode == "select" else AsyncCrawlerProcess
    process = kind(settings)
    for part in (urls[:at], urls[at + 1 :]):
        process.crawl(PlanSpider, steps=[[{"url": url} for url in part]])
    process.start()


if __name__ == "__main__":
    main()
