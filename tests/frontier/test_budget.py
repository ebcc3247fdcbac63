"""Which requests count as pages of their host, and how many pass; without a network."""

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
    return Request(f"{site}/{path}", meta=meta, dont_filter=True)


def admits(run: Run, request: Request, *, is_sent: bool = True) -> bool:
    """Whether a *request* of the scheduler passes. If so, it is sent, and ends."""
    entry = InFlight(run.frontier.queues.of(request), came_from_scheduler=True)
    admitted = run.frontier.admits_page(request, entry)
    if admitted:
        if is_sent:
            entry.sent_at = 1.0
        run.frontier.end(request, entry)
    return admitted


def admitted(run: Run, *requests: Request) -> list[bool]:
    return [admits(run, request) for request in requests]


def test_all_ports_and_slots_of_a_host_share_its_budget() -> None:
    """The pages of a host name count together, whatever their scheme, port or download slot, and
    however the name is written.
    """
    run = Run(REP_PAGES_PER_HOST=5)
    assert admitted(
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


def test_without_a_limit_nothing_is_counted() -> None:
    run = Run(REP_OVERRIDES={"a.example": {"pages": 0}, "b.example": "obey"})
    assert run.frontier.budget is None
    assert admitted(run, *map(page, range(3))) == [True] * 3
    run.close()


def test_an_override_sets_another_limit() -> None:
    """An override sets another limit for its host, or none; where it does not say, the limit of all
    hosts holds.
    """
    run = Run(
        REP_PAGES_PER_HOST=2,
        REP_OVERRIDES={
            "a.example": {"pages": 3},
            "b.example": {"pages": 0},
            "c.example": "ignore",
            "d.example": {"pages": 1, "until": "2020-01-01"},
        },
    )
    passed = Counter(
        site
        for site in "abcde"
        for number in range(5)
        if admits(run, page(number, f"http://{site}.example"))
    )
    assert passed == {"a": 3, "b": 5, "c": 2, "d": 2, "e": 2}
    run.close()


def test_what_was_not_sent_gives_its_place_back() -> None:
    run = Run(REP_PAGES_PER_HOST=1)
    assert admits(run, page(), is_sent=False)
    assert admits(run, page(1))
    assert not admits(run, page(2))
    run.close()


def test_what_is_returned_is_not_counted_twice() -> None:
    run = Run(REP_PAGES_PER_HOST=1)
    run.push(page())
    for _ in range(3):
        request = run.next()
        assert request is not None
        assert run.frontier.admits_page(request, run.frontier.in_flight[request])
        # The gate judges it once more at the wire.
        assert run.frontier.admits_page(request, run.frontier.in_flight[request])
        assert not admits(run, page(1))
        run.return_to_scheduler(request)
    assert admits(run, page(1))
    run.close()


def test_a_retry_of_a_counted_page_is_no_further_page() -> None:
    """A retry of a page that was counted is no further page; one of another page is."""
    run = Run(REP_PAGES_PER_HOST=2)
    retries = [page(retry_times=number) for number in (1, 2)]
    assert admitted(run, page(), *retries) == [True] * 3
    # The spider has copied the meta to requests for other pages.
    copies = [page(number, retry_times=2) for number in (1, 2)]
    assert admitted(run, *copies) == [True, False]
    run.close()


def test_a_redirect_within_the_host_is_no_further_page() -> None:
    """A redirect within the host is no further page, also that of a retry; one to another host is."""
    run = Run(REP_PAGES_PER_HOST=2)
    first = f"{SITE}/0"
    moved = page(1, redirect_urls=[first], retry_times=1)
    again = page(2, redirect_urls=[first, f"{SITE}/1"])
    secure = page(2, "https://a.example", redirect_urls=[f"{SITE}/2"])
    away = page(site="http://b.example", redirect_urls=["https://a.example/2"])
    back = page(3, redirect_urls=["http://b.example/0"])
    assert admitted(run, page(), moved, again, secure, away, back) == [True] * 6
    assert admitted(run, page(4), page(1, "http://b.example")) == [False, True]
    assert not admits(run, page(2, "http://b.example"))
    run.close()


def test_copied_meta_of_a_redirect_gives_no_free_page() -> None:
    """If a spider copies the meta of a redirected page, its further requests look like redirects of
    that page, and count.
    """
    run = Run(REP_PAGES_PER_HOST=2)
    copied = {"redirect_urls": [f"{SITE}/0"], "redirect_times": 1}
    pages = [page(number, **copied) for number in range(1, 5)]
    assert admitted(run, page(), *pages) == [True, True, True, False, False]
    run.close()


def test_copied_meta_of_a_redirect_gives_no_free_page_from_a_jobdir(
    tmp_path: Path,
) -> None:
    """Also if all of these requests were pushed while each could still be the redirect of that page, as its callback
    pushes them.
    """
    run = Run(REP_PAGES_PER_HOST=2, JOBDIR=str(tmp_path))
    assert admits(run, page())
    copied = {"redirect_urls": [f"{SITE}/0"], "redirect_times": 1}
    run.push(*(page(number, **copied) for number in range(1, 5)))
    assert len(fetch(run, 5)) == 2  # The first one is taken for the redirect.
    run.close()


def test_a_returned_page_with_copied_meta_is_no_retry_of_itself() -> None:
    """A page with the copied meta of a retry, which returns to the scheduler, was not sent, so that
    it is no retry of itself.
    """
    run = Run(REP_PAGES_PER_HOST=1)
    run.push(page(retry_times=1))
    request = run.next()
    assert request is not None
    assert run.frontier.admits_page(request, run.frontier.in_flight[request])
    run.return_to_scheduler(request)
    assert admits(run, page(1))
    assert not admits(run, request)
    run.close()


def test_a_returned_redirect_belongs_to_its_page(tmp_path: Path) -> None:
    """A redirect that returns to the scheduler belongs to its page each time that it comes, also in
    the next run.
    """
    for settings in {}, {"JOBDIR": str(tmp_path)}:
        run = Run(REP_PAGES_PER_HOST=1, **settings)
        assert admits(run, page())
        run.push(page(1, redirect_urls=[f"{SITE}/0"]))
        for _ in range(3):
            request = run.next()
            assert request is not None
            entry = run.frontier.in_flight[request]
            assert run.frontier.admits_page(request, entry)
            assert not admits(run, page(2))
            run.return_to_scheduler(request)
        run.close()
    run = Run(REP_PAGES_PER_HOST=1, **settings)
    assert not admits(run, page(2))
    for _ in range(3):
        request = run.next()
        assert request is not None
        assert run.frontier.admits_page(request, run.frontier.in_flight[request])
        run.return_to_scheduler(request)
        assert not admits(run, page(2))
    run.close()


def test_what_comes_past_the_scheduler_does_not_count() -> None:
    """Files of pipelines, and what a callback downloads itself, do not count."""
    run = Run(REP_PAGES_PER_HOST=1)
    for request in (page(), Request(f"{SITE}/file", callback=NO_CALLBACK)):
        entry = InFlight(run.frontier.queues.of(request))
        assert run.frontier.admits_page(request, entry)
        assert entry.page_of == ""
    assert admitted(run, page(1), page(2)) == [True, False]
    run.close()


def test_with_another_scheduler_all_but_files_count() -> None:
    """All but files of pipelines count."""
    run = Run(REP_PAGES_PER_HOST=1)
    run.frontier.has_scheduler = False
    file = Request(f"{SITE}/file", callback=NO_CALLBACK)
    requests = [file, page(1), page(2), file]
    passes = []
    for request in requests:
        entry = InFlight(run.frontier.queues.of(request))
        passes.append(run.frontier.admits_page(request, entry))
    assert passes == [True, True, False, True]
    run.close()


def test_other_schemes_do_not_count() -> None:
    run = Run(REP_PAGES_PER_HOST=1)
    pages = [page(number, "ftp://a.example") for number in range(3)]
    assert admitted(run, *pages) == [True] * 3
    assert admitted(run, page(1), page(2)) == [True, False]
    run.close()


# With a JOBDIR.


def fetch(run: Run, count: int) -> list[str]:
    """Have *count* pages pass the gate, if there are as many, and be sent. None of them is done."""
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
    """End *run* without writing what was not written."""
    run.scheduler._job._file.close()  # type: ignore[union-attr]
    run.frontier.alarms.stop()


def test_a_page_that_is_sent_again_after_a_kill_counts_once(tmp_path: Path) -> None:
    """What was sent before a kill, and is sent again, counts once. Further pages never pass."""
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


def test_pages_that_are_done_count_in_the_next_run(tmp_path: Path) -> None:
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


def test_what_has_come_back_does_not_count_after_a_kill(tmp_path: Path) -> None:
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


def test_a_run_with_a_higher_limit_goes_on(tmp_path: Path) -> None:
    run = Run(REP_PAGES_PER_HOST=1, JOBDIR=str(tmp_path))
    run.push(*(page(number) for number in range(2)))
    assert len(fetch(run, 1)) == 1
    kill(run)
    run = Run(JOBDIR=str(tmp_path))  # Without a limit, nothing is counted.
    assert len(fetch(run, 1)) == 1
    kill(run)
    run = Run(REP_PAGES_PER_HOST=3, JOBDIR=str(tmp_path))
    run.push(*(page(number) for number in range(2, 9)))
    assert len(fetch(run, 10)) == 3
    run.close()


def test_a_page_that_was_not_sent_leaves_a_sent_page_with_the_same_url_counted() -> (
    None
):
    """Two requests have the same URL. One was not sent after all; a retry of the other one is no new page."""
    run = Run(REP_PAGES_PER_HOST=2)
    first, twin = page("same"), page("same")
    assert admits(run, first)
    assert admits(run, twin, is_sent=False)
    retry = page("same", retry_times=1)
    assert admits(run, retry)
    assert run.frontier.budget is not None
    assert run.frontier.budget.pages == {"a.example": 1}
    assert admitted(run, page("other"), page("third")) == [True, False]
    run.close()
