"""A JOBDIR on a disk that is full or read-only, with damaged files, or with two crawls."""

from __future__ import annotations

import json
import random
import shutil
import signal
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests import effort, forks
from tests.crawl.answers import Answer
from tests.crawl.crawl import ROOT, run_crawl, start_crawl, wait_until
from tests.crawl.disks import fill, forbid, free, make_read_only, small_disk
from tests.crawl.test_faults import POWERLESS
from tests.crawl.trials import ENDS, RULES, Trial, Web, check_whole, kill

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.crawl.server import Site

pytestmark = [pytest.mark.newest, pytest.mark.unmeasured]

SPIDERS = "tests.crawl.surviving_spiders."


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", 16_384) as folder:
        yield folder


def check_one_warning(log: str, *words: str) -> None:
    warnings = [
        line for line in log.splitlines() if line.startswith("WARNING [scrapy_rep")
    ]
    assert len(warnings) == 1, log
    assert all(word in warnings[0] for word in words), warnings
    assert "Traceback" not in log, log


@pytest.mark.slow
@pytest.mark.parametrize("then", ["goes on", "is killed"])
def test_a_disk_that_is_full_for_a_while(
    site: Site, mode: str, disk: Path, then: str, tmp_path: Path
) -> None:
    """While the disk is full, requests stay in memory, with one warning. When there is room
    again, they are written. If the process is killed meanwhile, the next run goes on from
    what was written before.
    """
    web = Web(site, 4, 100)
    for host in web.hosts:
        for path, answer in host.answers.items():
            host.answers[path] = replace(answer, delay=0.05)
    # The robots.txt files are elsewhere, as their store warns for itself.
    store = {"REP_STORE": f"sqlite:///{tmp_path / 'robotstxt.sqlite'}"}
    trial = Trial(site, tmp_path, web.start_urls, mode=mode, settings=store)
    trial.job = disk / "job"
    trial.settings["JOBDIR"] = str(trial.job)
    crawl = trial.start()
    wait_until(lambda: trial.fetched_count > 30 or crawl.process.poll() is not None)
    fill(disk)
    wait_until(lambda: "cannot be written" in crawl.log)
    before = trial.fetched_count
    wait_until(lambda: trial.fetched_count > before + 30)
    if then == "is killed":
        kill(crawl, 0)
        crawl.wait()
        free(disk)
        trial.finish()
        hits = trial.hits()
        assert set(hits) == web.allowed
        assert not [url for url, times in hits.items() if len(times) > 2]
    else:
        free(disk)
        result = crawl.result()
        assert result.stats["finish_reason"] == "finished"
        check_one_warning(result.log, str(disk), "full")
        assert "can be written again" in result.log
        hits = trial.hits()
        assert set(hits) == web.allowed
        assert not [url for url, times in hits.items() if len(times) > 1]
        trial.finish()
        assert trial.hits() == hits
    check_whole(trial.job)


