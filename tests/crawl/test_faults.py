"""Full disks, files that can't be written, and damaged files."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

import pytest

from tests.crawl.answers import Answer
from tests.crawl.crawl import run_crawl
from tests.crawl.server import PAGE
from tests.crawl.test_stores import check_obeyed, urls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.crawl.crawl import CrawlResult
    from tests.crawl.server import Host, Site

pytestmark = [pytest.mark.newest, pytest.mark.unmeasured]

RULES = "User-agent: *\nDisallow: /private/\n"
POWERLESS = "tests.crawl.fault_spiders.PowerlessSpider"
GARBAGE = b"User-agent: *\nDisallow:\n" * 4_000


def fill(folder: Path) -> None:
    """Fill the disk."""
    for name in ("large", "rest"):
        with suppress(OSError), (folder / name).open("ab", buffering=0) as file:
            while True:
                file.write(b"x" * (65_536 if name == "large" else 64))


def forbid(folder: Path) -> None:
    """Make the folder and its files read-only."""
    for path in (*folder.iterdir(), folder):
        path.chmod(0o500 if path.is_dir() else 0o400)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder on its own disk of 512 KB, or an ordinary one if nothing can be mounted."""
    folder = tmp_path / "disk"
    folder.mkdir()
    options = ["-t", "tmpfs", "-o", "size=512k", "tmpfs", str(folder)]
    mount = shutil.which("mount")
    mounted = mount and not subprocess.run([mount, *options], check=False).returncode
    yield folder
    if mounted:
        subprocess.run(["umount", "-l", str(folder)], check=True)
    else:
        folder.chmod(0o700)


def remount_read_only(folder: Path) -> None:
    mount = shutil.which("mount") or "mount"
    subprocess.run([mount, "-o", "remount,ro", str(folder)], check=False)


FAULTS: dict[str, Callable[[Path], object]] = {
    "a full disk": fill,
    "a disk that is read only": remount_read_only,
    "files that may not be written": forbid,
}


def crawl(hosts: list[Host], name: str, **settings: Any) -> CrawlResult:
    return run_crawl(urls(hosts, name), spider=POWERLESS, settings=settings)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("has_file", [False, True], ids=["no file", "a file"])
def test_a_store(site: Site, folder: Path, fault: str, has_file: bool) -> None:
    """If the store fails, the crawl still obeys each robots.txt, and warns once. Entries of
    an earlier crawl are read if possible.
    """
    if not folder.is_mount() and fault != "files that may not be written":
        pytest.skip("Nothing can be mounted here")
    hosts = [site.add(RULES) for _ in range(3)]
    store = f"sqlite:///{folder / 'robotstxt.sqlite'}"
    if has_file:
        crawl(hosts, "first", REP_STORE=store)
    FAULTS[fault](folder)
    more = [site.add(RULES) for _ in range(2)]
    result = crawl([*hosts, *more], "second", REP_STORE=store)
    check_obeyed(urls([*hosts, *more], "second"), [*hosts, *more], result)
    assert result.stats["rep/store/errors"] > 0
    assert len(result.lines("WARNING")) == 1, result.log
    assert len(result.lines("WARNING", "store of robots.txt files fails")) == 1


def test_a_ledger_on_a_full_disk(site: Site, folder: Path) -> None:
    """On a full disk, the crawl goes on without its ledger, with one warning, since there
    may be room again later.
    """
    if not folder.is_mount():
        pytest.skip("Nothing can be mounted here")
    fill(folder)
    hosts = [site.add(RULES)]
    result = crawl(hosts, "page", REP_LEDGER=str(folder / "ledger.sqlite"))
    check_obeyed(urls(hosts, "page"), hosts, result)
    assert result.stats["rep/ledger/errors"] > 0
    assert result.lines("WARNING", "ledger", "full")


@pytest.mark.parametrize("fault", [*list(FAULTS)[1:], "another file"])
def test_a_ledger(site: Site, folder: Path, fault: str) -> None:
    """If the ledger can't be written at the start, the crawl does not start, and says why."""
    if not folder.is_mount() and "disk" in fault:
        pytest.skip("Nothing can be mounted here")
    path = folder / "ledger.sqlite"
    if fault == "another file":
        path.write_bytes(GARBAGE)
    else:
        FAULTS[fault](folder)
    host = site.add(RULES)
    result = crawl([host], "page", REP_LEDGER=str(path))
    assert result.exit_code == 1
    assert host.hits == []
    assert "LedgerError" in result.log
    assert str(path) in result.log


def has_rows(path: Path, table: str) -> bool:
    """Return whether *path* is a database with rows. One that is still being created could
    overwrite its replacement.
    """
    try:
        database = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=0)
        with closing(database):
            return bool(database.execute(f"SELECT 1 FROM {table}").fetchone())
    except sqlite3.Error:
        return False


def test_files_that_are_damaged_meanwhile(site: Site, tmp_path: Path) -> None:
    """If the store and the ledger are damaged during a crawl, each of them causes a
    warning, and nothing forbidden is fetched.
    """
    files = [tmp_path / "robotstxt.sqlite", tmp_path / "ledger.sqlite"]
    hosts = [site.add(RULES) for _ in range(4)]

    def spoil() -> bool:
        done = all(len(host.pages) == 4 for host in hosts[1:3])
        if not done or not all(map(has_rows, files, ("entries", "decision"))):
            return False
        for path in tmp_path.iterdir():
            path.write_bytes(GARBAGE)
        return True

    hosts[0].answers["/public/page-0"] = Answer(PAGE, after=spoil)
    later = [host.url("/public/page-0") for host in hosts[:1]]
    asked = [*urls(hosts[1:3], "early"), *later]
    then = urls(hosts[1:], "late")
    result = run_crawl(
        asked,
        then=then,
        settings={
            "REP_STORE": f"sqlite:///{files[0]}",
            "REP_LEDGER": str(files[1]),
            "REP_LEDGER_LEVEL": "all",
        },
    )
    check_obeyed([*asked, *then], hosts, result)
    assert len(result.lines("WARNING")) <= 2 + 1, result.log
    assert result.lines("WARNING", "ledger")
    assert result.lines("WARNING", "store of robots.txt files fails")
