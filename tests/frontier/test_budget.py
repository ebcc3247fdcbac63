"""Tests of the page budget (``REP_PAGES_PER_HOST``), without a network: which requests count as pages of their host,
and how many pages are admitted.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from scrapy import Request
from scrapy.http.request import NO_CALLBACK

from scrapy_rep.crawl.frontier.limits import InFlight
from tests.frontier.engine import Run

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

pytestmark = pytest.mark.newest

SITE = "http://a.example"


def page(path: object = 0, site: str = SITE, **meta: Any) -> Request:
    """Return a request for a page of *site*."""
    return Request(f"{site}/{path}", meta=meta, dont_filter=True)


def send_page(run: Run, request: Request, *, is_sent: bool = True) -> bool:
    """Return whether the budget admits *request* as a request of the scheduler. If so, send the request and end it. If
    *is_sent* is False, end it without sending it.
    """
    entry = InFlight(run.frontier.queues.of(request), came_from_scheduler=True)
    admitted = run.frontier.admits_page(request, entry)
    if admitted:
        if is_sent:
            entry.sent_at = 1.0
        run.frontier.end(request, entry)
    return admitted


def send_pages(run: Run, *requests: Request) -> list[bool]:
    """Call :func:`send_page` for each request, and return the results."""
    return [send_page(run, request) for request in requests]


def test_all_ports_and_slots_of_a_host_share_its_budget() -> None:
    """The schemes of a host, and the spellings of its name, share the budget, too."""
    run = Run(REP_PAGES_PER_HOST=5)
    assert send_pages(
        run,
        page(),
        page(site="https://a.example"),
        page(site="http://a.example:8080"),
        page(site="http://A.EXAMPLE."),
        page(download_slot="other"),
        page(1),
        page(site="http://b.example"),
    ) == [True] * 5 + [False, True]
    run.close()


def test_without_a_limit_no_pages_are_counted() -> None:
    run = Run(REP_OVERRIDES={"a.example": {"pages": 0}, "b.example": "obey"})
    assert run.frontier.budget is None
    assert send_pages(run, *map(page, range(3))) == [True] * 3
    run.close()


def test_an_override_sets_another_limit() -> None:
    """A limit of 0 means no limit. If an override has no limit, or has ended, REP_PAGES_PER_HOST applies."""
    run = Run(
        REP_PAGES_PER_HOST=2,
        REP_OVERRIDES={
            "a.example": {"pages": 3},
            "b.example": {"pages": 0},
            "c.example": "ignore",
            "d.example": {"pages": 1, "until": "2020-01-01"},
        },
    )
    admitted = Counter(
        site
        for site in "abcde"
        for number in range(5)
        if send_page(run, page(number, f"http://{site}.example"))
    )
    assert admitted == {"a": 3, "b": 5, "c": 2, "d": 2, "e": 2}
    run.close()


def test_a_page_that_was_not_sent_is_not_counted() -> None:
    run = Run(REP_PAGES_PER_HOST=1)
    assert send_page(run, page(), is_sent=False)
    assert send_page(run, page(1))
    assert not send_page(run, page(2))
    run.close()


def test_a_page_that_returns_to_the_scheduler_is_counted_once() -> None:
    run = Run(REP_PAGES_PER_HOST=1)
    run.push(page())
    for _ in range(3):
        request = run.next()
        assert request is not None
        assert run.frontier.admits_page(request, run.frontier.in_flight[request])
        # The gate judges the request a second time when it reaches the wire.
        assert run.frontier.admits_page(request, run.frontier.in_flight[request])
        assert not send_page(run, page(1))
        run.return_to_scheduler(request)
    assert send_page(run, page(1))
    run.close()


def test_a_retry_counts_only_if_its_page_was_not_counted() -> None:
    run = Run(REP_PAGES_PER_HOST=2)
    retries = [page(retry_times=number) for number in (1, 2)]
    assert send_pages(run, page(), *retries) == [True] * 3
    # The spider has copied the meta of a retry to requests for other pages.
    copies = [page(number, retry_times=2) for number in (1, 2)]
    assert send_pages(run, *copies) == [True, False]
    run.close()


def test_a_redirect_counts_only_if_it_leads_to_another_host() -> None:
    """A redirect to the same host does not count, even if the redirected request was a retry."""
    run = Run(REP_PAGES_PER_HOST=2)
    first_url = f"{SITE}/0"
    retry_redirect = page(1, redirect_urls=[first_url], retry_times=1)
    second_redirect = page(2, redirect_urls=[first_url, f"{SITE}/1"])
    https_redirect = page(2, "https://a.example", redirect_urls=[f"{SITE}/2"])
    to_other_host = page(site="http://b.example", redirect_urls=["https://a.example/2"])
    from_other_host = page(3, redirect_urls=["http://b.example/0"])
    assert (
        send_pages(
            run,
            page(),
            retry_redirect,
            second_redirect,
            https_redirect,
            to_other_host,
            from_other_host,
        )
        == [True] * 6
    )
    assert send_pages(run, page(4), page(1, "http://b.example")) == [False, True]
    assert not send_page(run, page(2, "http://b.example"))
    run.close()


def test_pages_with_copied_meta_of_a_redirect_count() -> None:
    """If a spider copies the meta of a redirected page to other requests, these look like redirects of that page."""
    run = Run(REP_PAGES_PER_HOST=2)
    copied = {"redirect_urls": [f"{SITE}/0"], "redirect_times": 1}
    pages = [page(number, **copied) for number in range(1, 5)]
    assert send_pages(run, page(), *pages) == [True, True, True, False, False]
    run.close()


def test_pages_with_copied_meta_of_a_redirect_count_if_they_come_from_a_jobdir(
    tmp_path: Path,
) -> None:
    """Page 0 was redirected, and the spider has copied the meta of the redirect to four other requests. When they come
    from the JOBDIR, each looks like the target of the redirect. Only the first one that is sent is mistaken for the
    target, and does not count as a page of the host. The other three count.
    """
    run = Run(REP_PAGES_PER_HOST=2, JOBDIR=str(tmp_path))
    assert send_page(run, page())
    copied = {"redirect_urls": [f"{SITE}/0"], "redirect_times": 1}
    run.push(*(page(number, **copied) for number in range(1, 5)))
    assert len(fetch(run, 5)) == 2  # The first request is mistaken for the redirect.
    run.close()


def test_a_returned_page_with_copied_meta_of_a_retry_counts() -> None:
    """The spider has copied the meta of a retry to the request. The request returned to the scheduler before it was
    sent, so it counts like any other page when it is sent later.
    """
    run = Run(REP_PAGES_PER_HOST=1)
    run.push(page(retry_times=1))
    request = run.next()
    assert request is not None
    assert run.frontier.admits_page(request, run.frontier.in_flight[request])
    run.return_to_scheduler(request)
    assert send_page(run, page(1))
    assert not send_page(run, request)
    run.close()


def test_a_redirect_that_returns_to_the_scheduler_is_not_counted(
    tmp_path: Path,
) -> None:
    """The page was counted before it was redirected. So the redirected request does not count, however often it returns
    to the scheduler. The next run with the same JOBDIR does not count the request either.
    """
    for settings in {}, {"JOBDIR": str(tmp_path)}:
        run = Run(REP_PAGES_PER_HOST=1, **settings)
        assert send_page(run, page())
        run.push(page(1, redirect_urls=[f"{SITE}/0"]))
        for _ in range(3):
            request = run.next()
            assert request is not None
            entry = run.frontier.in_flight[request]
            assert run.frontier.admits_page(request, entry)
            assert not send_page(run, page(2))
            run.return_to_scheduler(request)
        run.close()
    run = Run(REP_PAGES_PER_HOST=1, **settings)
    assert not send_page(run, page(2))
    for _ in range(3):
        request = run.next()
        assert request is not None
        assert run.frontier.admits_page(request, run.frontier.in_flight[request])
        run.return_to_scheduler(request)
        assert not send_page(run, page(2))
    run.close()


def test_requests_outside_the_scheduler_do_not_count() -> None:
    """These are files of pipelines, and pages that a callback downloads itself."""
    run = Run(REP_PAGES_PER_HOST=1)
    for request in (page(), Request(f"{SITE}/file", callback=NO_CALLBACK)):
        entry = InFlight(run.frontier.queues.of(request))
        assert run.frontier.admits_page(request, entry)
        assert entry.page_of == ""
    assert send_pages(run, page(1), page(2)) == [True, False]
    run.close()


def test_with_another_scheduler_all_requests_but_files_of_pipelines_count() -> None:
    run = Run(REP_PAGES_PER_HOST=1)
    run.frontier.has_scheduler = False
    file = Request(f"{SITE}/file", callback=NO_CALLBACK)
    requests = [file, page(1), page(2), file]
    results = []
    for request in requests:
        entry = InFlight(run.frontier.queues.of(request))
        results.append(run.frontier.admits_page(request, entry))
    assert results == [True, True, False, True]
    run.close()


def test_pages_with_other_schemes_than_http_do_not_count() -> None:
    run = Run(REP_PAGES_PER_HOST=1)
    pages = [page(number, "ftp://a.example") for number in range(3)]
    assert send_pages(run, *pages) == [True] * 3
    assert send_pages(run, page(1), page(2)) == [True, False]
    run.close()


# The budget with a JOBDIR.


def fetch(run: Run, count: int) -> list[str]:
    """Send up to *count* pages that the budget admits, and return their URLs. Their callbacks do not end."""
    urls = []
    while len(urls) < count and (request := run.next()) is not None:
        entry = run.frontier.in_flight[request]
        if run.frontier.admits_page(request, entry):
            entry.sent_at = 1.0
            urls.append(request.url)
        else:
            run.frontier.end(request, entry)
            run.finish(request)
    return urls


def kill(run: Run) -> None:
    """End *run* without writing pending changes to the file, like a kill of the process."""
    run.scheduler._job._file.close()  # type: ignore[union-attr]
    run.frontier.alarms.stop()


def test_a_page_that_is_sent_again_after_a_kill_counts_once(tmp_path: Path) -> None:
    """No number of kills lets the crawl exceed its limit."""
    settings = {"REP_PAGES_PER_HOST": 3, "JOBDIR": str(tmp_path)}
    run = Run(**settings)
    run.push(*(page(number) for number in range(6)))
    sent = fetch(run, 2)
    kill(run)
    for _ in range(3):
        run = Run(**settings)
        run.push(page("late"))
        sent_again = fetch(run, 1)
        assert set(sent_again) <= set(sent)
        kill(run)
    run = Run(**settings)
    run.push(page("last"))
    sent += fetch(run, 10)
    assert len(set(sent)) == 3
    run.close()


def test_finished_pages_count_in_the_next_run(tmp_path: Path) -> None:
    settings = {"REP_PAGES_PER_HOST": 3, "JOBDIR": str(tmp_path)}
    run = Run(**settings)
    run.push(page(), page(1))
    for _ in range(2):
        request = run.next()
        assert request is not None
        entry = run.frontier.in_flight[request]
        assert run.frontier.admits_page(request, entry)
        entry.sent_at = 1.0
        run.frontier.end(request, entry)
        run.finish(request)
    run.close()
    run = Run(**settings)
    run.push(page(2), page(3))
    assert len(fetch(run, 5)) == 1
    run.close()


def test_returned_pages_do_not_count_after_a_kill(tmp_path: Path) -> None:
    settings = {"REP_PAGES_PER_HOST": 2, "JOBDIR": str(tmp_path)}
    run = Run(**settings)
    run.push(*(page(number) for number in range(4)))
    requests = [run.next(), run.next()]
    for request in requests:
        assert request is not None
        assert run.frontier.admits_page(request, run.frontier.in_flight[request])
    for request in requests:
        assert request is not None
        run.return_to_scheduler(request)
    sent = fetch(run, 1)
    kill(run)
    run = Run(**settings)
    sent += fetch(run, 10)
    assert len(set(sent)) == 2
    assert len(sent) == 3 or sent[0] == sent[1]
    run.close()


def test_a_run_with_a_higher_limit_continues_the_count(tmp_path: Path) -> None:
    run = Run(REP_PAGES_PER_HOST=1, JOBDIR=str(tmp_path))
    run.push(*(page(number) for number in range(2)))
    assert len(fetch(run, 1)) == 1
    kill(run)
    run = Run(JOBDIR=str(tmp_path))  # Without a limit, no page is counted.
    assert len(fetch(run, 1)) == 1
    kill(run)
    run = Run(REP_PAGES_PER_HOST=3, JOBDIR=str(tmp_path))
    run.push(*(page(number) for number in range(2, 9)))
    assert len(fetch(run, 10)) == 3
    run.close()


def test_a_page_that_was_not_sent_leaves_a_sent_page_with_the_same_url_counted() -> (
    None
):
    """Two requests have the same URL, and one of them was not sent. A retry of the request that was sent does not count
    as a further page.
    """
    run = Run(REP_PAGES_PER_HOST=2)
    sent, unsent = page("same"), page("same")
    assert send_page(run, sent)
    assert send_page(run, unsent, is_sent=False)
    retry = page("same", retry_times=1)
    assert send_page(run, retry)
    assert run.frontier.budget is not None
    assert run.frontier.budget.pages == {"a.example": 1}
    assert send_pages(run, page("other"), page("third")) == [True, False]
    run.close()
