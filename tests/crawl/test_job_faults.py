"""A JOBDIR on a disk that is full or read-only, with damaged files, or with two crawls."""

from __future__ import annotations

import json
import shutil
import signal
from typing import TYPE_CHECKING

import pytest

from tests import forks
from tests.crawl.answers import Answer
from tests.crawl.crawl import ROOT, run_crawl, wait_until
from tests.crawl.disks import fill, forbid, free, make_read_only, small_disk
from tests.crawl.test_faults import POWERLESS
from tests.crawl.trials import ENDS, RULES, Gate, Trial, Web, check_whole, kill

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.crawl.server import Host, Site

pytestmark = [pytest.mark.newest, pytest.mark.unmeasured]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", 16_384) as folder:
        yield folder


def numbered(host: Host, count: int) -> tuple[list[str], set[str]]:
    """Return the URLs and the paths of *count* pages."""
    paths = [f"/{number}" for number in range(count)]
    return [host.url(path) for path in paths], set(paths)


def lines_of(log: str, level: str) -> list[str]:
    return [line for line in log.splitlines() if line.startswith(f"{level} ")]


def check_one_warning(log: str, *words: str) -> None:
    (warning,) = [line for line in lines_of(log, "WARNING") if "[scrapy_rep" in line]
    assert all(word in warning for word in words), warning
    assert "Traceback" not in log, log


def put_on(disk: Path, trial: Trial) -> None:
    """Put the JOBDIR on *disk*, and the robots.txt files elsewhere, as their store warns for
    itself.
    """
    trial.job = disk / "job"
    trial.settings |= {"JOBDIR": str(trial.job), "REP_STORE": "memory://"}


@pytest.mark.slow
@pytest.mark.parametrize("then", ["goes on", "is killed"])
def test_a_disk_that_is_full_for_a_while(
    site: Site, mode: str, disk: Path, then: str, tmp_path: Path
) -> None:
    """While the disk is full, requests stay in memory, with one warning. When there is room
    again, they are written. If the process is killed meanwhile, the next run goes on from
    what was written before.
    """
    web = Web(site, 4, 50)
    trial = Trial(site, tmp_path, web.start_urls, mode=mode)
    put_on(disk, trial)
    gate = Gate(site, 20)
    crawl = trial.start()
    crawl.until(lambda: trial.fetched_count > 20)
    fill(disk)
    gate.most = 120
    crawl.until(lambda: "cannot be written" in crawl.log)
    crawl.until(lambda: trial.fetched_count > 120)
    most = 1
    if then == "is killed":
        most = 2
        kill(crawl, 0)
        crawl.wait()
        free(disk)
        gate.open()
    else:
        free(disk)
        gate.open()
        result = crawl.result()
        assert result.stats["finish_reason"] == "finished"
        check_one_warning(result.log, str(disk), "full")
        assert "can be written again" in result.log
        assert set(trial.hits()) == web.allowed
    trial.finish()
    hits = trial.hits()
    assert set(hits) == web.allowed
    assert not [url for url, times in hits.items() if len(times) > most]
    check_whole(trial.job)


@pytest.mark.slow
def test_files_that_may_not_grow_for_a_while(
    site: Site, mode: str, tmp_path: Path
) -> None:
    """The same where the system refuses writes beyond a size."""
    web = Web(site, 3, 60)
    trial = Trial(
        site,
        tmp_path,
        web.start_urls,
        mode=mode,
        settings={"REP_STORE": "memory://", "LOG_LEVEL": "INFO"},
        spider="LimitedSurvivorSpider",
        limit=70_000,
        first=20,
        last=120,
    )
    result = trial.finish()
    check_one_warning(result.log, str(trial.job))
    hits = trial.hits()
    assert set(hits) == web.allowed
    assert not [url for url, times in hits.items() if len(times) > 1]


def test_a_disk_that_is_full_at_the_end(site: Site, disk: Path, tmp_path: Path) -> None:
    """A crawl that ends on a full disk is resumed when there is room again, although Scrapy
    has written no whole state of its queue.
    """
    host = site.add(RULES)
    urls, paths = numbered(host, 40)
    trial = Trial(site, tmp_path, urls)
    put_on(disk, trial)
    gate = Gate(site, 6)
    crawl = trial.start(CLOSESPIDER_PAGECOUNT=12)
    crawl.until(lambda: len(host.pages) > 6)
    fill(disk)
    gate.open()
    crawl.result()
    assert len(host.pages) < 40
    free(disk)
    trial.finish()
    assert set(host.pages) == paths


