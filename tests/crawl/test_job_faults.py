"""A JOBDIR on a disk that is full or read-only, with damaged files, with two crawls, or written by
Scrapy's own classes or an earlier version of this package.
"""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests import effort, forks
from tests.crawl.answers import Answer, robots
from tests.crawl.crawl import ROOT, run_crawl, wait_until
from tests.crawl.disks import fill, forbid, free, make_read_only, small_disk
from tests.crawl.test_faults import POWERLESS
from tests.crawl.trials import (
    ENDS,
    HTML,
    RULES,
    Gate,
    Trial,
    Web,
    check_whole,
    kill,
    moments,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
    """The same where the system refuses writes beyond a size, also where nothing can be mounted."""
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


@pytest.mark.parametrize("spoil", [make_read_only, forbid])
def test_a_disk_that_never_takes_anything(
    site: Site, disk: Path, spoil: Callable[[Path], None]
) -> None:
    """If the file cannot be made or opened at the start, the crawl fetches nothing, and names the
    JOBDIR.
    """
    host = site.add(RULES)
    urls, _ = numbered(host, 5)
    job = disk / "job"
    (job / "requests.queue").mkdir(parents=True)
    spoil(disk if spoil is make_read_only else job)
    settings = {"JOBDIR": str(job), "REP_STORE": "memory://"}
    result = run_crawl(urls, settings=settings, spider=POWERLESS)
    assert host.pages == []
    assert str(job) in result.log


# tests/frontier/test_jobfile.py damages a file in every way.
def test_a_file_that_is_cut(site: Site, tmp_path: Path) -> None:
    """A crawl whose file was cut fetches nothing, names the file, and deletes nothing. When the
    file is whole again, the crawl goes on.
    """
    host = site.add(RULES)
    urls, paths = numbered(host, 200)
    trial = Trial(site, tmp_path, urls)
    trial.start(CLOSESPIDER_PAGECOUNT=5).result()
    path = trial.job / "requests.queue" / "requests.sqlite"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    before = host.pages
    result = trial.start().result()
    assert result.stats["finish_reason"] != "finished"
    (line,) = lines_of(result.log, "ERROR")
    assert f"{path} cannot be used" in line
    assert "Traceback" not in result.log
    assert host.pages == before
    assert path.stat().st_size >= len(whole) // 2
    path.write_bytes(whole)
    trial.finish()
    assert set(host.pages) == paths


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
    process = forks.Popen(command, cwd=ROOT)
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


FIXTURES = Path(__file__).parent / "jobdirs"
OLD = {
    "queue-of-folders": "version 0.1.0 before it had a file, with a folder for each host",
    "half-sorted": "the same version, while it sorted what Scrapy's own class had written",
}
HOSTS = [f"http://{name}.example" for name in "abc"]
PAGES, LINKS = 12, 3
SURVIVOR = "tests.crawl.surviving_spiders."


def requests_of_old() -> list[dict[str, Any]]:
    """Return the start requests of the crawl whose JOBDIR is stored."""
    return [
        {
            "url": f"{host}/{page}",
            "priority": page % 3,
            "meta": {"page": page},
            **({"method": "POST", "body": "a=b"} if page % 5 == 4 else {}),
        }
        for page in range(PAGES)
        for host in HOSTS
    ]


def links_of(url: str) -> list[str]:
    """Return the links of a start page."""
    return [f"{url}/{number}" for number in range(LINKS)]


def all_of_old() -> set[str]:
    urls = {request["url"] for request in requests_of_old()}
    return urls | {link for url in urls for link in links_of(url)}


def proxy_of(site: Site) -> Host:
    """Return a proxy to all hosts of the stored crawl."""
    proxy = site.add()
    for host in HOSTS:
        proxy.answers[f"{host}/robots.txt"] = robots(RULES)
        for page in range(PAGES):
            links = "".join(f'<a href="{url}">' for url in links_of(f"{host}/{page}"))
            proxy.answers[f"{host}/{page}"] = Answer(links.encode(), headers=HTML)
    return proxy


@pytest.mark.parametrize("old", OLD)
def test_an_earlier_version(site: Site, mode: str, old: str, tmp_path: Path) -> None:
    """Every request that waits in the JOBDIR of an earlier version is fetched once, and no
    page that it had fetched is fetched again.
    """
    proxy = proxy_of(site)
    job = shutil.copytree(FIXTURES / old, tmp_path / "job")
    before = set((job / "fetched").read_text().split())
    result = run_crawl(
        requests_of_old(),
        mode=mode,
        spider=f"{SURVIVOR}ProxiedSpider",
        proxy=proxy.origin,
        journal=str(tmp_path / "journal"),
        settings={"JOBDIR": str(job)},
    )
    assert result.stats["finish_reason"] == "finished"
    assert "log_count/ERROR" not in result.stats, result.log
    pages = [page for page in proxy.pages if not page.endswith("/robots.txt")]
    assert sorted(pages) == sorted(all_of_old() - before)
    check_whole(job)


SLOT_BY_SLOT = "DownloaderAwarePriorityQueue"
STOCK = {
    name: f"scrapy.pqueues.{name}" for name in (SLOT_BY_SLOT, "ScrapyPriorityQueue")
}


class Migration:
    """A crawl that stock Scrapy began, with many requests in its queue when it was stopped."""

    def __init__(
        self, site: Site, folder: Path, stock: str, pages: int, **settings: Any
    ) -> None:
        # Without robots.txt, both crawls may fetch everything.
        self.hosts = [site.add(RULES, name=f"127.0.4.{n + 1}") for n in range(5)]
        self.requests = [
            {
                "url": host.url(f"/{page}"),
                "priority": page % 4 - 2,
                "meta": {"page": page, "is_start_request": bool(page % 2)},
            }
            for page in range(pages)
            for host in self.hosts
        ]
        for host in self.hosts:
            links = b'<a href="/link/1"><a href="/link/2">'
            host.answers["/0"] = Answer(links, headers=HTML)
        self.trial = Trial(site, folder, self.requests)
        settings = {
            "CLOSESPIDER_PAGECOUNT": 20,
            "SCHEDULER_PRIORITY_QUEUE": STOCK[stock],
            **settings,
        }
        began = run_crawl(
            self.requests,
            enable={},
            settings={**self.trial.settings, **settings},
            **self.trial.how,
        )
        assert began.stats["finish_reason"] == "closespider_pagecount"
        self.by_stock = self.trial.hits()
        assert 20 <= len(self.by_stock) < len(self.requests) / 2

    @property
    def allowed(self) -> set[str]:
        urls = {request["url"] for request in self.requests}
        return urls | {
            host.url(f"/link/{number}") for host in self.hosts for number in (1, 2)
        }


@pytest.mark.parametrize("stock", STOCK)
def test_stock_scrapy(site: Site, mode: str, stock: str, tmp_path: Path) -> None:
    """Every request that waits in the JOBDIR of Scrapy's own classes is fetched once, and no
    page that was fetched or is in its duplicate filter is fetched again. If the requests cannot
    be moved yet, the crawl says so and stops, and the next run moves them.
    """
    migration = Migration(site, tmp_path, stock, 60)
    trial = migration.trial
    trial.how["mode"] = mode
    folder = trial.job / "requests.queue"
    queue = next(path for path in folder.rglob("*") if path.name in ("0", "-1"))
    away = queue.rename(tmp_path / "away")
    queue.mkdir()
    stopped = trial.start().result()
    assert stopped.stats["finish_reason"] != "finished"
    assert f"{folder} cannot be used" in stopped.log
    assert "Traceback" not in stopped.log
    assert set(trial.hits()) == set(migration.by_stock)
    queue.rmdir()
    away.rename(queue)
    trial.finish()
    hits = trial.hits()
    assert set(hits) == migration.allowed
    assert [url for url, times in hits.items() if len(times) > 1] == []
    trial.finish()
    assert trial.hits() == hits


@pytest.mark.slow
def test_killed_while_requests_are_moved(site: Site, tmp_path: Path) -> None:
    """A crawl that is killed while it moves the requests of Scrapy's own queue to its file
    loses none of them.
    """
    kills, pages = (30, 400) if effort.is_long else (3, 120)
    migration = Migration(site, tmp_path, SLOT_BY_SLOT, pages)
    trial = migration.trial
    for hits, pause in moments(kills, 6, 0.02):
        trial.run_until(hits, pause)
    trial.finish()
    hits = trial.hits()
    assert set(hits) == migration.allowed
    assert not [url for url in migration.by_stock if len(hits[url]) > 1]
    repeated = sum(len(times) - 1 for times in hits.values())
    assert repeated <= kills * 2 * trial.settings["CONCURRENT_REQUESTS"]


def test_killed_stock_scrapy(site: Site, tmp_path: Path) -> None:
    """A JOBDIR of stock Scrapy that was killed has queue files that nobody can tell from
    old ones, and no list of them. The crawl begins with its start requests.
    """
    host = site.add(RULES)
    urls = [host.url(f"/{page}") for page in range(60)]
    trial = Trial(site, tmp_path, urls)
    stock = {"SCHEDULER_PRIORITY_QUEUE": STOCK[SLOT_BY_SLOT]}
    trial.run_until(10, **stock, ADDONS={})
    assert not (trial.job / "requests.queue" / "active.json").exists()
    trial.finish()
    assert set(trial.hits()) == set(urls)


def test_the_same_state_twice(site: Site, tmp_path: Path) -> None:
    """The queues of Scrapy are moved also if others with the same state were moved before: a
    project may use this package now and then.
    """
    host = site.add(RULES)
    state = tmp_path / "job" / "requests.queue" / "active.json"
    states = []
    for part in "ab":
        urls = [host.url(f"/{part}/{number}") for number in range(40)]
        trial = Trial(site, tmp_path, urls)
        settings = {**trial.settings, "CLOSESPIDER_PAGECOUNT": 8}
        run_crawl(urls, enable={}, settings=settings, **trial.how)
        states.append(state.read_text())
        trial.run_until(5)
    assert states[0] == states[1]
    trial.finish()
    assert set(trial.hits()) == {
        host.url(f"/{part}/{number}") for part in "ab" for number in range(40)
    }
