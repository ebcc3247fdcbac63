"""Tests of two limits that a crawl may set: REP_CONCURRENCY_PER_ADDRESS and REP_PAGES_PER_HOST."""

from __future__ import annotations

import random
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from scrapy_rep.tools.report.answers import overall
from scrapy_rep.tools.report.ledgers import ReportLedgers, ReportLimits
from tests import effort
from tests.crawl.answers import Answer, busy, redirect
from tests.crawl.crawl import run_crawl, start_crawl
from tests.crawl.test_ledger import decisions, rows
from tests.crawl.trials import HTML, Gate, Trial, interrupt_twice
from tests.tools.rep import execute

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.crawl.crawl import CrawlResult, RunningCrawl
    from tests.crawl.server import Hit, Host, Site

EVERY_WAY = "tests.crawl.waiting_spiders.EveryWaySpider"
KILLS = 20 if effort.is_long else 2
RULES = "User-agent: *\nDisallow: /private/\n"


def pages(host: Host, count: int, kind: str = "page") -> list[str]:
    return [host.url(f"/{kind}/{number}") for number in range(count)]


# Concurrency per address.


def max_concurrent(hits: Iterable[Hit]) -> int:
    """Return the maximum number of *hits* that the server was answering at the same time."""
    changes = [(hit.time, 1) for hit in hits]
    changes += [(hit.answered, -1) for hit in hits if hit.answered is not None]
    maximum = concurrent = 0
    for _, change in sorted(changes):
        concurrent += change
        maximum = max(maximum, concurrent)
    return maximum


@pytest.mark.newest
@pytest.mark.slow
def test_hosts_on_one_address_share_its_concurrency_and_use_all_of_it(
    site: Site, mode: str
) -> None:
    """The hosts on one address have four requests in flight together: never more, and never fewer if more are waiting.

    An address answers a page only when four of its requests are waiting, or when all of its 40 requests have arrived.
    """
    servers = [site.add(RULES, name=f"127.0.0.{number}") for number in (2, 3, 4)]
    names, urls = {}, []
    for number in range(75):
        server = servers[number % 3]
        names[f"h{number}.test"] = [server.name]
        count = 4 if number < 15 else 1
        urls += [f"http://h{number}.test:{server.port}/{page}" for page in range(count)]

    def page_hits(host: Host) -> list[Hit]:
        return [hit for hit in host.hits if hit.path != "/robots.txt"]

    def has_full_concurrency(host: Host) -> bool:
        hits = page_hits(host)
        return sum(hit.answered is None for hit in hits) >= 4 or len(hits) == 40

    site.limit = lambda hit: (
        None
        if hit.path == "/robots.txt"
        else Answer(b"page", after=lambda: has_full_concurrency(hit.host))
    )
    result = run_crawl(
        urls,
        mode=mode,
        settings={"REP_CONCURRENCY_PER_ADDRESS": 4, "CONCURRENT_REQUESTS": 64},
        names=names,
    )
    assert result.exit_code == 0, result.log
    assert len(result.responses) == len(urls)
    for server in servers:
        hits = page_hits(server)
        assert len(hits) == 40
        assert max_concurrent(hits) == 4
        assert all(hit.answered and hit.answered - hit.time < 50 for hit in hits)


# Pages per host.


def fetched(host: Host, kind: str = "page") -> set[str]:
    """Return the distinct paths of a kind that were requested from *host*."""
    return {path for path in host.pages if path.startswith(f"/{kind}/")}


def check_refused(result: CrawlResult, count: int) -> None:
    """Check that *count* requests were refused because of the budget, and that there were no other errors."""
    assert result.exit_code == 0, result.log
    assert [error.get("reason") for error in result.errors] == ["budget"] * count
    assert "log_count/ERROR" not in result.stats, result.log


