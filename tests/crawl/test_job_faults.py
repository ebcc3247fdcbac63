"""Crawls with a JOBDIR that is on a full or read-only disk, has damaged files, is used by several crawls, or
was written by another queue.
"""

from __future__ import annotations

import json
import shutil
import signal
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from tests import forks
from tests.crawl.answers import Answer
from tests.crawl.crawl import ROOT, run_crawl, wait_until
from tests.crawl.disks import forbid, make_read_only, small_disk
from tests.crawl.test_faults import POWERLESS
from tests.crawl.trials import RULES, Gate, Trial, interrupt_twice

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.crawl.crawl import RunningCrawl
    from tests.crawl.server import Host, Site

pytestmark = [pytest.mark.newest, pytest.mark.unmeasured]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", 16_384) as folder:
        yield folder


def numbered_pages(host: Host, count: int) -> tuple[list[str], set[str]]:
    """Return the URLs and the paths of *count* pages."""
    paths = [f"/{number}" for number in range(count)]
    return [host.url(path) for path in paths], set(paths)


def lines_of(log: str, level: str) -> list[str]:
    return [line for line in log.splitlines() if line.startswith(f"{level} ")]


def single_error(log: str) -> str:
    """Return the only error line of *log*. Fail if there are several, or a traceback."""
    (line,) = lines_of(log, "ERROR")
    assert "Traceback" not in log, log
    return line


def check_one_warning(log: str, *words: str) -> None:
    """Check that *log* has no traceback, and one warning of this package, which contains *words*."""
    (warning,) = [line for line in lines_of(log, "WARNING") if "[scrapy_rep" in line]
    assert all(word in warning for word in words), warning
    assert "Traceback" not in log, log


@pytest.mark.slow
def test_requests_wait_in_memory_while_files_may_not_grow(
    site: Site, tmp_path: Path
) -> None:
    """While the system refuses to let files grow beyond a size, requests stay in memory, and one warning
    is logged. No page is lost or fetched again. ``tests/simulation`` tests full disks, also when a process
    ends.
    """
    host = site.add(RULES)
    urls, paths = numbered_pages(host, 180)
    trial = Trial(
        site,
        tmp_path,
        urls,
        settings={"REP_STORE": "memory://", "LOG_LEVEL": "INFO"},
        spider="LimitedSurvivorSpider",
        limit=70_000,
        first=20,
        last=120,
    )
    result = trial.finish()
    check_one_warning(result.log, str(trial.job))
    assert host.pages == sorted(paths)


def replace_by_a_file(folder: Path) -> None:
    """Replace *folder*, the JOBDIR, by a file."""
    shutil.rmtree(folder)
    folder.write_bytes(b"")


@pytest.mark.parametrize("break_jobdir", [make_read_only, forbid, replace_by_a_file])
def test_nothing_is_fetched_if_the_jobdir_cannot_be_written(
    site: Site, mode: str, disk: Path, break_jobdir: Callable[[Path], None]
) -> None:
    """The log has one error, which names the JOBDIR. The same applies if the JOBDIR cannot be created."""
    host = site.add(RULES)
    urls, _ = numbered_pages(host, 5)
    job = disk / "job"
    (job / "requests.queue").mkdir(parents=True)
    break_jobdir(disk if break_jobdir is make_read_only else job)
    settings = {"JOBDIR": str(job)}
    result = run_crawl(urls, mode=mode, settings=settings, spider=POWERLESS)
    assert result.stats["finish_reason"] == "jobdir_unusable"
    assert host.hits == []
    line = single_error(result.log)
    assert f"The crawl stops: {job} cannot be used" in line