@pytest.mark.parametrize("fault", ["full", "read-only", "forbidden"])
def test_a_disk_that_never_takes_anything(site: Site, disk: Path, fault: str) -> None:
    """If the file cannot be made or opened at the start, the crawl fetches nothing, and says
    why and what to do, without a traceback.
    """
    host = site.add(RULES)
    urls, paths = numbered(host, 5)
    job = disk / "job"
    (job / "requests.queue").mkdir(parents=True)
    if fault == "full":
        fill(disk)
    elif fault == "read-only":
        make_read_only(disk)
    else:
        forbid(job)
    settings = {"JOBDIR": str(job), "REP_STORE": "memory://"}
    result = run_crawl(urls, settings=settings, spider=POWERLESS)
    if fault == "full":
        # SQLite may find room in the last page.
        assert set(host.pages) in (set(), paths)
        return
    assert host.pages == []
    assert str(job) in result.log


def test_two_crawls_on_one_jobdir(site: Site, mode: str, tmp_path: Path) -> None:
    """A second process on the same JOBDIR stops with a sentence, and disturbs nothing, even if
    the first one stands still.
    """
    host = site.add(RULES)
    urls, paths = numbered(host, 5)
    host.answers["/2"] = Answer(after=lambda: others)
    others: list[bool] = []
    trial = Trial(site, tmp_path, urls, mode=mode)
    crawl = trial.start()
    crawl.until(lambda: host.hits_on("/2"))
    crawl.process.send_signal(signal.SIGSTOP)
    try:
        other = trial.start().result(60)
    finally:
        crawl.process.send_signal(signal.SIGCONT)
        others.append(True)
    assert other.stats["finish_reason"] != "finished"
    (line,) = lines_of(other.log, "ERROR")
    assert "Another crawl" in line
    assert str(trial.job) in line
    assert "Traceback" not in other.log
    assert crawl.result().stats["finish_reason"] == "finished"
    trial.finish()
    assert host.pages == sorted(paths)


def test_a_jobdir_that_is_removed(site: Site, tmp_path: Path) -> None:
    """If the JOBDIR is removed during a crawl, the crawl ends all the same."""
    host = site.add(RULES)
    urls, _ = numbered(host, 30)
    trial = Trial(site, tmp_path, urls)
    host.answers["/9"] = Answer(after=lambda: not shutil.rmtree(trial.job, True))
    assert "finish_reason" in trial.start().result().stats


def test_a_filter_of_a_project(site: Site, tmp_path: Path) -> None:
    """A DUPEFILTER_CLASS of the project decides, with the requests in the file."""
    host = site.add(RULES)
    urls, paths = numbered(host, 12)
    settings = {
        "DUPEFILTER_CLASS": "tests.crawl.surviving_spiders.OwnFilter",
        "CONCURRENT_REQUESTS": 1,
    }
    trial = Trial(site, tmp_path, urls, settings=settings)
    trial.run_until(5)
    result = trial.finish()
    assert result.stats["own_filter/dropped"] == 1
    assert set(host.pages) == paths - {"/9"}


def test_two_jobdirs_in_one_process(site: Site, mode: str, tmp_path: Path) -> None:
    """Two spiders in one process each have a JOBDIR of their own, after a kill as well."""
    host = site.add(RULES)
    parts = [[f"/{crawl}/{n}" for n in range(20)] for crawl in "ab"]
    paths = {path for part in parts for path in part}
    gate = Gate(site, 12)
    crawls = [
        [{"JOBDIR": str(tmp_path / name), "CONCURRENT_REQUESTS": 4}, *map(host.url, part)]
        for name, part in zip("ab", parts, strict=True)
    ]  # fmt: skip
    command = ["tests.crawl.two_crawls", mode, json.dumps(crawls)]
    process = forks.start(command, cwd=ROOT, stdout=1, stderr=2)
    wait_until(lambda: len(host.pages) >= 12 or process.poll() is not None)
    process.send_signal(signal.SIGKILL)
    process.wait(60)
    assert len(host.pages) < 40
    gate.open()
    done = forks.run(command, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert set(host.pages) == paths
    assert len(host.pages) <= 40 + 2 * 16


def test_a_clock_and_a_state_that_are_wrong(site: Site, tmp_path: Path) -> None:
    """The crawl is resumed from its file, although the clock of the machine was set, and the
    process was killed while Scrapy wrote the state of the queue.
    """
    host = site.add(RULES)
    urls, paths = numbered(host, 20)
    trial = Trial(site, tmp_path, urls)
    trial.run_until(6, 0, ENDS["Ctrl-C twice"])
    state = trial.job / "requests.queue" / "active.json"
    state.write_text('["scrapy_rep.HostQu')
    trial.how["spider"] = "tests.crawl.waiting_spiders.ClockSpider"
    trial.how["offset"] = -30 * 3600.0
    trial.finish()
    assert set(host.pages) == paths