@pytest.mark.slow
def test_files_that_may_not_grow_for_a_while(
    site: Site, mode: str, tmp_path: Path
) -> None:
    """The same where the system refuses writes beyond a size."""
    web = Web(site, 3, 60)
    store = {"REP_STORE": "memory://", "LOG_LEVEL": "INFO"}
    trial = Trial(
        site,
        tmp_path,
        web.start_urls,
        mode=mode,
        settings=store,
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


@pytest.mark.parametrize("fault", ["full", "read-only", "forbidden"])
def test_a_disk_that_never_takes_anything(
    site: Site, disk: Path, fault: str, tmp_path: Path
) -> None:
    """If the file cannot be made or opened at the start, the crawl fetches nothing, and says
    why and what to do, without a traceback.
    """
    host = site.add(RULES)
    urls = [host.url(f"/{number}") for number in range(5)]
    how: dict[str, Any] = {"spider": POWERLESS}
    job = disk / "job"
    (job / "requests.queue").mkdir(parents=True)
    settings = {"JOBDIR": str(job), "REP_STORE": "memory://"}
    if fault == "full":
        fill(disk)
    elif fault == "read-only":
        make_read_only(disk)
    else:
        forbid(job)
    result = run_crawl(urls, settings=settings, **how)
    if fault == "full":
        # SQLite may find room in the last page.
        assert host.pages in ([], sorted(f"/{number}" for number in range(5)))
        return
    assert host.pages == []
    assert str(job) in result.log


def lines_of(log: str, level: str) -> list[str]:
    return [line for line in log.splitlines() if line.startswith(f"{level} ")]


@pytest.mark.slow
def test_files_that_are_cut(site: Site, tmp_path: Path) -> None:
    """If a file of the JOBDIR was cut or overwritten at a random place, the crawl is resumed
    and fetches every page, or stops with a message that names the file. It fetches nothing
    forbidden, and deletes nothing.
    """
    web = Web(site, 3, 40)
    first = Trial(site, tmp_path / "first", web.start_urls)
    (tmp_path / "first").mkdir()
    for hits, pause in [(40, 0.01), (20, 0.02)]:
        first.run_until(hits, pause)
    done = {note.url for note in first.notes("end")}
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    chance = random.Random(seed)
    outcomes = []
    for number in range(60 if effort.is_long else 5):
        folder = tmp_path / str(number)
        folder.mkdir()
        shutil.copytree(first.job, folder / "job")
        files = [
            path
            for path in (folder / "job" / "requests.queue").rglob("*")
            if path.is_file() and path.stat().st_size
        ]
        path = chance.choice(files)
        size = path.stat().st_size
        place = chance.randrange(size)
        what = chance.choice(["cut", "zeros", "noise"])
        with path.open("r+b") as file:
            if what == "cut":
                file.truncate(place)
            else:
                length = chance.choice([1, 16, 512, 4096])
                file.seek(place)
                noise = chance.randbytes(length) if what == "noise" else bytes(length)
                file.write(noise[: size - place])
        trial = Trial(site, folder, web.start_urls)
        before = (path.parent / "requests.sqlite").stat().st_size
        already = len(site.log)
        result = trial.start().result()
        log = result.log
        assert "Traceback" not in log, (what, path.name, place, log[-3000:])
        new = {hit.host.url(hit.path) for hit in site.log[already:]}
        assert not [url for url in new if "/private/" in url]
        if result.stats.get("finish_reason") == "finished":
            lost = web.allowed - done - new
            errors = lines_of(log, "ERROR")
            assert not lost or errors, (what, path.name, place, lost)
            outcomes.append(
                f"{what} {path.name}: whole"
                if not errors
                else f"{what} {path.name}: {len(lost)} lost, named"
            )
        else:
            (line,) = [one for one in lines_of(log, "ERROR") if path.parent.name in one]
            assert "cannot be used" in line
            # SQLite moves what is in the other file to this one.
            assert (path.parent / "requests.sqlite").stat().st_size >= before
            assert not [url for url in new if not url.endswith("/robots.txt")]
            outcomes.append(f"{what} {path.name}: refused")
        shutil.rmtree(folder)
    print(*outcomes, sep="\n")


def test_two_crawls_on_one_jobdir(site: Site, mode: str, tmp_path: Path) -> None:
    """A second process on the same JOBDIR stops with a sentence, and disturbs nothing."""
    host = site.add(RULES)
    urls = [host.url(f"/{number}") for number in range(5)]
    host.answers["/2"] = Answer(after=lambda: second)
    second: list[object] = []
    trial = Trial(site, tmp_path, urls, mode=mode)
    crawl = trial.start()
    wait_until(lambda: host.hits_on("/2") or crawl.process.poll() is not None)
    other = trial.start().result()
    assert other.stats["finish_reason"] != "finished"
    (line,) = lines_of(other.log, "ERROR")
    assert "Another crawl" in line
    assert str(trial.job) in line
    assert "Traceback" not in other.log
    second.append(True)
    first = crawl.result()
    assert first.stats["finish_reason"] == "finished"
    assert host.pages == [f"/{number}" for number in range(5)]
    trial.finish()
    assert host.pages == [f"/{number}" for number in range(5)]


def test_a_crawl_that_stands_still(site: Site, tmp_path: Path) -> None:
    """A process that was stopped with SIGSTOP still has its JOBDIR; one that was killed has
    not.
    """
    host = site.add(RULES)
    host.answers["/0"] = Answer(hang=True)
    trial = Trial(site, tmp_path, [host.url("/0"), host.url("/1")])
    crawl = trial.start()
    wait_until(lambda: host.hits_on("/0"))
    crawl.process.send_signal(signal.SIGSTOP)
    other = trial.start().result()
    assert other.stats["finish_reason"] != "finished"
    kill(crawl, 0)
    crawl.wait()
    del host.answers["/0"]
    trial.finish()


def test_a_jobdir_that_is_removed(site: Site, tmp_path: Path) -> None:
    """If the JOBDIR is removed during a crawl, the crawl ends all the same."""
    host = site.add(RULES)
    trial = Trial(site, tmp_path, [host.url(f"/{n}") for n in range(30)])
    host.answers["/9"] = Answer(after=lambda: not shutil.rmtree(trial.job, True))
    result = trial.start().result()
    assert "finish_reason" in result.stats


def test_classes_of_a_project(site: Site, tmp_path: Path) -> None:
    """A SCHEDULER_DISK_QUEUE of the project is named in a warning; a DUPEFILTER_CLASS of the
    project decides, with the requests in the file.
    """
    host = site.add(RULES)
    urls = [host.url(f"/{number}") for number in range(12)]
    settings = {
        "DUPEFILTER_CLASS": f"{SPIDERS}OwnFilter",
        "SCHEDULER_DISK_QUEUE": f"{SPIDERS}OwnDiskQueue",
        "CONCURRENT_REQUESTS": 1,
    }
    trial = Trial(site, tmp_path, urls, settings=settings)
    crawl = trial.run_until(5)
    warnings = lines_of(crawl.log, "WARNING")
    assert len(warnings) == 1, warnings
    assert "OwnDiskQueue" in warnings[0]
    assert "not used" in warnings[0]
    result = trial.finish()
    assert result.stats["own_filter/dropped"] == 1
    assert set(host.pages) == {f"/{number}" for number in range(12) if number != 9}


def test_two_jobdirs_in_one_process(site: Site, mode: str, tmp_path: Path) -> None:
    """Two spiders in one process each have a JOBDIR of their own, after a kill as well."""
    host = site.add(RULES)
    parts = [[host.url(f"/{crawl}/{n}") for n in range(20)] for crawl in "ab"]
    host.answers |= {f"/{c}/{n}": Answer(delay=0.05) for c in "ab" for n in range(20)}
    command = ["tests.crawl.two_jobs", mode, str(tmp_path), json.dumps(parts)]
    process = forks.start(command, cwd=ROOT, stdout=1, stderr=2)
    wait_until(lambda: len(host.pages) >= 12 or process.poll() is not None)
    process.send_signal(signal.SIGKILL)
    process.wait(60)
    count = len(host.pages)
    assert count < 40
    done = forks.run(command, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert set(host.pages) == {f"/{c}/{n}" for c in "ab" for n in range(20)}
    assert len(host.pages) <= 40 + 2 * 16


@pytest.mark.slow
def test_a_clock_that_is_set_between_runs(site: Site, tmp_path: Path) -> None:
    """The queue does not depend on the clock of the machine."""
    host = site.add(RULES)
    urls = [host.url(f"/{number}") for number in range(20)]
    trial = Trial(site, tmp_path, urls)
    trial.run_until(8)
    trial.how["spider"] = "tests.crawl.waiting_spiders.ClockSpider"
    trial.how["offset"] = -30 * 3600.0
    trial.finish()
    assert set(host.pages) == {f"/{number}" for number in range(20)}


@pytest.mark.slow
def test_more_hosts_than_files(tmp_path: Path) -> None:
    """A crawl of 500 hosts with a JOBDIR needs no more than 128 open files: it runs, stops,
    is killed, and is resumed.
    """
    hosts, each = 500, 2
    log = tmp_path / "web.log"
    settings = {
        "CONCURRENT_REQUESTS": 16,
        "DOWNLOAD_HANDLERS": {"http": f"{SPIDERS}WebHandler"},
        "JOBDIR": str(tmp_path / "job"),
        "LOG_LEVEL": "INFO",
        "WEB_LOG": str(log),
    }
    how: dict[str, Any] = {
        "spider": f"{SPIDERS}FewFilesSpider",
        "hosts": hosts,
        "each": each,
        "files": 128,
    }
    stopped = run_crawl(settings={**settings, "CLOSESPIDER_PAGECOUNT": 400}, **how)
    assert stopped.stats["finish_reason"] == "closespider_pagecount", stopped.log
    crawl = start_crawl(settings=settings, **how)
    before = log.stat().st_size
    wait_until(
        lambda: log.stat().st_size > before + 5_000 or crawl.process.poll() is not None
    )
    kill(crawl, 0)
    crawl.wait()
    result = run_crawl(settings=settings, **how)
    assert result.stats["finish_reason"] == "finished", result.log
    assert "log_count/ERROR" not in result.stats, result.log
    assert result.stats["open_files"] < 100
    urls = [url for url in log.read_text().split() if not url.endswith("/robots.txt")]
    wanted = {f"http://host-{h}.example/{p}" for h in range(hosts) for p in range(each)}
    assert set(urls) == wanted
    assert len(urls) <= len(wanted) + 32


def test_a_disk_that_is_full_at_the_end(site: Site, disk: Path, tmp_path: Path) -> None:
    """A crawl that ends on a full disk is resumed when there is room again, although Scrapy
    has written no whole state of its queue.
    """
    host = site.add(RULES)
    urls = [host.url(f"/{number}") for number in range(40)]
    host.answers |= {f"/{n}": Answer(delay=0.05) for n in range(40)}
    trial = Trial(site, tmp_path, urls, settings={"REP_STORE": "memory://"})
    trial.job = disk / "job"
    trial.settings["JOBDIR"] = str(trial.job)
    crawl = trial.start(CLOSESPIDER_PAGECOUNT=12)
    wait_until(lambda: len(host.pages) > 6 or crawl.process.poll() is not None)
    fill(disk)
    crawl.result()
    assert len(host.pages) < 40
    free(disk)
    trial.finish()
    assert set(host.pages) == {f"/{number}" for number in range(40)}


@pytest.mark.parametrize("text", ["", '["scrapy_rep.HostQu'])
def test_a_state_that_scrapy_was_writing(site: Site, text: str, tmp_path: Path) -> None:
    """A process that was killed while Scrapy wrote the state of the queue leaves a part of
    it. The crawl is resumed from its file.
    """
    host = site.add(RULES)
    urls = [host.url(f"/{number}") for number in range(20)]
    trial = Trial(site, tmp_path, urls)
    trial.run_until(6, 0, ENDS["Ctrl-C twice"])
    (trial.job / "requests.queue" / "active.json").write_text(text)
    trial.finish()
    assert set(host.pages) == {f"/{number}" for number in range(20)}
