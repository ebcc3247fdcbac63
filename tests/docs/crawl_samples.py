"""Runs the spiders of the documentation, all in one process.

``python -m tests.docs.crawl_samples PROXY FILE...`` runs the spider of each file through the proxy.
For each crawl, it prints a line of JSON with the file, the items that its feed stored, and its
stats.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from pathlib import Path
from typing import Any

from scrapy import Spider
from scrapy.crawler import AsyncCrawlerProcess

SETTINGS = {
    "HTTPPROXY_ENABLED": True,
    "REMOTE_CONTROL_ENABLED": False,
    "TELNETCONSOLE_ENABLED": False,
}


def main(proxy: str, *files: str) -> None:
    """Run the spider of each of *files*, and print the results."""
    os.environ["http_proxy"] = proxy
    process = AsyncCrawlerProcess(SETTINGS)
    crawls = []
    for path in files:
        crawler = process.create_crawler(_spider(runpy.run_path(path)))
        feed = Path(f"{path}.jsonl")
        crawler.settings.set("FEEDS", {feed: {"format": "jsonlines"}})
        process.crawl(crawler, proxy=proxy)
        crawls.append((path, crawler, feed))
    process.start()
    for path, crawler, feed in crawls:
        lines = feed.read_text("utf-8").splitlines() if feed.exists() else []
        items = [json.loads(line) for line in lines]
        result = {"file": path, "items": items, "stats": crawler.stats.get_stats()}
        print(json.dumps(result, default=str))


def _spider(module: dict[str, Any]) -> type[Spider]:
    """Return the only spider that a module defines."""
    (spider,) = (
        value
        for value in module.values()
        if isinstance(value, type) and issubclass(value, Spider) and value is not Spider
    )
    return spider


if __name__ == "__main__":
    main(*sys.argv[1:])
