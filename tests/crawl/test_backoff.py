"""A host that answers 429 or 503 is left alone for as long as it asks, by its access log.

``tests/frontier/test_back_off.py`` proves how long each pause is, and how many requests follow it, and
``tests/simulation`` that crawls keep to that.
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
MIDNIGHT = {"Date": "Fri, 01 Jan 2027 00:00:00 GMT"}
FIRST_PAUSE = 0.3
A_SECOND_LATER = "Fri, 01 Jan 2027 00:00:01 GMT"


class Case(NamedTuple):
    """A host that gives *answer* to its first page, and the kinds of the pages that are requested
    at first, and in the pause: the name of the kind says how.
    """

    answer: Busy
    first: tuple[str, ...] = ("page",)
    later: tuple[str, ...] = ()


CASES = {
    "nobody goes round": Case(
        busy(429, "2"), later=("queue", "slot", "any", "files", "more")
    ),
    # By the clock of the server.
    "Retry-After with a date": Case(busy(429, A_SECOND_LATER, 1, headers=MIDNIGHT)),
    # The spider calls back_off for a page with status 200.
    "a page that asks for a pause": Case(Busy(b"slow down", pause=1.0)),
    # Those that a component holds back have their places before the pause.
    "held back until the end": Case(
        busy(503, "1", delay=0.3), first=("page", "held", "held-too")
    ),
    # Longer than REP_WAIT_TIMEOUT.
    "a day": Case(busy(429, DAY), later=("any", "files", "more")),
}


def test_nothing_is_sent_within_a_pause_whoever_asks_and_however_it_is_sent(
    site: Site, mode: str, tmp_path: Path
) -> None:
    """Whatever asks for a pause, and however the requests are sent that meet it, nothing is sent to the
    host within it. Afterwards all are sent, or all refused if it is too long.
    """
    other = site.add(name="127.0.0.20")
    start, late = other.url("/start"), other.url("/late")
    hosts = {
        name: site.add(RULES, name=f"127.0.0.{n}") for n, name in enumerate(CASES, 21)
    }
    other.answers["/late"] = Answer(after=lambda: all(map(was_busy, hosts.values())))
    other.answers["/go"] = Answer(delay=1.8)
    ways: dict[str, dict[str, list[str]]] = {"files": {late: []}, "more": {late: []}}
    follow: dict[str, list[dict[str, object]]] = {start: [], late: []}
    for host, case in zip(hosts.values(), CASES.values(), strict=True):
        limit(host, 1, case.answer)
        for when, kinds in ((start, case.first), (late, case.later)):
            for kind in kinds:
                url = host.url(f"/{kind}")
                if kind in ways:
                    ways[kind][when].append(url)
                else:
                    follow[when].append({"url": url, "meta": META.get(kind, {})})
    result = run_crawl(
        [start, late, other.url("/go")],
        mode=mode,
        spider=SPIDER,
        settings={
            **SETTINGS,
            "DOWNLOADER_MIDDLEWARES": {f"{COMPONENTS}.HoldBack": 50},
            "FILES_STORE": str(tmp_path),
        },
        follow=follow,
        **ways,
    )
    assert (result.exit_code, result.stats["finish_reason"]) == (0, "finished")
    # Scrapy 2.14 itself logs the traceback of each file that its pipeline does not get.
    assert result.lines("ERROR") == []
    assert "Unhandled" not in result.log
    assert "never retrieved" not in result.log
    assert result.stats["rep/backoff/hosts"] == len(CASES)
    refusing = hosts.pop("a day")
    for name, host in hosts.items():
        case, asked = CASES[name], host_asked(host)
        ends = asked + (case.answer.pause or 0.0) - EARLY
        assert not [hit.path for hit in host.hits if asked < hit.time < ends], name
        check_fetched(host, *(host.url(f"/{kind}") for kind in case.first + case.later))
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
    assert urls == [hosts["nobody goes round"].url("/files")]
    assert file not in urls


def host_asked(host: Host) -> float:
    """When *host* began to answer that it is busy."""
    return next(hit.answered for hit in host.hits if isinstance(hit.answer, Busy))


@pytest.mark.newest
def test_after_too_long_a_pause_one_request_asks_and_the_others_follow(
    site: Site, tmp_path: Path
) -> None:
    """After a pause that was too long to wait for, one request asks the host again. When the
    host answers it, the others follow. The log has one line at the beginning, and one at the end,
    the ledger each pause with its status and Retry-After.
    """
    ledger = tmp_path / "ledger.sqlite"
    host = limit(site.add(RULES, name="127.0.0.2"), 1, busy(429, "1"))
    other = site.add(RULES, name="127.0.0.3")
    late = other.url("/late")
    other.answers["/late"] = Answer(
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
    asked, resumed = counts["pause"]
    assert (asked, counts["pages"]) == (1.0, 6)
    asking, after = host.hits[1:3]
    assert 1.0 <= resumed <= after.time - asking.time + 0.001


IN_TURN = {
    "one of ten": ([busy(503), *[Answer()] * 9, busy(503), *[Answer()] * 9], []),
    "every second one": ([busy(503), Answer(), busy(503), Answer(status=404), busy(503)], []),
    "the second in a row": ([Answer(), busy(503), busy(503)], [3]),
    "and from then on": ([busy(503)] * 3, [2, 3]),
    "of no use": ([busy(503, "soon"), Answer(), busy(503, "-1")], []),
    "with Retry-After": ([busy(503, "1"), Answer(), busy(503), busy(503)], [1, 4]),
    "429": ([busy(429), Answer(), busy(429)], [1, 3]),
    "between 503": ([busy(503), busy(429), busy(503)], [2]),
}  # fmt: skip
"""What hosts answer to their pages, one after the other, and behind which answers they get a pause."""


@pytest.mark.newest
def test_a_503_without_retry_after_pauses_its_host_from_the_second_one_on(
    site: Site, mode: str
) -> None:
    """Without a usable Retry-After, a 503 pauses its host if the last answer of that was a 503 too. A
    429 always does.
    """
    hosts = {
        name: site.add(RULES, name=f"127.0.0.{number}")
        for number, name in enumerate(IN_TURN, 21)
    }
    urls = []
    for name, host in hosts.items():
        answers = iter(IN_TURN[name][0])
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
        pauses = IN_TURN[name][1]
        told = result.lines("INFO", f"{host.name} answered", "it gets no request for")
        assert bool(told) is bool(pauses), name
        hits = [hit for hit in host.hits if hit.path != "/robots.txt"]
        for number in pauses:
            asked = hits[number - 1].answered
            assert asked is not None
            assert hits[number].time > asked + FIRST_PAUSE - EARLY, (name, number)
    expected = sum(len(pauses) for _, pauses in IN_TURN.values())
    assert result.stats["rep/backoff/pauses"] == expected
    asking = [name for name, (_, pauses) in IN_TURN.items() if pauses]
    assert result.stats["rep/backoff/hosts"] == len(asking)


@pytest.mark.newest
def test_rep_backoff_max_bounds_own_pauses_and_0_switches_them_off(site: Site) -> None:
    """REP_BACKOFF_MAX bounds the pauses that the crawl chooses itself. With 0, it
    chooses and keeps none.
    """
    host = limit(site.add(RULES), 4, busy(503))
    settings = {**SETTINGS, "REP_BACKOFF_MAX": 0.2, "REP_WAIT_TIMEOUT": 10}
    run_crawl(pages(host, 1), settings=settings)
    check_fetched(host, *pages(host, 1))
    # Otherwise the pauses would be 1, 2, 4 and 8 seconds.
    assert host.hits[-1].time - host.hits[0].time < 12
    off = limit(site.add(RULES), 3, busy(429, DAY))
    result = run_crawl(pages(off, 12), settings={**SETTINGS, "REP_BACKOFF_MAX": 0})
    check_fetched(off, *pages(off, 12))
    assert [key for key in result.stats if "backoff" in key] == []


@pytest.mark.newest
def test_a_slow_429_from_before_a_success_begins_a_pause(site: Site) -> None:
    """A 429 without Retry-After pauses its host even if it comes so late that an earlier pause is over, and the host has
    answered another request well, which a component of the project has sent by itself.
    """
    host, other = site.add(RULES, name="127.0.0.2"), site.add(RULES, name="127.0.0.3")
    busy_url, slow, held, after = map(host.url, ("/busy", "/slow", "/held", "/after"))
    host.answers |= {
        "/busy": busy(429, after=lambda: host.hits_on("/slow")),
        "/slow": busy(429, after=lambda: host.hits_on("/held")),
    }
    # It comes when the pause after the first 429 is over, and lets the component send its request.
    other.answers["/go"] = Answer(after=lambda: was_busy(host, FIRST_PAUSE + 0.2))
    result = run_crawl(
        [busy_url, slow, {"url": held, "meta": {"driver": True}}, other.url("/go")],
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
    asked, following = host.hits_on("/slow")[0].answered, host.hits[-1]
    assert following.path == "/after"
    assert asked is not None
    assert following.time > asked + FIRST_PAUSE - EARLY


@pytest.mark.newest
def test_a_back_off_ends_in_download_slots_of_other_names(site: Site) -> None:
    """A back-off ends when a download slot sends as many requests at once as before it, also if the slot does not have
    the name of the host: with room for one in each of four slots, all four send theirs after one success.
    """
    host = site.add(RULES)
    first, probe, *more = pages(host, 6)

    def are_all_there() -> bool:
        hits = [hit for hit in host.hits if host.url(hit.path) in more]
        are_late = hits[0].time < time.monotonic() - 10
        return len(hits) == len(more) or are_late

    host.answers |= {
        "/page/0": busy(429),
        **dict.fromkeys(
            (f"/page/{n}" for n in range(2, 6)), Answer(after=are_all_there)
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
    assert host.at_once == len(more)


class SlotPausingSpider(PlanSpider):
    """Asks for a pause of its download slot after the first page. Each page is followed by those in ``follow``."""

    name = "slot-pausing"
    follow: dict[str, list[dict[str, object]]]

    def note_response(self, response: Response) -> Iterator[Request]:
        super().note_response(response)
        if response.meta.get("pauses"):
            back_off(self.crawler, response.meta["download_slot"], FIRST_PAUSE)
        yield from map(self.request, self.follow.get(response.url, ()))


@pytest.mark.newest
def test_a_pause_of_a_download_slot_ends_too(site: Site) -> None:
    """A spider pauses a download slot that has another name than the host. Each success in the slot lets it have one
    request more at a time.
    """
    host = site.add(RULES)
    first, *probes = pages(host, 3)
    more = [host.url(f"/more/{number}") for number in range(3)]

    def are_all_there() -> bool:
        hits = [hit for hit in host.hits if host.url(hit.path) in more]
        return len(hits) == len(more) or hits[0].time < time.monotonic() - 10

    host.answers |= {
        f"/more/{number}": Answer(after=are_all_there) for number in range(3)
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
    assert host.at_once == len(more)