# tests/frontier/test_jobfile.py tests all kinds of damage.
def test_a_crawl_with_a_truncated_queue_file_fetches_and_deletes_nothing(
    site: Site, tmp_path: Path
) -> None:
    """The error names the file. When the file is complete again, the crawl can be resumed."""
    host = site.add(RULES)
    urls, paths = numbered_pages(host, 60)
    trial = Trial(site, tmp_path, urls)
    trial.start(CLOSESPIDER_PAGECOUNT=5).result()
    path = trial.job / "rep.queue" / "requests.sqlite"
    complete = path.read_bytes()
    path.write_bytes(complete[: len(complete) // 2])
    before = host.pages
    result = trial.start().result()
    assert result.stats["finish_reason"] != "finished"
    line = single_error(result.log)
    assert f"{path} cannot be used" in line
    assert host.pages == before
    assert path.stat().st_size >= len(complete) // 2
    path.write_bytes(complete)
    trial.finish()
    assert set(host.pages) == paths


def test_a_second_process_with_the_same_jobdir_stops_and_does_not_disturb_the_first(
    site: Site, mode: str, tmp_path: Path
) -> None:
    """The second process stops with one error, even while the first process is suspended."""
    host = site.add(RULES)
    urls, paths = numbered_pages(host, 5)
    host.answers["/2"] = Answer(after=lambda: second_has_ended)
    second_has_ended: list[bool] = []
    trial = Trial(site, tmp_path, urls, mode=mode)
    crawl = trial.start()
    crawl.until(lambda: host.hits_on("/2"))
    crawl.process.send_signal(signal.SIGSTOP)
    try:
        second = trial.start().result(60)
    finally:
        crawl.process.send_signal(signal.SIGCONT)
        second_has_ended.append(True)
    assert second.stats["finish_reason"] != "finished"
    line = single_error(second.log)
    assert "Another crawl" in line
    assert str(trial.job) in line
    assert crawl.result().stats["finish_reason"] == "finished"
    trial.finish()
    assert host.pages == sorted(paths)


def test_one_of_several_crawls_that_start_at_once_with_a_new_jobdir_runs(
    site: Site, mode: str, tmp_path: Path
) -> None:
    """Of four crawls that start at the same time, one creates the file of the queue and fetches the pages.
    Each other crawl stops with one error.
    """
    host = site.add(RULES)
    urls, paths = numbered_pages(host, 5)
    host.answers["/2"] = Answer(after=lambda: stopped)
    stopped: list[RunningCrawl] = []
    trial = Trial(site, tmp_path, urls, mode=mode)
    crawls = [trial.start() for _ in range(4)]
    wait_until(lambda: sum(running.process.poll() is None for running in crawls) == 1)
    stopped += [running for running in crawls if running.process.poll() is not None]
    for running in stopped:
        result = running.result()
        assert result.stats["finish_reason"] == "jobdir_unusable"
        line = single_error(result.log)
        assert "Another crawl is using the queue" in line
    (first,) = set(crawls) - set(stopped)
    assert first.result().stats["finish_reason"] == "finished"
    assert host.pages == sorted(paths)


def test_a_crawl_whose_jobdir_is_removed_ends(site: Site, tmp_path: Path) -> None:
    host = site.add(RULES)
    urls, _ = numbered_pages(host, 30)
    trial = Trial(site, tmp_path, urls)
    host.answers["/9"] = Answer(after=lambda: not shutil.rmtree(trial.job, True))
    assert "finish_reason" in trial.start().result().stats


def test_two_spiders_in_one_process_have_a_jobdir_each(
    site: Site, mode: str, tmp_path: Path
) -> None:
    """The process is killed and started again. Each spider resumes its own JOBDIR."""
    host = site.add(RULES)
    parts = [[f"/{crawl}/{n}" for n in range(20)] for crawl in "ab"]
    paths = {path for part in parts for path in part}
    gate = Gate(site, 12)
    crawls = [
        [{"JOBDIR": str(tmp_path / name), "CONCURRENT_REQUESTS": 4}, *map(host.url, part)]
        for name, part in zip("ab", parts, strict=True)
    ]  # fmt: skip
    command = ["tests.crawl.two_crawls", mode, json.dumps(crawls)]
    process = forks.Popen(command, cwd=ROOT)
    try:
        wait_until(lambda: len(host.pages) >= 12 or process.poll() is not None)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(60)
    assert len(host.pages) < 40
    gate.open()
    completed = forks.run(command, cwd=ROOT)
    assert completed.returncode == 0, completed.stderr
    assert set(host.pages) == paths
    assert len(host.pages) <= 40 + 2 * 16


def test_a_crawl_is_resumed_after_the_clock_was_set_back(
    site: Site, tmp_path: Path
) -> None:
    """The clock of the second run is 30 hours behind that of the first run."""
    host = site.add(RULES)
    urls, paths = numbered_pages(host, 20)
    trial = Trial(site, tmp_path, urls)
    trial.run_until(6, interrupt_twice)
    trial.crawl_arguments["spider"] = "tests.crawl.waiting_spiders.ClockSpider"
    trial.crawl_arguments["offset"] = -30 * 3600.0
    trial.finish()
    assert set(host.pages) == paths


BY_SLOTS = "scrapy.pqueues.DownloaderAwarePriorityQueue"
BY_PRIORITIES = "scrapy.pqueues.ScrapyPriorityQueue"


def contents(folder: Path) -> dict[str, bytes]:
    """Return the contents of the files in *folder* that are not empty, by their relative paths."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.stat().st_size
    }


def write_as_another_version(path: Path) -> None:
    """Write the number of another format into the file at *path*."""
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 99")


@pytest.mark.parametrize(
    ("queue", "end"),
    [
        (BY_SLOTS, "stopped"),
        (BY_SLOTS, "killed"),
        (BY_SLOTS, "finished"),
        (BY_PRIORITIES, "stopped"),
    ],
)
def test_a_jobdir_of_scrapys_queue_stops_the_crawl_and_is_not_changed(
    site: Site, queue: str, end: str, tmp_path: Path
) -> None:
    """In a JOBDIR that Scrapy's own queue wrote, a crawl stops with one error, fetches nothing, and
    changes nothing. Scrapy's queue can then resume its crawl.
    """
    host = site.add(RULES)
    urls, paths = numbered_pages(host, 30)
    links = "".join(f'<a href="{url}">' for url in urls)
    host.answers["/0"] = Answer(links.encode(), headers={"Content-Type": "text/html"})
    trial = Trial(site, tmp_path, urls[:1])
    stock = {"SCHEDULER_PRIORITY_QUEUE": queue, "ADDONS": {}}
    if end == "killed":
        trial.run_until(10, **stock)
    else:
        count = 10 if end == "stopped" else 0
        trial.start(**stock, CLOSESPIDER_PAGECOUNT=count).result()
    before, fetched = contents(trial.job), list(host.pages)
    stopped = trial.start().result()
    assert stopped.stats["finish_reason"] == "jobdir_unusable"
    line = single_error(stopped.log)
    assert f"The JOBDIR {trial.job} contains a crawl with another scheduler" in line
    assert host.pages == fetched
    assert contents(trial.job) == before
    if end == "stopped":
        trial.start(**stock).result()
        assert set(host.pages) == paths


@pytest.mark.parametrize("is_killed", [True, False])
def test_another_scheduler_does_not_start_with_a_jobdir_of_this_package(
    site: Site, tmp_path: Path, is_killed: bool
) -> None:
    """Another scheduler would start the crawl in the JOBDIR from its beginning. A later run with this
    package's scheduler resumes the crawl.
    """
    host = site.add(RULES)
    urls, paths = numbered_pages(host, 30)
    trial = Trial(site, tmp_path, urls)
    if is_killed:
        trial.run_until(5)
    else:
        trial.start(CLOSESPIDER_PAGECOUNT=5).result()
    fetched = list(host.pages)
    second = trial.start(SCHEDULER="scrapy.core.scheduler.Scheduler")
    second.wait()
    assert "SettingError: JOBDIR is" in second.log
    assert host.pages == fetched
    trial.finish()
    assert set(host.pages) == paths


def test_a_file_of_another_version_stops_the_crawl_and_is_not_changed(
    site: Site, tmp_path: Path
) -> None:
    """The file was written by another version of this package. The crawl stops with one error."""
    host = site.add(RULES)
    urls, _ = numbered_pages(host, 30)
    trial = Trial(site, tmp_path, urls)
    trial.start(CLOSESPIDER_PAGECOUNT=5).result()
    write_as_another_version(trial.job / "rep.queue" / "requests.sqlite")
    before, fetched = contents(trial.job), list(host.pages)
    stopped = trial.start().result()
    line = single_error(stopped.log)
    assert "another version of scrapy-rep wrote the file" in line
    assert host.pages == fetched
    assert contents(trial.job) == before
