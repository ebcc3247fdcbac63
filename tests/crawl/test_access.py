"""The pages that may be fetched after each result of the robots.txt fetch, in each dialect."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.crawl.access_cases import ALL, FORBIDS, NONE, Case, cases
from tests.crawl.answers import redirect
from tests.crawl.crawl import CrawlResult, run_crawl, start_crawl

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.crawl.server import Site

pytestmark = [pytest.mark.newest, pytest.mark.unmeasured]

SETTINGS = {
    # Short, so that the unknown host is not looked up for long.
    "DNS_TIMEOUT": 3,
}
TOO_MANY_REDIRECTS = {"a chain of 6", "a loop", "a redirect to 'http://'"}


def crawl_all(
    found: list[Case], dialect: str, mode: str
) -> Iterator[tuple[list[Case], CrawlResult]]:
    """Crawl all hosts: the one without an answer with a short time-out,
    the others with a long one.
    """
    crawls = []
    for patience in (60, 1):
        part = [case for case in found if (case.name == "no answer") == (patience == 1)]
        crawl = start_crawl(
            [case.host.url(path) for case in part for path in ALL],
            mode=mode,
            settings={
                **SETTINGS,
                "REP_DIALECT": dialect,
                "DOWNLOAD_TIMEOUT": patience,
            },
            allowed_domains=["127.0.0.1", "nosuchhost.invalid"],
        )
        crawls.append((part, crawl))
    for part, crawl in crawls:
        yield part, crawl.result()


def test_each_answer(site: Site, mode: str) -> None:
    """After each result of the robots.txt fetch, all modes of Scrapy fetch the pages that RFC
    9309 allows. Errors, stats and log give the reason for the others.
    """
    check(site, "rfc9309", mode)


def test_each_answer_in_another_dialect(site: Site) -> None:
    """A crawl fetches the pages that its dialect allows after each result of the fetch.

    ``tests/protocol/access`` has what each dialect allows.
    """
    check(site, "classic", "asyncio")


def check(site: Site, dialect: str, mode: str) -> None:
    for found, result in crawl_all(cases(site, dialect), dialect, mode):
        check_pages(found, result)
        check_denials(found, result)
        check_stats(found, result)
        check_log(found, result)


def test_redirects_to_what_is_no_url(site: Site, mode: str) -> None:
    """A redirect of robots.txt to a Location without a valid host counts as unavailable."""
    locations = ("http://not a host/", "https://", "http://%zz/")
    hosts = {
        location: site.add(redirect(location, body=FORBIDS.encode()))
        for location in locations
    }
    urls = [host.url(path) for host in hosts.values() for path in ALL]
    result = run_crawl(urls, mode=mode, settings=SETTINGS)
    visited = {location: tuple(host.pages) for location, host in hosts.items()}
    assert visited == dict.fromkeys(locations, ALL)
    assert result.stats["rep/robotstxt/unavailable"] == len(locations)


def check_pages(found: list[Case], result: CrawlResult) -> None:
    """Check in the access logs of the hosts which pages were fetched."""
    visited = {
        case.name: tuple(path for path in case.host.pages if path in ALL)
        for case in found
    }
    assert visited == {case.name: case.pages for case in found}


def check_denials(found: list[Case], result: CrawlResult) -> None:
    """Check that each other page ended with RobotsDenied and its reason, and that
    no other request failed.
    """
    expected = {
        case.host.url(path): "rule" if case.pages else case.access
        for case in found
        for path in ALL
        if path not in case.pages
    }
    assert {error["url"]: error.get("reason") for error in result.errors} == expected
    robotstxt = {error["url"]: error["robotstxt_url"] for error in result.errors}
    for case in found:
        for path in set(ALL) - set(case.pages):
            assert robotstxt[case.host.url(path)] == case.host.robotstxt


def check_stats(found: list[Case], result: CrawlResult) -> None:
    stats = result.stats
    assert stats["robotstxt/request_count"] == len(found)
    for access, number in Counter(case.access for case in found).items():
        assert stats[f"rep/robotstxt/{access}"] == number, access
    exceptions = [
        number for key, number in stats.items() if "robotstxt/exception_count" in key
    ]
    # Each is tried twice.
    assert sum(exceptions) == 2 * sum(not case.answered for case in found)
    for status, number in Counter(case.status for case in found).items():
        key = f"robotstxt/response_status_count/{status}"
        if status not in {None, 301, 302}:  # Scrapy may count redirects.
            assert stats[key] == number, key
    denied = Counter(error["reason"] for error in result.errors)
    for reason, number in denied.items():
        assert stats[f"rep/denied/{reason}"] == number
    assert stats["robotstxt/forbidden"] == sum(denied.values())
    assert "log_count/ERROR" not in stats, result.log


def check_log(found: list[Case], result: CrawlResult) -> None:
    """Check that there is one warning with the origin and reason for each unreachable host
    and each with too many redirects, that one without a robots.txt has a line that says so,
    and that each denial names the robots.txt.
    """
    for case in found:
        origin = re.compile(re.escape(case.host.origin) + r"(?!\d)")
        warnings = [line for line in result.lines("WARNING") if origin.search(line)]
        warned = case.access == "unreachable" or case.name in TOO_MANY_REDIRECTS
        assert len(warnings) == warned, case.name
        if warnings and case.answered:
            assert str(case.status) in warnings[0]
        elif case.access == "unavailable":
            (line,) = result.lines("DEBUG", f"{case.host.robotstxt}: no robots.txt (")
            verdict = "forbidden" if case.pages == NONE else "allowed"
            assert f"everything is {verdict}" in line
        forbidden = [line for line in result.lines("DEBUG") if origin.search(line)]
        denials = [line for line in forbidden if case.host.url("/private") in line]
        if case.pages != ALL:
            assert len(denials) == 1, case.name
            assert case.host.robotstxt in denials[0]
        if case.pages not in {ALL, NONE}:
            assert "disallow: /private" in denials[0].lower()
            assert "line 2" in denials[0]
