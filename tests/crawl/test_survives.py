"""A crawl with a JOBDIR that is killed at any moment can be resumed: it loses nothing, and
fetches again only what was in flight.
"""

from __future__ import annotations

import random
import signal
import time
from itertools import cycle
from typing import TYPE_CHECKING

import pytest

from tests import effort
from tests.crawl.answers import HANGS, Answer
from tests.crawl.trials import (
    AT_ONCE,
    ENDS,
    RULES,
    Trial,
    Web,
    check_delays,
    kill,
    moments,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.crawl.server import Site

pytestmark = [pytest.mark.newest, pytest.mark.unmeasured, pytest.mark.slow]

KILLS = 30 if effort.is_long else 3


@pytest.mark.parametrize("spider", ["SurvivorSpider", "SlowSurvivorSpider"])
def test_ended_at_any_moment(
    site: Site, every_mode: str, spider: str, tmp_path: Path
) -> None:
    """A crawl whose process dies at random moments, by SIGKILL, by Ctrl-C twice and by SIGKILL
    after Ctrl-C, fetches all pages when it is resumed, again only those that were in flight,
    nothing forbidden, and keeps the delay of a host over the restarts. What is done stays done.
    Its store and its ledger are whole.

    A page is in flight until its callback has ended, which may take time.
    """
    pages, most = (240, 12) if effort.is_long else (25, 10)
    web = Web(site, 4, pages, slow_pages=KILLS)
    ledger = {"REP_LEDGER": str(tmp_path / "job" / "ledger"), "REP_LEDGER_LEVEL": "all"}
    trial = Trial(
        site,
        tmp_path,
        web.start_urls,
        mode=every_mode,
        spider=spider,
        settings=ledger,
    )
    for (hits, pause), end in zip(moments(KILLS, most), cycle(ENDS.values())):
        trial.run_until(hits, pause, end)
    assert len(trial.hits()) < len(web.allowed), "It was not ended in the middle"
    trial.finish()
    trial.check(web.allowed, web.forbidden)
    check_delays(web.hosts[-1])
    before = trial.fetched_count
    trial.finish()
    assert trial.fetched_count == before


def test_killed_at_its_start(site: Site, tmp_path: Path) -> None:
    """A crawl that is killed while it makes its files, or while the spider yields its start
    requests, begins with all of them the next time.
    """
    host = site.add(RULES)
    paths = {f"/public/{number}" for number in range(200)}
    trial = Trial(site, tmp_path, map(host.url, paths))
    chance = random.Random(7)
    for _ in range(KILLS):
        crawl = trial.start()
        time.sleep(chance.uniform(0.1, 0.6))
        kill(crawl, 0)
        crawl.wait()
    trial.finish()
    assert set(host.pages) == paths
    assert len(host.pages) - len(paths) <= 2 * AT_ONCE * KILLS


@pytest.mark.parametrize("stops", [False, True], ids=["full", "closing"])
def test_done_while_nothing_is_popped(site: Site, stops: bool, tmp_path: Path) -> None:
    """A page that is done is not fetched again, if the process is killed while the downloader
    is full, or while the spider waits for the last answer before it closes.
    """
    host = site.add(RULES)
    closing: list[bool] = []
    # The spider begins to close before a place is free for the third page.
    host.answers |= {"/0": Answer(after=lambda: closing or not stops), "/1": HANGS}
    urls = [host.url("/0"), host.url("/1"), host.url("/2")]
    at_once = 2 if stops else 1
    trial = Trial(site, tmp_path, urls, settings={"CONCURRENT_REQUESTS": at_once})
    crawl = trial.start()
    crawl.until(lambda: host.hits_on("/1"))
    if stops:
        crawl.process.send_signal(signal.SIGINT)
        crawl.until(lambda: "Closing spider (shutdown)" in crawl.log)
        closing.append(True)
    crawl.until(lambda: trial.notes("end"))
    trial.wait_for_file(crawl, host.url("/1"))
    kill(crawl, 0)
    crawl.wait()
    del host.answers["/1"]
    trial.finish()
    assert host.pages == ["/0", "/1", "/1", "/2"]
