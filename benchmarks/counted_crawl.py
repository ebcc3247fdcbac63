"""Counts the calls of Python functions in a crawl in a single process. Each run gives the same numbers, even if the
machine is busy.

    python -m benchmarks.counted_crawl SIDE HOSTS PAGES_OF_HOST [SETTINGS]

SIDE is ``stock`` for a crawl without this package, and ``ours`` for a crawl with this package. Each of HOSTS hosts has
PAGES_OF_HOST pages. SETTINGS is a JSON object with additional settings.

The output is a JSON object with the numbers of calls per page since the first request: ``all`` for all functions,
``ours`` for all functions of this package, and ``by_function`` for each function of this package.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import scrapy
from scrapy.crawler import AsyncCrawlerProcess

from benchmarks.broad_crawl import SETTINGS, SIDES, requests

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from types import CodeType, FrameType

OURS = str(Path(__file__).parents[1] / "scrapy_rep") + "/"
CALLS: Counter[CodeType] = Counter()


# The names of the code objects of comprehensions. They are not counted, because only Python versions before 3.12 call
# comprehensions as functions.
INLINED = {"<dictcomp>", "<listcomp>", "<setcomp>"}


def count(frame: FrameType, event: str, _argument: object) -> None:
    if event == "call" and frame.f_code.co_name not in INLINED:
        CALLS[frame.f_code] += 1


class CountedSpider(scrapy.Spider):
    name = "counted"
    hosts: int
    pages_of_host: int
    seen = 0

    async def start(self) -> AsyncIterator[scrapy.Request]:
        sys.setprofile(count)
        for request in requests(self.hosts, self.pages_of_host):
            self.crawler.engine.crawl(request)
        return
        yield

    def parse(self, response: scrapy.http.Response) -> None:
        self.seen += 1
        if self.seen == self.hosts * self.pages_of_host:
            sys.setprofile(None)


def main(side: str, hosts: str, pages_of_host: str, settings: str = "{}") -> None:
    extra_settings = json.loads(settings)
    process = AsyncCrawlerProcess(
        {**SETTINGS, **SIDES[side], "LOG_LEVEL": "ERROR", **extra_settings}
    )
    process.crawl(CountedSpider, hosts=int(hosts), pages_of_host=int(pages_of_host))
    process.start()
    pages = int(hosts) * int(pages_of_host)
    ours = {code: calls for code, calls in CALLS.items() if _is_ours(code)}
    calls_for = {
        "all": CALLS.total() / pages,
        "ours": sum(ours.values()) / pages,
        "by_function": {
            f"{code.co_filename.removeprefix(OURS)}:{code.co_firstlineno} {code.co_name}": (
                calls / pages
            )
            for code, calls in sorted(
                ours.items(), key=lambda code_and_calls: -code_and_calls[1]
            )
        },
    }
    print(json.dumps(calls_for, indent=1))


def _is_ours(code: CodeType) -> bool:
    return code.co_filename.startswith(OURS)


if __name__ == "__main__":
    main(*sys.argv[1:])
