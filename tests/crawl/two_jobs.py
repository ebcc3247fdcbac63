"""Run two crawls in one process, each with a JOBDIR of its own.

``python -m tests.crawl.two_jobs MODE FOLDER URLS``, with two lists of URLs in JSON.
"""

from __future__ import annotations

import json
import sys

from scrapy.crawler import AsyncCrawlerProcess, CrawlerProcess

from tests.crawl.crawl import ADDON, QUIET
from tests.crawl.runner import MODE_SETTINGS
from tests.crawl.spiders import PlanSpider


def main() -> None:
    mode, folder, parts = sys.argv[1:]
    settings = {**QUIET, **ADDON, **MODE_SETTINGS[mode], "LOG_LEVEL": "ERROR"}
    settings["CONCURRENT_REQUESTS"] = 4
    kind = CrawlerProcess if mode == "select" else AsyncCrawlerProcess
    process = kind(settings)
    for number, urls in enumerate(json.loads(parts)):

        class JobSpider(PlanSpider):
            name = f"job-{number}"
            custom_settings = {"JOBDIR": f"{folder}/{number}"}

        process.crawl(JobSpider, steps=[[{"url": url} for url in urls]])
    process.start()


if __name__ == "__main__":
    main()