def with_redirects_and_failures(host: Host) -> Host:
    """Make half of the pages of *host* redirect to pages of *host*, and the first request for each other page fail.

    Its robots.txt is fetched often, since each copy is stale at once. Return *host*.
    """

    def limit(hit: Hit) -> Answer | None:
        kind, number = hit.path.rsplit("/", 1)
        if kind == "/page" and int(number) % 2:
            return redirect(f"/moved/{number}")
        if kind == "/page" and len(host.hits_on(hit.path)) == 1:
            return Answer(status=500)
        return None

    host.limit = limit
    host.answers["/robots.txt"] = Answer(
        RULES.encode(), headers={"Cache-Control": "max-age=0"}
    )
    return host


@pytest.mark.parametrize("obeys", [True, False])
def test_no_host_gets_more_pages_than_its_budget(
    site: Site, mode: str, obeys: bool, tmp_path: Path
) -> None:
    """The access logs have no more pages of a host than its budget, also with redirects, retries and download slots.

    Requests for robots.txt and for files of a pipeline do not count. REP_OVERRIDES sets another limit for a host, or
    no limit.
    """
    default, small, unlimited = (
        with_redirects_and_failures(site.add(name=f"127.0.0.{number}"))
        for number in (21, 22, 23)
    )
    urls: list[Any] = [
        {
            "url": url,
            "meta": {"download_slot": f"slot {number % 3}"} if number > 5 else {},
        }
        for host in (default, small, unlimited)
        for number, url in enumerate(pages(host, 12))
    ]
    page_urls = pages(default, 12) + pages(default, 12, "moved")
    result = run_crawl(
        urls,
        mode=mode,
        spider=EVERY_WAY,
        settings={
            "ROBOTSTXT_OBEY": obeys,
            "RETRY_ENABLED": True,
            "ITEM_PIPELINES": {"scrapy.pipelines.files.FilesPipeline": 1},
            "FILES_STORE": str(tmp_path),
            "REP_PAGES_PER_HOST": 5,
            "REP_OVERRIDES": {small.name: {"pages": 2}, unlimited.name: {"pages": 0}},
        },
        files={
            url: pages(default, 3, f"file{number}")
            for number, url in enumerate(page_urls)
        },
    )
    check_refused(result, 7 + 10)
    assert [len(fetched(host)) for host in (default, small, unlimited)] == [5, 2, 12]
    assert len(result.responses) == 5 + 2 + 12
    assert sum(path.startswith("/file") for path in default.pages) == 15
    assert result.stats["rep/budget/hosts"] == 2
    assert result.stats["rep/denied/budget"] == 17
    (line,) = result.lines("INFO", "further requests to this host are refused")
    assert (
        "127.0.0.21 has reached its limit of 5 pages (REP_PAGES_PER_HOST)" in line
        or ("127.0.0.22 has reached its limit of 2 pages (REP_OVERRIDES)" in line)
    )
    (line,) = result.lines("INFO", "reached their limit of pages", ": 2. ")


