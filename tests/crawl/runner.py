"""The process of one crawl: reads a specification, runs the crawl, and writes a report.

``python -m tests.crawl.runner REPORT < SPEC``: the specification and the report are JSON.
"""

from __future__ import annotations

import importlib
import json
import resource
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy.crawler import AsyncCrawlerProcess, CrawlerProcess
from scrapy.utils.misc import load_object

from tests.crawl import names
from tests.crawl.spiders import SEEN

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

MODE_SETTINGS = {
    "asyncio": {},
    "select": {"TWISTED_REACTOR": "twisted.internet.selectreactor.SelectReactor"},
    "reactorless": {"TWISTED_REACTOR_ENABLED": False},
}


def run(spec: dict[str, Any]) -> tuple[Crawler, bool]:
    """Run the crawl that *spec* describes. Return its crawler, and whether the crawl started and ended without an
    error.
    """
    settings = {**spec["settings"], **MODE_SETTINGS[spec["mode"]]}
    process_class = CrawlerProcess if spec["mode"] == "select" else AsyncCrawlerProcess
    process = process_class(settings)
    failures: list[BaseException] = []
    # The spider is imported only now, since its module may install a reactor.
    crawler = process.create_crawler(load_object(spec["spider"]))
    crawl = process.crawl(crawler, **spec["attributes"])
    if spec["mode"] == "select":
        crawl.addErrback(lambda failure: failures.append(failure.value))
    process.start()
    if spec["mode"] != "select" and (error := crawl.exception()) is not None:
        failures.append(error)
    for error in failures:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
    return crawler, not failures and not process.bootstrap_failed


def report(crawler: Crawler) -> dict[str, Any]:
    """Return the report of the process: stats, memory, and the lists in the attribute ``seen`` of the spider."""
    # The public attribute ``stats`` raises an exception if the crawl did not start.
    stats = getattr(crawler, "_stats", None) or vars(crawler).get("stats")
    seen = getattr(crawler.spider, "seen", None) or {name: [] for name in SEEN}
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "stats": stats.get_stats() if stats else {},
        "memory": usage.ru_maxrss * 1024,
        **seen,
    }


def main() -> int:
    spec = json.load(sys.stdin)
    names.resolve_only(spec["names"])
    if spec["max_files"]:
        _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (spec["max_files"], hard_limit))
    for path, value in spec["constants"].items():
        module, _, name = path.rpartition(".")
        owner = importlib.import_module(module)
        assert hasattr(owner, name), path
        setattr(owner, name, value)
    crawler, has_succeeded = run(spec)
    text = json.dumps(report(crawler), default=str)
    Path(sys.argv[1]).write_text(text, encoding="utf-8")
    return 0 if has_succeeded else 1


if __name__ == "__main__":
    sys.exit(main())
