"""Tests of back-off in real crawls: the access log of a host that answers 429 or 503 has no request within the pause.

``tests/frontier/test_back_off.py`` tests the length of each pause, and the number of requests after it.
``tests/simulation`` tests pauses in simulated crawls.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

import pytest

from scrapy_rep import back_off
from tests.crawl.answers import Answer, Busy, busy
from tests.crawl.crawl import run_crawl
from tests.crawl.pauses import EARLY, check_fetched, limit, pages, was_busy
from tests.crawl.spiders import PlanSpider
from tests.crawl.test_ledger import rows
from tests.crawl.test_politeness import in_slots, traffic

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from scrapy import Request
    from scrapy.http import Response

    from tests.crawl.server import Host, Site

DAY = "86400"
RULES = "User-agent: *\nDisallow: /private/\n"
SPIDER = "tests.crawl.waiting_spiders.EveryWaySpider"
COMPONENTS = "tests.crawl.component_spiders"
DRIVER = "tests.crawl.driver_middlewares.Driver"
SETTINGS = {
    "CONCURRENT_REQUESTS_PER_DOMAIN": 8,
    "ITEM_PIPELINES": {"scrapy.pipelines.files.FilesPipeline": 1},
    "REP_BACKOFF_MAX": 60,
    "REP_WAIT_TIMEOUT": 3,
    "RETRY_ENABLED": True,
    "RETRY_TIMES": 50,
}
META = {"any": {"dont_obey_robotstxt": True}, "slot": {"download_slot": "two"}}
"""The meta of the requests for the pages /any and /slot. Other requests have no meta."""

MIDNIGHT = {"Date": "Fri, 01 Jan 2027 00:00:00 GMT"}
FIRST_PAUSE = 0.3
A_SECOND_LATER = "Fri, 01 Jan 2027 00:00:01 GMT"


class Case(NamedTuple):
    """A host that asks for a pause, and the names of the pages that are requested before the pause and in it.

    ``answer`` is the answer of the host to the first request for a page. It begins the pause.

    The name of a page says how the page is requested:

    - "files": by FilesPipeline.
    - "more": with ``engine.download_async``.
    - "any": with ``dont_obey_robotstxt``.
    - "slot": in a download slot that does not have the name of the host.
    - "held", "held-too": the downloader middleware HoldBack holds the request back for some time.
    - "page", "queue": by an ordinary request of the spider.
    """

    answer: Busy
    before_pause: tuple[str, ...] = ("page",)
    in_pause: tuple[str, ...] = ()


CASES = {
    "requests of all kinds": Case(
        busy(429, "2"), in_pause=("queue", "slot", "any", "files", "more")
    ),
    # The date is one second after the Date header of the same answer.
    "Retry-After with a date": Case(busy(429, A_SECOND_LATER, 1, headers=MIDNIGHT)),
    # The spider calls back_off for a page with status 200.
    "a page that asks for a pause": Case(Busy(b"slow down", pause=1.0)),
    # These requests pass the limiter before the pause begins. Then a downloader middleware holds them back.
    "requests held back by a component": Case(
        busy(503, "1", delay=0.3), before_pause=("page", "held", "held-too")
    ),
    # The pause is longer than REP_WAIT_TIMEOUT.
    "a day": Case(busy(429, DAY), in_pause=("any", "files", "more")),
}


def test_no_request_of_any_kind_is_sent_to_a_host_within_its_pause(
    site: Site, mode: str, tmp_path: Path
) -> None:
    """No request is sent to a host within its pause, whatever began the pause, and however the request is made.

    After the pause, all requests are sent. If the pause is too long, all requests are refused.
    """
    # The pages of this host control the order of events.
    control = site.add(name="127.0.0.20")
    start, late = control.url("/start"), control.url("/late")
    hosts = {
        name: site.add(RULES, name=f"127.0.0.{n}") for n, name in enumerate(CASES, 21)
    }
    # The callback of /late makes its requests when all pauses have begun. When the response for /go arrives, HoldBack
    # releases the requests that it has held back.
    control.answers["/late"] = Answer(after=lambda: all(map(was_busy, hosts.values())))
    control.answers["/go"] = Answer(delay=1.8)
    downloads_of: dict[str, dict[str, list[str]]] = {
        "files": {late: []},
        "more": {late: []},
    }
    follow: dict[str, list[dict[str, object]]] = {start: [], late: []}
    for host, case in zip(hosts.values(), CASES.values(), strict=True):
        limit(host, 1, case.answer)
        for parent, page_names in ((start, case.before_pause), (late, case.in_pause)):
            for page in page_names:
                url = host.url(f"/{page}")
                if page in downloads_of:
                    downloads_of[page][parent].append(url)
                else:
                    follow[parent].append({"url": url, "meta": META.get(page, {})})
    result = run_crawl(
        [start, late, control.url("/go")],
        mode=mode,
        spider=SPIDER,
        settings={
            **SETTINGS,
            "DOWNLOADER_MIDDLEWARES": {f"{COMPONENTS}.HoldBack": 50},
            "FILES_STORE": str(tmp_path),
        },
        follow=follow,
        **downloads_of,
    )
    assert (result.exit_code, result.stats["finish_reason"]) == (0, "finished")
    # Only lines of this package count: Scrapy 2.14 logs an error for each file that FilesPipeline cannot download.
    assert result.lines("ERROR") == []
    assert "Unhandled" not in result.log
    assert "never retrieved" not in result.log
    assert result.stats["rep/backoff/hosts"] == len(CASES)
    refusing = hosts.pop("a day")
    for name, host in hosts.items():
        case, pause_start = CASES[name], busy_since(host)
        pause_end = pause_start + (case.answer.pause or 0.0) - EARLY
        hits = [hit for hit in host.hits if pause_start < hit.time < pause_end]
        assert not [hit.path for hit in hits], name
        page_names = case.before_pause + case.in_pause
        check_fetched(host, *(host.url(f"/{page}") for page in page_names))
    page, file = refusing.url("/page"), refusing.url("/files")
    errors = {error["url"]: error.get("reason") for error in result.errors}
    assert errors == {page: "back-off", refusing.url("/any"): "back-off"}
    assert refusing.pages == ["/page"]
    assert result.lines("WARNING", refusing.name, "answered 429")
    downloads = {item["url"]: item["error"] for item in result.items if "error" in item}
    assert downloads[refusing.url("/more")] == "RobotsDenied"
    urls = [
        file_info["url"] for item in result.items for file_info in item.get("files", ())
    ]
    assert urls == [hosts["requests of all kinds"].url("/files")]
    assert file not in urls


def busy_since(host: Host) -> float:
    """Return the time at which *host* first answered 429 or 503."""
    return next(hit.answered for hit in host.hits if isinstance(hit.answer, Busy))


@pytest.mark.newest
def test_one_request_is_sent_alone_after_a_pause_longer_than_the_wait_timeout(
    site: Site, tmp_path: Path
) -> None:
    """If a pause is longer than REP_WAIT_TIMEOUT, one request is sent alone after it. When the host has answered this
    request, the others are sent.

    The log has one line when the pause begins, and one when the host answers again. The ledger has the pause with its
    status and Retry-After.
    """
    ledger = tmp_path / "ledger.sqlite"
    host = limit(site.add(RULES, name="127.0.0.2"), 1, busy(429, "1"))
    # The page /late of this host is answered when the pause is over. Then the probe is requested.
    control = site.add(RULES, name="127.0.0.3")
    late = control.url("/late")
    control.answers["/late"] = Answer(
        after=lambda: was_busy(host, seconds=1.2),
    )
    first, probe, *more = pages(host, 6)
    result = run_crawl(
        [first, late],
        spider=SPIDER,
        settings={**SETTINGS, "REP_WAIT_TIMEOUT": 0.5, "REP_LEDGER": str(ledger)},
        follow={late: [{"url": probe}], probe: [{"url": url} for url in more]},
    )
    assert [error["url"] for error in result.errors] == [first]
    check_fetched(host, probe, *more)
    assert result.stats["rep/backoff/seconds"] == pytest.approx(1, abs=0.01)
    assert result.stats["rep/denied/back-off"] == 1
    assert (
        len(
            result.lines(
                "WARNING", host.name, "answered 429", "more than REP_WAIT_TIMEOUT"
            )
        )
        == 1
    )
    assert len(result.lines("INFO", host.name, "answers again")) == 1
    query = "SELECT * FROM decision WHERE reason = 'back-off' AND verdict = 'noted'"
    (row,) = rows(ledger, query)
    decision = row["layer"], row["statement"], row["origin"], row["url"]
    assert decision == ("delay", "429, Retry-After: 1", host.origin, first)
    counts = traffic(ledger, host)
    pause_seconds, observed_seconds = counts["pause"]
    assert (pause_seconds, counts["pages"]) == (1.0, 6)
    busy_hit, next_hit = host.hits[1:3]
    assert 1.0 <= observed_seconds <= next_hit.time - busy_hit.time + 0.001


SEQUENCES = {
    "one 503 in ten answers": ([busy(503), *[Answer()] * 9, busy(503), *[Answer()] * 9], []),
    "every second answer is a 503": ([busy(503), Answer(), busy(503), Answer(status=404), busy(503)], []),
    "two 503 in a row": ([Answer(), busy(503), busy(503)], [3]),
    "three 503 in a row": ([busy(503)] * 3, [2, 3]),
    "503 with an invalid Retry-After": ([busy(503, "soon"), Answer(), busy(503, "-1")], []),
    "503 with Retry-After": ([busy(503, "1"), Answer(), busy(503), busy(503)], [1, 4]),
    "429 without Retry-After": ([busy(429), Answer(), busy(429)], [1, 3]),
    "429 between two 503": ([busy(503), busy(429), busy(503)], [2]),
}  # fmt: skip
"""The first answers of a host, in their order, and the numbers of those that begin a pause, counted from 1."""


@pytest.mark.newest
def test_a_503_without_retry_after_begins_a_pause_if_the_answer_before_it_was_a_503(
    site: Site, mode: str
) -> None:
    """Without a valid Retry-After, a single 503 does not begin a pause; a second one in a row does. Each 429 begins a
    pause.
    """
    hosts = {
        name: site.add(RULES, name=f"127.0.0.{number}")
        for number, name in enumerate(SEQUENCES, 21)
    }
    urls = []
    for name, host in hosts.items():
        answers = iter(SEQUENCES[name][0])
        host.limit = lambda hit, answers=answers: (
            None if hit.path == "/robots.txt" else next(answers, None)
        )
        urls += pages(host, 20)
    settings = {
        **SETTINGS,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
        "REP_WAIT_TIMEOUT": 60,
    }
    constants = {"scrapy_rep.crawl.frontier.limits._FIRST_PAUSE": FIRST_PAUSE}
    result = run_crawl(urls, mode=mode, settings=settings, constants=constants)
    assert result.errors == []
    for name, host in hosts.items():
        pauses = SEQUENCES[name][1]
        lines = result.lines("INFO", f"{host.name} answered", "it gets no request for")
        assert bool(lines) is bool(pauses), name
        hits = [hit for hit in host.hits if hit.path != "/robots.txt"]
        for number in pauses:
            pause_start = hits[number - 1].answered
            assert pause_start is not None
            pause_end = pause_start + FIRST_PAUSE - EARLY
            assert hits[number].time > pause_end, (name, number)
    expected = sum(len(pauses) for _, pauses in SEQUENCES.values())
    assert result.stats["rep/backoff/pauses"] == expected
    paused_hosts = [name for name, (_, pauses) in SEQUENCES.items() if pauses]
    assert result.stats["rep/backoff/hosts"] == len(paused_hosts)


@pytest.mark.newest
def test_rep_backoff_max_limits_pauses_and_0_disables_them(site: Site) -> None:
    """REP_BACKOFF_MAX limits the length of pauses for answers without Retry-After. With 0, there are no pauses,
    not even for answers with Retry-After.
    """
    host = limit(site.add(RULES), 4, busy(503))
    settings = {**SETTINGS, "REP_BACKOFF_MAX": 0.2, "REP_WAIT_TIMEOUT": 10}
    run_crawl(pages(host, 1), settings=settings)
    check_fetched(host, *pages(host, 1))
    # Without the limit, the pauses would be 1, 2, 4 and 8 seconds.
    assert host.hits[-1].time - host.hits[0].time < 12
    off = limit(site.add(RULES), 3, busy(429, DAY))
    result = run_crawl(pages(off, 12), settings={**SETTINGS, "REP_BACKOFF_MAX": 0})
    check_fetched(off, *pages(off, 12))
    assert [key for key in result.stats if "backoff" in key] == []


@pytest.mark.newest
def test_a_late_429_begins_a_pause_even_after_a_success(site: Site) -> None:
    """A 429 without Retry-After begins a pause, even if it arrives late.

    When it arrives, the pause after an earlier 429 is over, and the host has successfully answered a request that a
    component of the project sent by itself.
    """
    host, control = (site.add(RULES, name=f"127.0.0.{n}") for n in (2, 3))
    busy_url, slow, held, after = map(host.url, ("/busy", "/slow", "/held", "/after"))
    host.answers |= {
        "/busy": busy(429, after=lambda: host.hits_on("/slow")),
        "/slow": busy(429, after=lambda: host.hits_on("/held")),
    }
    # This page is answered when the pause after the first 429 is over. Then HoldBack lets the driver send its request.
    control.answers["/go"] = Answer(after=lambda: was_busy(host, FIRST_PAUSE + 0.2))
    result = run_crawl(
        [busy_url, slow, {"url": held, "meta": {"driver": True}}, control.url("/go")],
        spider=SPIDER,
        settings={
            **SETTINGS,
            "DOWNLOADER_MIDDLEWARES": {f"{COMPONENTS}.HoldBack": 500, DRIVER: 543},
            "REP_WAIT_TIMEOUT": 60,
            "RETRY_ENABLED": False,
        },
        constants={"scrapy_rep.crawl.frontier.limits._FIRST_PAUSE": FIRST_PAUSE},
        follow={slow: [{"url": after}]},
    )
    assert result.errors == []
    pause_start, following = host.hits_on("/slow")[0].answered, host.hits[-1]
    assert following.path == "/after"
    assert pause_start is not None
    assert following.time > pause_start + FIRST_PAUSE - EARLY


@pytest.mark.newest
def test_a_back_off_also_ends_in_download_slots_with_other_names(site: Site) -> None:
    """A back-off ends when a download slot has its full concurrency again, even if the name of the slot is not the name
    of the host.

    Here, each of four slots has a concurrency of 1, so the first success ends the back-off. Then the four slots send
    their requests at the same time.
    """
    host = site.add(RULES)
    first, probe, *more = pages(host, 6)

    def have_all_arrived() -> bool:
        hits = [hit for hit in host.hits if host.url(hit.path) in more]
        is_too_late = hits[0].time < time.monotonic() - 10
        return len(hits) == len(more) or is_too_late

    host.answers |= {
        "/page/0": busy(429),
        **dict.fromkeys(
            (f"/page/{n}" for n in range(2, 6)), Answer(after=have_all_arrived)
        ),
    }
    slots = [f"slot {number}" for number in range(len(more))]
    result = run_crawl(
        in_slots([first], *slots),
        spider=SPIDER,
        settings={
            **SETTINGS,
            "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
            "REP_REQUEST_META_KEYS": ["download_slot"],
            "RETRY_ENABLED": False,
        },
        constants={"scrapy_rep.crawl.frontier.limits._FIRST_PAUSE": FIRST_PAUSE},
        follow={first: in_slots([probe], *slots), probe: in_slots(more, *slots)},
    )
    assert result.errors == []
    check_fetched(host, probe, *more)
    assert host.max_concurrent == len(more)


class SlotPausingSpider(PlanSpider):
    """Sends the requests in ``follow`` after each page. If the page has the meta key ``pauses``, pauses its slot
    first.
    """

    name = "slot-pausing"
    follow: dict[str, list[dict[str, object]]]

    def note_response(self, response: Response) -> Iterator[Request]:
        super().note_response(response)
        if response.meta.get("pauses"):
            back_off(self.crawler, response.meta["download_slot"], FIRST_PAUSE)
        yield from map(self.request, self.follow.get(response.url, ()))


@pytest.mark.newest
def test_each_success_after_a_pause_raises_the_concurrency_of_a_download_slot(
    site: Site,
) -> None:
    """A spider pauses a download slot whose name is not the name of the host. After the pause, each success in the slot
    raises the concurrency of the slot by one.
    """
    host = site.add(RULES)
    first, *probes = pages(host, 3)
    more = [host.url(f"/more/{number}") for number in range(3)]

    def have_all_arrived() -> bool:
        hits = [hit for hit in host.hits if host.url(hit.path) in more]
        return len(hits) == len(more) or hits[0].time < time.monotonic() - 10

    host.answers |= {
        f"/more/{number}": Answer(after=have_all_arrived) for number in range(3)
    }
    meta = {"download_slot": "slot"}
    chain = [*probes, *more]
    follow = {
        first: [{"url": probes[0], "meta": meta}],
        probes[0]: [{"url": probes[1], "meta": meta}],
        probes[1]: [{"url": url, "meta": meta} for url in more],
    }
    result = run_crawl(
        [{"url": first, "meta": {**meta, "pauses": True}}],
        spider=f"{__name__}.SlotPausingSpider",
        settings=SETTINGS,
        follow=follow,
    )
    assert result.errors == []
    check_fetched(host, first, *chain)
    paused, following = host.hits[1], host.hits[2]
    assert following.time > paused.time + FIRST_PAUSE - EARLY
    assert host.max_concurrent == len(more)
