"""Stores keep robots.txt files between crawls, and a failing store causes one warning."""

from __future__ import annotations

import inspect
import shutil
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scrapy_rep.protocol.origins import origin_of
from tests.crawl.answers import Answer
from tests.crawl.crawl import run_crawl, start_crawl
from tests.crawl.own_store import FolderStore
from tests.crawl.server import PAGE
from tests.stores.redis_server import free_port

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.crawl.crawl import CrawlResult
    from tests.crawl.server import Host, Site

pytestmark = [pytest.mark.newest, pytest.mark.unmeasured]

RULES = "User-agent: *\nDisallow: /private/\n"


def urls(hosts: list[Host], name: str, count: int = 4) -> list[str]:
    """Return *count* allowed and *count* forbidden URLs of each host."""
    return [
        host.url(f"/{kind}/{name}-{number}")
        for number in range(count)
        for host in hosts
        for kind in ("public", "private")
    ]


def check_obeyed(asked: list[str], hosts: list[Host], result: CrawlResult) -> None:
    """Check that all allowed pages were fetched, and all forbidden ones refused."""
    assert result.exit_code == 0, result.log
    forbidden = [url for url in asked if "/private/" in url]
    assert result.fetched() == sorted(set(asked) - set(forbidden))
    errors = sorted((error["url"], error["error"]) for error in result.errors)
    assert errors == [(url, "RobotsDenied") for url in sorted(forbidden)]
    for host in hosts:
        assert not [page for page in host.pages if page.startswith("/private/")]
    assert "log_count/ERROR" not in result.stats, result.log


