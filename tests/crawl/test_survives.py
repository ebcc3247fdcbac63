"""A crawl with a JOBDIR that is killed at any moment can be resumed: it loses nothing, and
fetches again only what was in flight.
"""

from __future__ import annotations

import random
import signal
import time
from typing import TYPE_CHECKING

import pytest

from tests import effort
from tests.crawl.answers import Answer
from tests.crawl.crawl import wait_until
from tests.crawl.trials import (
    AT_ONCE,
    ENDS,
    RULES,
    Trial,
    Web,
    check_delays,
    interrupt_twice,
    kill,
    moments,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.crawl.server import Site

pytestmark = [pytest.mark.newest, pytest.mark.unmeasured, pytest.mark.slow]

KILLS = 3


@pytest.mark.parametrize("end", ["kill -9", "Ctrl-C twice"])
def test_ended_at_any_moment(
    site: Site, every_mode: str, end: str, tmp_path: Path
) -> None:
    """A crawl whose process dies at random moments fetches all pages when it is resumed,
    again only those that were in flight, nothing forbidden, and keeps the delay of a host
    over the restarts. What is done stays done. Its store and its ledger are whole.
    """
    kills, pages, most = (30, 240, 12) if effort.is_long else (KILLS, 25, 10)
    web = Web(site, 4, pages, slow_pages=kills)
    ledger = {"REP_LEDGER": str(tmp_path / "job" / "ledger"), "REP_LEDGER_LEVEL": "all"}
    trial = Trial(site, tmp_path, web.start_urls, mode=every_mode, settings=ledger)
    for hits, pause in moments(kills, most):
        trial.run_until(hits, pause, ENDS[end])
    assert len(trial.hits()) < len(web.allowed), "It was not ended in the middle"
    trial.finish()
    trial.check(web.allowed, web.forbidden)
    check_delays(web.hosts[-1])
    before = trial.fetched_count
    trial.finish()
    assert trial.fetched_count == before


def test_callbacks_that_take_time(site: Site, mode: str, tmp_path: Path) -> None:
    """A request is in flight until its callback has ended: links that it had not yielded when
    its process died are found when it is fetched again.
    """
    kills = 30 if effort.is_long else KILLS
    web = Web(site, 3, 20 * kills // 2)
    trial = Trial(
        site, tmp_path, web.start_urls, mode=mode, spider="SlowSurvivorSpider"
    )
    for hits, pause in moments(kills, 20):
        trial.run_until(hits, pause)
    trial.finish()
    trial.check(web.allowed, web.forbidden)


def test_killed_while_it_stops(site: Site, mode: str, tmp_path: Path) -> None:
    """A crawl that is killed a moment after Ctrl-C loses nothing either."""
    kills = 30 if effort.is_long else KILLS
    web = Web(site, 3, 20 * kills // 2)
    trial = Trial(site, tmp_path, web.start_urls, mode=mode)
    for hits, pause in moments(kills, 20, 0.1):
        trial.run_until(hits, pause, ENDS["Ctrl-C, kill -9"])
    trial.finish()
    trial.check(web.allowed, web.forbidden)


def test_killed_at_its_start(site: Site, tmp_path: Path) -> None:
    """A crawl that is killed while it makes its files, or while the spider yields its start
    requests, begins with all of them the next time.
    """
    host = Web(site, 1, 1).hosts[0]
    urls = [host.url(f"/public/{number}") for number in range(200)]
    trial = Trial(site, tmp_path, urls)
    chance = random.Random(7)
    for _ in range(30 if effort.is_long else KILLS):
        crawl = trial.start()
        time.sleep(chance.uniform(0.1, 0.6))
        crawl.process.kill()
        crawl.wait()
    trial.finish()
    pages = host.pages
    assert set(pages) == {f"/public/{number}" for number in range(200)}
    kills = 30 if effort.is_long else KILLS
    assert len(pages) - len(set(pages)) <= 2 * AT_ONCE * kills


def test_one_page_is_in_flight_all_the_time(site: Site, tmp_path: Path) -> None:
    """A page in flight at each kill is fetched again each time, before the other requests of
    its host, until its callback has ended.
    """
    (host,) = Web(site, 1, 12).hosts
    urls = [host.url(f"/public/{number}") for number in range(10)]
    trial = Trial(site, tmp_path, urls, settings={"CONCURRENT_REQUESTS": 1})
    host.answers["/public/0"] = Answer(hang=True)
    for times in range(1, 4):
        crawl = trial.start()
        wait_until(
            lambda: (
                len(host.hits_on("/public/0")) == times  # noqa: B023
                or crawl.process.poll() is not None  # noqa: B023
            )
        )
        kill(crawl, 0)
        crawl.wait()
    del host.answers["/public/0"]
    trial.finish()
    paths = [hit.path for hit in host.hits if hit.path.startswith("/public")]
    assert paths == ["/public/0"] * 3 + [f"/public/{number}" for number in range(10)]


def test_a_second_signal_at_once(site: Site, mode: str, tmp_path: Path) -> None:
    """Requests that a second Ctrl-C cancels count as in flight, not as failed."""
    host = Web(site, 1, 1).hosts[0]
    urls = [host.url(f"/public/{number}") for number in range(30)]
    trial = Trial(site, tmp_path, urls, mode=mode, spider="SlowSurvivorSpider")
    for hits in (3, 4, 5, 6):
        trial.run_until(hits, 0, interrupt_twice)
    trial.finish()
    fetched = {note.url for note in trial.notes("item")}
    assert fetched == set(urls)


@pytest.mark.parametrize("stops", [False, True], ids=["full", "closing"])
def test_done_while_nothing_is_popped(site: Site, stops: bool, tmp_path: Path) -> None:
    """A page that is done is not fetched again, if the process is killed while the downloader
    is full, or while the spider waits for the last answer before it closes.
    """
    host = site.add(RULES)
    host.answers["/1"] = Answer(hang=True)
    urls = [host.url("/0"), host.url("/1"), host.url("/2")]
    at_once = 2 if stops else 1
    trial = Trial(site, tmp_path, urls, settings={"CONCURRENT_REQUESTS": at_once})
    crawl = trial.start()
    wait_until(lambda: host.hits_on("/1") or crawl.process.poll() is not None)
    if stops:
        crawl.process.send_signal(signal.SIGINT)
    wait_until(lambda: trial.notes("end"))
    trial.wait_for_file(host.url("/1"))
    kill(crawl, 0)
    crawl.wait()
    del host.answers["/1"]
    trial.finish()
    assert host.pages.count("/0") == 1
    assert host.pages.count("/1") == 2
    assert host.pages.count("/2") == 1