@pytest.mark.newest
def test_the_budget_and_its_setting_are_named_in_ledger_report_and_log(
    site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ledger, report and log say why a page was refused, and name the setting of the limit. A page that robots.txt
    forbids does not count for the budget.
    """
    host, ledger = site.add(RULES), tmp_path / "ledger"
    urls = [host.url("/private/1"), *pages(host, 3)]
    result = run_crawl(
        [{"url": url, "priority": -number} for number, url in enumerate(urls)],
        settings={"REP_PAGES_PER_HOST": 2, "REP_LEDGER": str(ledger)},
    )
    assert [error["reason"] for error in result.errors] == ["rule", "budget"]
    reason = "127.0.0.1 has reached its limit of 2 pages (REP_PAGES_PER_HOST)"
    assert reason in result.errors[1]["message"]
    assert (
        len(result.lines("INFO", "Requests refused: 1", "REP_PAGES_PER_HOST changes"))
        == 1
    )
    expected = (None, "override", "refused", "budget", None, None, None)
    assert decisions(ledger, urls[3]) == [expected]
    query = "SELECT count(*) AS n FROM decision WHERE reason = 'budget'"
    assert rows(ledger, query) == [{"n": 1}]
    with closing(ReportLedgers((str(ledger),), ReportLimits())) as ledgers:
        answers = [row["answer"] for row in overall(ledgers, 0.0)["answers"]]
    words = "the crawl has fetched the maximum number of pages from the host"
    assert any(words in answer for answer in answers)
    assert execute(["why", urls[3], str(ledger)], {}) == 1
    assert words in capsys.readouterr().out


@pytest.mark.parametrize("order", [543, 800])
def test_a_page_that_a_middleware_fetches_by_itself_counts_for_the_budget(
    site: Site, mode: str, order: int
) -> None:
    host = site.add(RULES)
    driver = "tests.crawl.driver_middlewares.Driver"
    requests = [
        {"url": url, "meta": {"driver": number % 2 == 0}}
        for number, url in enumerate(pages(host, 8))
    ]
    result = run_crawl(
        requests,
        mode=mode,
        settings={"REP_PAGES_PER_HOST": 3, "DOWNLOADER_MIDDLEWARES": {driver: order}},
    )
    check_refused(result, 5)
    assert len(host.pages) == 3


@pytest.mark.newest
def test_a_page_that_a_service_fetches_counts_for_the_budget_of_its_site(
    site: Site, mode: str
) -> None:
    """A middleware replaces each request by a request to a service. Pages count for their site, not for the service."""
    service = site.add(name="127.0.0.9")
    hosts = [site.add(RULES, name=f"127.0.0.{number}") for number in (2, 3, 4)]
    result = run_crawl(
        [url for host in hosts for url in pages(host, 5)],
        mode=mode,
        settings={
            "DOWNLOADER_MIDDLEWARES": {
                "tests.crawl.component_spiders.ExemptService": 725
            },
            "SERVICE_URL": service.origin,
            "REP_PAGES_PER_HOST": 2,
            "REP_CONCURRENCY_PER_ADDRESS": 1,
        },
    )
    check_refused(result, 9)
    assert len(service.pages) == 6


@pytest.mark.newest
def test_pages_from_scrapys_http_cache_do_not_count_for_the_budget(
    site: Site, mode: str, tmp_path: Path
) -> None:
    host = site.add(RULES)
    settings = {
        "CONCURRENT_REQUESTS": 1,
        "HTTPCACHE_ENABLED": True,
        "HTTPCACHE_DIR": str(tmp_path),
        "HTTPCACHE_IGNORE_HTTP_CODES": [404],
    }
    run_crawl(pages(host, 4), mode=mode, settings=settings)
    limited = {**settings, "REP_PAGES_PER_HOST": 2}
    result = run_crawl(pages(host, 8), mode=mode, settings=limited)
    check_refused(result, 2)
    assert len(result.responses) == 6
    assert len(fetched(host)) == 6


@pytest.mark.newest
@pytest.mark.parametrize("jobdir", [False, True])
def test_pages_that_return_to_the_scheduler_because_of_a_pause_count_once(
    site: Site, mode: str, jobdir: bool, tmp_path: Path
) -> None:
    """If a pause begins while a request passes the middlewares, the request returns to the scheduler. It counts only
    once for the budget.
    """
    host = site.add(RULES)

    def limit(hit: Hit) -> Answer | None:
        is_first = len([hit for hit in host.hits if hit.path != "/robots.txt"]) == 1
        is_page = hit.path != "/robots.txt"
        return busy(429, "1") if is_page and is_first else None

    host.limit = limit
    result = run_crawl(
        pages(host, 12),
        mode=mode,
        settings={
            "REP_PAGES_PER_HOST": 4,
            "REP_WAIT_TIMEOUT": 60,
            "CONCURRENT_REQUESTS_PER_DOMAIN": 2,
            "RETRY_ENABLED": True,
            **({"JOBDIR": str(tmp_path / "job")} if jobdir else {}),
        },
    )
    check_refused(result, 8)
    assert len(fetched(host)) == 4
    assert len(result.responses) == 4


@pytest.mark.newest
def test_a_page_whose_twin_is_dropped_is_not_counted_again_with_its_retry(
    site: Site,
) -> None:
    """Two requests for one URL are counted, and a component drops the second one, so that only the first one counts.
    Its retry is no new page. So one more page is within the budget of two.
    """
    host = site.add(RULES)
    twin, *others = pages(host, 3)
    crawls: list[RunningCrawl] = []

    def is_dropped() -> bool:
        return any("Once is enough" in crawl.log for crawl in crawls)

    host.answers["/page/0"] = [Answer(status=500, after=is_dropped), Answer(b"page")]
    crawl = start_crawl(
        [{"url": twin, "dont_filter": True}] * 2,
        then=[{"url": url, "priority": -n} for n, url in enumerate(others)],
        settings={
            "DOWNLOADER_MIDDLEWARES": {"tests.crawl.component_spiders.PassOnce": 500},
            "REP_PAGES_PER_HOST": 2,
            "RETRY_ENABLED": True,
        },
    )
    crawls.append(crawl)
    result = crawl.result(60)
    assert host.pages == ["/page/0", "/page/0", "/page/1"]
    assert result.fetched() == [twin, others[0]]
    assert result.error(others[1])["reason"] == "budget"


@pytest.mark.newest
def test_a_dry_run_ignores_the_budget(site: Site) -> None:
    """A dry run neither counts pages for the budget nor refuses any."""
    host = site.add(RULES)
    result = run_crawl(
        pages(host, 4), settings={"REP_PAGES_PER_HOST": 2, "REP_DRY_RUN": True}
    )
    assert len(result.responses) == 4
    assert not any("budget" in key for key in result.stats)


@pytest.mark.newest
@pytest.mark.slow
@pytest.mark.parametrize("obeys", [True, False])
def test_a_killed_and_resumed_crawl_keeps_to_the_budget_and_uses_all_of_it(
    site: Site, mode: str, obeys: bool, tmp_path: Path
) -> None:
    """However often the crawl is killed, each host gets exactly as many pages as its budget."""
    chance = random.Random(11)
    hosts = [
        with_redirects_and_failures(site.add(name=f"127.0.0.{number}"))
        for number in (21, 22, 23, 24)
    ]
    for host in hosts:
        for number in range(40):
            links = "".join(f'<a href="/page/{3 * number + n}">' for n in (1, 2, 3))
            for kind in ("page", "moved"):
                host.answers[f"/{kind}/{number}"] = Answer(links.encode(), headers=HTML)
    trial = Trial(
        site,
        tmp_path,
        [url for host in hosts for url in pages(host, 3)],
        mode=mode,
        settings={
            "CONCURRENT_REQUESTS": 8,
            "REP_PAGES_PER_HOST": 20,
            "RETRY_ENABLED": True,
            "ROBOTSTXT_OBEY": obeys,
        },
    )
    for _ in range(KILLS):
        trial.run_until(chance.randint(1, 12))
    trial.finish()
    for host in hosts:
        assert len(fetched(host)) <= 20
        assert len(fetched(host)) == 20


@pytest.mark.newest
@pytest.mark.slow
def test_pages_in_flight_at_ctrl_c_count_once_although_the_next_run_sends_them_again(
    site: Site, tmp_path: Path
) -> None:
    """Two pages are in flight when Ctrl-C is pressed twice. They are sent again in the next run, which fetches as many
    other pages as the budget of four allows.
    """
    host = site.add(RULES)
    trial = Trial(
        site,
        tmp_path,
        pages(host, 8),
        settings={"CONCURRENT_REQUESTS": 2, "REP_PAGES_PER_HOST": 4},
    )
    gate = Gate(site, 0)
    crawl = trial.start()
    crawl.until(lambda: len(host.pages) == 2)
    interrupt_twice(crawl)
    crawl.wait()
    in_flight = host.pages
    gate.open()
    trial.finish()
    assert len(fetched(host)) == 4
    assert [host.pages.count(path) for path in in_flight] == [2, 2]
    assert len(host.pages) == 2 + 4