def wait_until(condition: Callable[[], object], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "It has not come to that in time"
        time.sleep(0.01)


def test_run_again(site: Site, mode: str, tmp_path: Path) -> None:
    """A second run with the same JOBDIR fetches no robots.txt, and obeys the stored ones."""
    hosts = [site.add(RULES) for _ in range(5)]
    settings = {"JOBDIR": str(tmp_path)}
    for run in ("first", "second"):
        asked = urls(hosts, run)
        result = run_crawl(asked, settings=settings, mode=mode)
        check_obeyed(asked, hosts, result)
        assert [len(host.robots_hits) for host in hosts] == [1] * 5
    assert result.stats["rep/robotstxt/from_store"] == 5
    assert "robotstxt/request_count" not in result.stats


def test_run_again_after_kill(site: Site, tmp_path: Path) -> None:
    """After a kill with SIGKILL, the next run uses the stored robots.txt files."""
    hosts = [site.add(RULES) for _ in range(5)]
    asked = urls(hosts, "page", 20)
    for host in hosts:
        for number in range(20):
            host.answers[f"/public/page-{number}"] = Answer(PAGE, delay=0.1)
    # Scrapy's queue on disk saves its state only at a clean close. One that is opened after
    # a kill may return old requests instead of new ones, also without this package. The
    # test deletes the queue, and the spider sends its start requests again, with
    # dont_filter.
    requests = [{"url": url, "dont_filter": True} for url in asked]
    settings = {"JOBDIR": str(tmp_path), "CONCURRENT_REQUESTS": 4}
    first = start_crawl(requests, settings=settings)
    wait_until(lambda: first.process.poll() is not None or all(h.pages for h in hosts))
    first.process.kill()
    assert first.wait() == -9, first.log
    sent_by_first = len([page for host in hosts for page in host.pages])
    assert sent_by_first < 100, "It was not killed in the middle"
    shutil.rmtree(tmp_path / "requests.queue")
    second = run_crawl(requests, settings=settings)
    check_obeyed(asked, hosts, second)
    assert [len(host.robots_hits) for host in hosts] == [1] * 5
    assert second.stats["rep/robotstxt/from_store"] == 5
    assert "rep/store/errors" not in second.stats


def test_a_store_of_ones_own(site: Site, tmp_path: Path) -> None:
    """A Store class of the project, chosen by its import path, keeps robots.txt files
    between crawls. It is the example in the documentation.
    """
    host = site.add(RULES)
    settings = {
        "REP_STORE": "tests.crawl.own_store.FolderStore",
        "ROBOTSTXT_FOLDER": str(tmp_path / "kept"),
    }
    for run in ("first", "second"):
        asked = urls([host], run)
        result = run_crawl(asked, settings=settings)
        check_obeyed(asked, [host], result)
    assert len(host.robots_hits) == 1
    assert result.stats["rep/robotstxt/from_store"] == 1
    shown = (Path(__file__).parents[2] / "docs" / "stores.md").read_text()
    assert inspect.getsource(FolderStore) in shown


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
def test_store_cannot_be_opened(site: Site, kind: str, tmp_path: Path) -> None:
    """If the store can't be opened, the crawl warns once, counts
    errors, and obeys from memory.
    """
    (tmp_path / "file").touch()
    uri = {
        # A file is in the place of the folder.
        "sqlite": f"sqlite:///{tmp_path / 'file' / 'robotstxt.sqlite'}",
        "redis": f"redis://127.0.0.1:{free_port()}/0",
    }[kind]
    hosts = [site.add(RULES) for _ in range(5)]
    asked = urls(hosts, "page")
    result = run_crawl(asked, settings={"REP_STORE": uri})
    check_obeyed(asked, hosts, result)
    assert [len(host.robots_hits) for host in hosts] == [1] * 5
    assert len(result.lines("WARNING")) == 1, result.log
    assert len(result.lines("WARNING", "store of robots.txt files fails")) == 1
    assert result.stats["rep/store/errors"] > 0


def test_the_file_is_removed(site: Site, tmp_path: Path) -> None:
    """If the file of the store is deleted during a crawl, the crawl
    warns once, and still obeys.
    """
    path = tmp_path / "robotstxt.sqlite"
    first, *others = hosts = [site.add(RULES) for _ in range(4)]
    first.answers["/public/page-0"] = Answer(PAGE, after=lambda: not path.unlink())
    asked, later = urls([first], "page", 1), urls(others, "page")
    result = run_crawl(asked, then=later, settings={"REP_STORE": f"sqlite:///{path}"})
    check_obeyed(asked + later, hosts, result)
    assert len(result.lines("WARNING")) == 1, result.log
    assert len(result.lines("WARNING", "fails", "it was moved or removed")) == 1
    assert result.stats["rep/store/errors"] == 1


def test_entries_of_others(site: Site, tmp_path: Path) -> None:
    """Entries that are damaged, or that another program wrote, cause one warning. The crawl fetches
    these files again, obeys them, and replaces the entries.
    """
    path = tmp_path / "robotstxt.sqlite"
    hosts = [site.add(RULES) for _ in range(6)]
    settings = {"REP_STORE": f"sqlite:///{path}"}
    run_crawl(urls(hosts, "first"), settings=settings)
    foreign = [b"", b"User-agent: *\nAllow: /", "text", None, bytes(5_000_000), 7]
    with closing(sqlite3.connect(path)) as file:
        for host, data in zip(hosts, foreign, strict=True):
            values = data, str(origin_of(host.origin))
            changed = file.execute("UPDATE entries SET data = ? WHERE key = ?", values)
            assert changed.rowcount == 1
        file.commit()
    asked = urls(hosts, "second")
    result = run_crawl(asked, settings=settings)
    check_obeyed(asked, hosts, result)
    assert [len(host.robots_hits) for host in hosts] == [2] * 6
    assert len(result.lines("WARNING")) == 1, result.log
    assert result.lines("WARNING", "cannot be read", "Check who else writes")
    assert result.stats["rep/store/errors"] >= 5
    third = run_crawl(urls(hosts, "third"), settings=settings)
    assert third.stats["rep/robotstxt/from_store"] == 6
    assert "rep/store/errors" not in third.stats


def test_bad_uri(site: Site) -> None:
    """An invalid store address stops the start, with a sentence that shows valid ones."""
    host = site.add()
    result = run_crawl([host.url("/public")], settings={"REP_STORE": "robots.sqlite"})
    assert result.exit_code != 0
    assert host.hits == []
    sentences = [line for line in result.log.splitlines() if "REP_STORE is" in line]
    assert "'robots.sqlite'" in sentences[0]
    for valid in ("memory://", "sqlite:///", "redis://"):
        assert valid in sentences[0]
