"""``scrapy rep report``: the page, the tables for programs, and the files that it writes."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest
from scrapy.exceptions import UsageError

from scrapy_rep.tools.inputs import read_file
from scrapy_rep.tools.output import output_file
from scrapy_rep.tools.report import answers
from scrapy_rep.tools.report.ledgers import NO_LIMITS, ReportLedgers
from tests.tools.rep import SCHEMAS, Rep
from tests.tools.report.ledgers import Ledger, eventful, hostile, measured

ORIGIN = "https://a.example"
PAGE = Path("robots-report.html")


@pytest.fixture
def ledger(rep: Rep) -> str:
    """Return the path of a ledger, in the present folder."""
    return eventful(Path("ledger"))


def names() -> set[str]:
    return {path.name for path in Path().iterdir()} - {"robots.txt"}


# The page.


def test_a_report_is_one_file_that_loads_nothing(rep: Rep) -> None:
    """The only URLs in attributes lead within the page; only its own script and style run."""
    assert rep("report", hostile(Path("ledger"))).status == 0
    page = PAGE.read_text()
    all_addresses = re.findall(
        r"""\b(?:src|href|action|url)\s*[=(]["']?([^"'>\s]*)""", page
    )
    addresses = [address for address in all_addresses if not address.startswith("x")]
    assert all(address.startswith("#") or address == "data:," for address in addresses)
    assert "default-src &#39;none&#39;" in page or "default-src 'none'" in page
    assert page.count("<script>") == page.count("</script>") == 1


@pytest.mark.parametrize("value", [True, "1", "true"])
def test_the_report_of_a_dry_run_says_so(rep: Rep, value: object) -> None:
    """The heading says that it is a dry run, and the tables show what would have been withheld."""
    ledger = Ledger(Path("ledger"))
    ledger.crawl("denied", settings={"REP_DRY_RUN": value})
    ledger.snapshot(ORIGIN, b"User-agent: *\nDisallow: /a\n")
    for url in (f"{ORIGIN}/a/1", f"{ORIGIN}/a/2"):
        ledger.refused(url, 2, "Disallow: /a", verdict="would-refuse")
    stated = {"verdict": "would-drop", "layer": "meta", "reason": "noindex"}
    ledger.decision(f"{ORIGIN}/b", page=f"{ORIGIN}/b", **stated)
    assert rep("report", ledger.close()).status == 0
    page = PAGE.read_text()
    heading = "Dry run: no page was fetched, and 2 requests would have been refused"
    assert re.search(f"<h1[^>]*>{heading}</h1>", page)
    assert "refuses, drops and delays nothing" in page
    assert "refused 2" in page
    assert "would-" not in page


def test_a_ledger_that_is_given_twice_counts_once(rep: Rep, ledger: str) -> None:
    """A ledger given twice counts once, whatever paths lead to it, and so does a copy of it, even
    one that was made while the crawl ran. A dash writes the report to
    standard output, without other output.
    """
    Path("link").symlink_to(ledger)
    shutil.copy(ledger, "copy")
    with closing(sqlite3.connect("copy")) as early, early:
        early.execute("DELETE FROM decision WHERE id % 2")
        early.execute("DELETE FROM traffic")
        early.execute("UPDATE crawl SET ended = NULL")
    ended = rep("report", "copy", ledger, ledger, "link", "-o", "-")
    assert (ended.status, ended.err) == (0, "")
    assert ended.out.startswith("<!DOCTYPE html>")
    assert ended.out.rstrip().endswith("</html>")
    assert "107 pages were fetched" in ended.out
    assert "107 pages (10.7 kB) from 10 hosts" in ended.out


def test_without_jinja_a_sentence_says_what_to_install(
    rep: Rep, ledger: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without Jinja, a sentence says what to install. JSON does not need it."""
    monkeypatch.delitem(sys.modules, "scrapy_rep.tools.report.page", raising=False)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    ended = rep("report", ledger)
    assert (ended.status, "pip install 'scrapy-rep[report]'" in ended.err) == (2, True)
    assert rep("report", ledger, "--json").status == 0


# The tables for programs.


@pytest.mark.parametrize("maker", [eventful, hostile, measured, Ledger])
def test_the_json_of_any_ledger_fits_the_schema(rep: Rep, maker: type[Ledger]) -> None:
    """The JSON of any ledger fits the schema, in ASCII, with all rows of all tables. No page is
    written.
    """
    made = maker(Path("ledger"))
    if isinstance(made, Ledger):  # An empty one, and then more than a page shows.
        rep.record("report", made.path)
        for number in range(31):
            made.refused(f"{ORIGIN}/search?q={number}", 17, "Disallow: /search")
            made.snapshot(f"https://{number}.example")
        made.close()
    ended = rep("report", "ledger", "--json")
    assert (ended.status, ended.out.count("\n")) == (0, 1)
    assert ended.out.isascii()
    [record] = ended.records("report")
    assert list(record["tables"]) == list(answers.TABLES)
    assert names() == {"ledger"}
    if maker is Ledger:
        assert len(record["tables"]["urls"]) == 31
        without = len(record["tables"]["without-robotstxt"])
        assert record["figures"]["without"] == without == 31
    if maker is measured:
        assert record["tables"]["timeline"][0]["start_at"] == "2026-09-21T14:10:00Z"
        assert record["tables"]["fetched"][0] == {
            "origin": "https://news.example", "day": "2026-09-21", "pages": 1801,
            "bytes": 42244256,
        }  # fmt: skip


def test_the_schema_has_the_columns_of_the_views(rep: Rep) -> None:
    """No second list of columns can differ from the views."""
    schema = json.loads((SCHEMAS / "report.json").read_text())
    listed = schema["properties"]["tables"]["properties"]
    with closing(ReportLedgers([Ledger(Path("ledger")).close()], NO_LIMITS)) as nothing:
        for table, view in answers.TABLES.items():
            columns = [column[0] for column in nothing.view(view).description]
            assert list(listed[table]["items"]["properties"]) == answers.columns(
                columns
            )


# Files.


def test_an_older_report_is_replaced(rep: Rep, ledger: str) -> None:
    """A new report replaces an older one or an empty file, as from mktemp, with a new file's mode,
    also if a link leads to it. It leaves no other file. With --json, it is written if asked for.
    """
    PAGE.touch()
    Path("link").symlink_to(PAGE)
    umask = os.umask(0o027)
    try:
        assert rep("report", Ledger(Path("empty")).close(), "-o", "link").status == 0
        assert "No crawl" in PAGE.read_text()
        out = rep("report", ledger, "-o", "link", "--json").out
    finally:
        os.umask(umask)
    assert out.startswith('{"made_at": ')
    assert "107 pages" in PAGE.read_text()
    assert PAGE.stat().st_mode & 0o777 == 0o640
    assert Path("link").is_symlink()
    assert names() == {"empty", "ledger", "link", str(PAGE)}


@pytest.mark.parametrize("failure", ["a folder in its place", "full", "interrupted"])
def test_a_file_is_written_as_a_whole(rep: Rep, failure: str) -> None:
    """If a run fails, is interrupted or fills the disk, the file of an earlier run is kept, and no
    other file is left. The error names the option.
    """
    path = Path("urls")
    path.write_text("before")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def write() -> None:
        with output_file("urls", "--purge-list", []) as write_text:
            write_text("text")
            match failure:
                case "interrupted":
                    raise KeyboardInterrupt
                case "full":
                    resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, hard))
                    write_text("x" * 100_000)
                case _:
                    path.unlink()
                    path.mkdir()

    try:
        with pytest.raises((UsageError, KeyboardInterrupt)) as error:
            write()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    messages = {"full": "--purge-list: File too large", "interrupted": ""}
    assert str(error.value).endswith(
        messages.get(failure, "--purge-list: Is a directory")
    )
    assert names() == {"urls"}
    assert path.is_dir() or path.read_text() == "before"


UNREADABLE = "/proc/self/mem"
"""A file that opens, but whose first bytes cannot be read, not even by root."""


@pytest.mark.skipif(not Path(UNREADABLE).is_file(), reason="There is no such file")
def test_a_file_that_cannot_be_read() -> None:
    """A read error names the file. A file whose mark cannot be read is not replaced."""
    with pytest.raises(UsageError, match=UNREADABLE):
        read_file(UNREADABLE)
    output = output_file(UNREADABLE, UNREADABLE, [], "mark")
    with pytest.raises(UsageError, match=UNREADABLE), output:
        pass


def test_a_pipe_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    """A pipe, as a device, is not replaced by a file; a circle of links is wrong usage."""
    pipe, circle = tmp_path / "pipe", tmp_path / "circle"
    os.mkfifo(pipe)
    circle.symlink_to(circle)
    for path in (pipe, circle):
        with (
            pytest.raises(UsageError, match=r"regular file|symbolic links"),
            output_file(str(path), "-o", []),
        ):
            pass
    assert pipe.is_fifo()
