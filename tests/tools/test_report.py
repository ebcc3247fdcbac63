"""Tests of ``scrapy rep report``: the HTML page, the JSON, and the files that the command writes."""

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
from tests.tools.report.ledgers import (
    Ledger,
    write_eventful_ledger,
    write_hostile_ledger,
    write_measured_ledger,
)

ORIGIN = "https://a.example"
PAGE = Path("robots-report.html")


@pytest.fixture
def ledger(rep: Rep) -> str:
    """Write a ledger in the current folder, and return its path."""
    return write_eventful_ledger(Path("ledger"))


def file_names() -> set[str]:
    """Return the names of the files in the current folder, except for robots.txt."""
    return {path.name for path in Path().iterdir()} - {"robots.txt"}


# The HTML page.


def test_a_report_is_one_file_that_loads_nothing(rep: Rep) -> None:
    """All URLs in attributes lead to a part of the page itself, and the content security policy
    allows only its own script and style.
    """
    assert rep("report", write_hostile_ledger(Path("ledger"))).status == 0
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
    """The heading says that the crawl was a dry run, and the tables count what would have been
    refused or dropped.
    """
    ledger = Ledger(Path("ledger"))
    ledger.crawl("denied", settings={"REP_DRY_RUN": value})
    ledger.snapshot(ORIGIN, b"User-agent: *\nDisallow: /a\n")
    for url in (f"{ORIGIN}/a/1", f"{ORIGIN}/a/2"):
        ledger.refused(url, 2, "Disallow: /a", verdict="would-refuse")
    columns = {"verdict": "would-drop", "layer": "meta", "reason": "noindex"}
    ledger.decision(f"{ORIGIN}/b", page=f"{ORIGIN}/b", **columns)
    assert rep("report", ledger.close()).status == 0
    page = PAGE.read_text()
    heading = "Dry run: no page was fetched, and 2 requests would have been refused"
    assert re.search(f"<h1[^>]*>{heading}</h1>", page)
    assert "refuses, drops and delays nothing" in page
    assert "refused 2" in page
    assert "would-" not in page


def test_a_ledger_that_is_given_twice_counts_once(rep: Rep, ledger: str) -> None:
    """A ledger counts once even if several paths or symbolic links lead to it. A copy does not
    count again, not even one that was made during the crawl. With ``-o -``, the report goes to
    standard output, without other output.
    """
    Path("link").symlink_to(ledger)
    shutil.copy(ledger, "copy")
    with closing(sqlite3.connect("copy")) as early, early:
        early.execute("DELETE FROM decision WHERE id % 2")
        early.execute("DELETE FROM traffic")
        early.execute("UPDATE crawl SET ended = NULL")
    result = rep("report", "copy", ledger, ledger, "link", "-o", "-")
    assert (result.status, result.err) == (0, "")
    assert result.out.startswith("<!DOCTYPE html>")
    assert result.out.rstrip().endswith("</html>")
    assert "107 pages were fetched" in result.out
    assert "107 pages (10.7 kB) from 10 hosts" in result.out


def test_a_message_says_what_to_install_if_jinja_is_missing(
    rep: Rep, ledger: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """JSON is written without Jinja."""
    monkeypatch.delitem(sys.modules, "scrapy_rep.tools.report.page", raising=False)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    result = rep("report", ledger)
    assert (result.status, "pip install 'scrapy-rep[report]'" in result.err) == (
        2,
        True,
    )
    assert rep("report", ledger, "--json").status == 0


# JSON.


@pytest.mark.parametrize(
    "make_ledger",
    [write_eventful_ledger, write_hostile_ledger, write_measured_ledger, Ledger],
)
def test_the_json_of_any_ledger_fits_the_schema(
    rep: Rep, make_ledger: type[Ledger]
) -> None:
    """The JSON is in ASCII, and has all rows of all tables, even if the HTML report leaves them out. No HTML report is
    written.
    """
    ledger = make_ledger(Path("ledger"))
    # An empty ledger is tested first, then one with more rows than the page shows.
    if isinstance(ledger, Ledger):
        rep.record("report", ledger.path)
        for number in range(31):
            ledger.refused(f"{ORIGIN}/search?q={number}", 17, "Disallow: /search")
            ledger.snapshot(f"https://{number}.example")
        ledger.close()
    result = rep("report", "ledger", "--json")
    assert (result.status, result.out.count("\n")) == (0, 1)
    assert result.out.isascii()
    [record] = result.records("report")
    assert list(record["tables"]) == list(answers.TABLES)
    assert file_names() == {"ledger"}
    if make_ledger is Ledger:
        assert len(record["tables"]["urls"]) == 31
        host_count = len(record["tables"]["without-robotstxt"])
        assert record["figures"]["without"] == host_count == 31
    if make_ledger is write_measured_ledger:
        assert record["tables"]["timeline"][0]["start_at"] == "2026-09-21T14:10:00Z"
        assert record["tables"]["fetched"][0] == {
            "origin": "https://news.example", "day": "2026-09-21", "pages": 1801,
            "bytes": 42244256,
        }  # fmt: skip


def test_the_schema_has_the_columns_of_the_views(rep: Rep) -> None:
    """The schema repeats the columns of the views, so the two lists could diverge."""
    schema = json.loads((SCHEMAS / "report.json").read_text())
    table_schemas = schema["properties"]["tables"]["properties"]
    with closing(ReportLedgers([Ledger(Path("ledger")).close()], NO_LIMITS)) as ledgers:
        for table, view in answers.TABLES.items():
            columns = [column[0] for column in ledgers.view(view).description]
            assert list(table_schemas[table]["items"]["properties"]) == answers.columns(
                columns
            )


# Output files.


def test_an_older_report_is_replaced(rep: Rep, ledger: str) -> None:
    """A report replaces an older report or an empty file. If the path is a symbolic link, the file that it points to is
    replaced. The new file has the mode of any new file, and no temporary file is left. With ``--json``, the HTML report
    is written only if ``-o`` names a file.
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
    assert file_names() == {"empty", "ledger", "link", str(PAGE)}


@pytest.mark.parametrize("failure", ["a folder in its place", "full", "interrupted"])
def test_an_output_file_is_written_completely_or_not_at_all(
    rep: Rep, failure: str
) -> None:
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
    assert file_names() == {"urls"}
    assert path.is_dir() or path.read_text() == "before"


UNREADABLE = "/proc/self/mem"
"""A file that opens, but whose first bytes cannot be read, not even by root."""


@pytest.mark.skipif(not Path(UNREADABLE).is_file(), reason="There is no such file")
def test_an_unreadable_file_is_named_and_not_replaced() -> None:
    """A report only replaces a file with the mark of a report, so a file whose mark cannot be read
    is kept.
    """
    with pytest.raises(UsageError, match=UNREADABLE):
        read_file(UNREADABLE)
    output = output_file(UNREADABLE, UNREADABLE, [], "mark")
    with pytest.raises(UsageError, match=UNREADABLE), output:
        pass


def test_a_pipe_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    """UsageError is raised if the path of the output is a pipe or a cycle of symbolic links. Nothing is replaced."""
    pipe, link_to_itself = tmp_path / "pipe", tmp_path / "circle"
    os.mkfifo(pipe)
    link_to_itself.symlink_to(link_to_itself)
    for path in (pipe, link_to_itself):
        with (
            pytest.raises(UsageError, match=r"regular file|symbolic links"),
            output_file(str(path), "-o", []),
        ):
            pass
    assert pipe.is_fifo()
