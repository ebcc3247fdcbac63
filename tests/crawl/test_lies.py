"""Servers with answers of all kinds, most of them broken: each has the expected result, and the crawl
goes on.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests import effort
from tests.crawl.crawl import start_crawl
from tests.crawl.lies import MEGABYTE
from tests.crawl.lying_cases import (
    ALL,
    BY_RULES,
    DROPPED,
    FAILED,
    FEW_FAILURES,
    ITEM,
    UNREACHABLE,
    Lie,
    PageLie,
    Sizes,
    lies,
    page_lies,
)

if TYPE_CHECKING:
    from tests.crawl.crawl import CrawlResult, RunningCrawl
    from tests.crawl.server import Site

pytestmark = [pytest.mark.newest, pytest.mark.unmeasured, pytest.mark.slow]

SETTINGS = {"DNS_TIMEOUT": 3}
TOO_MANY_REDIRECTS = {
    "six redirects",
    "a redirect to itself",
    "a redirect back and forth",
    "a redirect forth and back",
}


def sizes() -> Sizes:
    if effort.is_long:
        return Sizes(400 * MEGABYTE, 200 * MEGABYTE, 100_000)
    return Sizes(4 * MEGABYTE, 2 * MEGABYTE, 10_000)


def test_lies(site: Site, mode: str) -> None:
    """From each host, whatever its answer for robots.txt, the expected pages are fetched; each refusal
    has a reason, and is counted and logged once. Broken pages make items or not, as
    expected. Memory and time are bounded.

    Answers that never end fail with any time-out, so theirs is short. The others get a long
    one.
    """
    given = sizes()
    told, pages = lies(site, given), page_lies(site, given)
    ending = [lie for lie in told if not lie.lasts]
    lasting = [lie for lie in told if lie.lasts]
    crawls = [
        (ending, pages, start(ending, pages, mode, patience=120)),
        (lasting, [], start(lasting, [], mode, patience=1)),
    ]
    for its_lies, its_pages, crawl in crawls:
        result = crawl.result(600)
        check_verdicts(its_lies, its_pages, result, mode)
        check_log(its_lies, result, mode)
        check_pages(its_pages, result, mode)
        assert result.exit_code == 0
        assert result.stats["finish_reason"] == "finished"
        assert "log_count/ERROR" not in result.stats, result.log
        # Scrapy and other libraries take 90 MB. Scrapy holds each page, and there are one
        # or two copies while it is parsed.
        assert result.memory < 200 * MEGABYTE + 6 * given.page
        assert result.duration < 300
    check_requests(site)


def start(
    told: list[Lie], pages: list[PageLie], mode: str, *, patience: int
) -> RunningCrawl:
    urls = [lie.host.url(path) for lie in told for path in ALL]
    return start_crawl(
        [*[page.request for page in pages], *urls],
        mode=mode,
        allowed_domains=[
            "127.0.0.1",
            "comes-back.test",
            "comes-late.test",
            "nosuchhost.invalid",
        ],
        spider="tests.crawl.page_spiders.LiedToSpider",
        settings={**SETTINGS, "DOWNLOAD_TIMEOUT": patience},
        names=FEW_FAILURES,
    )


def check_verdicts(
    told: list[Lie], pages: list[PageLie], result: CrawlResult, mode: str
) -> None:
    """Check the access logs for the fetched pages, and stats and errors for
    the reasons of the others.
    """
    fetched = {
        lie.name: tuple(path for path in lie.host.pages if path in ALL) for lie in told
    }
    assert fetched == {lie.name: lie.outcome(mode)[1] for lie in told}
    counted = Counter(lie.outcome(mode)[0] for lie in told)
    # The host of the pages has a robots.txt as well.
    counted["successful"] += bool(pages)
    for access, number in counted.items():
        assert result.stats.get(f"rep/robotstxt/{access}", 0) == number, access
    denied = {
        lie.host.url(path): UNREACHABLE if not lie.outcome(mode)[1] else "rule"
        for lie in told
        for path in ALL
        if path not in lie.outcome(mode)[1]
    }
    errors = {
        error["url"]: error["reason"]
        for error in result.errors
        if error["error"] == "RobotsDenied"
    }
    assert errors == denied
    for reason, number in Counter(denied.values()).items():
        assert result.stats[f"rep/denied/{reason}"] == number
    assert result.stats["robotstxt/forbidden"] == len(denied)


def check_log(told: list[Lie], result: CrawlResult, mode: str) -> None:
    """Check that there is one warning for each host that is unreachable or redirects too
    often, one line for each other host without a robots.txt, and one for each refused page.
    """
    logged = result.lines("WARNING")
    refusals = result.lines("DEBUG", "Forbidden by")
    none = ": no robots.txt ("
    for lie in told:
        about = (f"] {lie.host.robotstxt} is ", f"] {lie.host.robotstxt}{none}")
        warnings = [line for line in logged if any(each in line for each in about)]
        access, pages = lie.outcome(mode)
        warned = access == UNREACHABLE or lie.name in TOO_MANY_REDIRECTS
        assert len(warnings) == warned, (lie.name, warnings)
        assert lie.status is None or str(lie.status) in warnings[0]
        if lie.name == "six redirects":
            assert all(lie.host.url(f"/hop-{hop}") in warnings[0] for hop in (1, 5))
        if access == "unavailable" and not warned:
            (line,) = (each for each in result.lines("DEBUG", none) if about[1] in each)
            assert line.endswith("): everything is allowed")
        for path in ALL:
            refused = [line for line in refusals if lie.host.url(path) in line]
            assert len(refused) == (path not in pages), lie.name
            assert all(lie.host.robotstxt in line for line in refused)
            if refused and pages == BY_RULES:
                assert "(disallow: /private" in refused[0], lie.name
    # Control characters are escaped, so that no terminal interprets them.
    assert not {"\x1b", "\x07", "\0", "\x85", "\u2028", "\u202e"} & set(result.log)


def check_pages(pages: list[PageLie], result: CrawlResult, mode: str) -> None:
    made = {item["url"] for item in result.items}
    failed = {error["url"] for error in result.errors}
    became = {
        page.name: ITEM
        if page.url in made
        else FAILED
        if page.url in failed
        else DROPPED
        for page in pages
    }
    assert became == {page.name: page.outcome(mode) for page in pages}
    dropped = Counter(became.values())[DROPPED]
    assert result.stats.get("rep/noindex/dropped/noindex", 0) == dropped
    assert result.log.count("Dropped: ") == dropped


def check_requests(site: Site) -> None:
    """Check that no Location injected a header or credentials into a request."""
    assert any("x-injected" in hit.target.lower() for hit in site.log)
    for hit in site.log:
        assert not {"X-Injected", "Authorization"} & hit.headers.keys()
