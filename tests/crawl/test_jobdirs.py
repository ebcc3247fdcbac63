"""A JOBDIR that Scrapy's own classes wrote, or an earlier version of this package, is resumed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests import effort
from tests.crawl.answers import Answer, robots
from tests.crawl.crawl import run_crawl
from tests.crawl.trials import HTML, RULES, Trial, check_whole, moments

if TYPE_CHECKING:
    from tests.crawl.server import Host, Site

pytestmark = [pytest.mark.newest, pytest.mark.unmeasured]

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
