"""``scrapy rep report``: the page, the tables for programs, and the files that it writes."""

from __future__ import annotations

import csv
import json
import os
import re
import resource
import sys
from contextlib import closing
from pathlib import Path

import pytest
from scrapy.exceptions import UsageError

from scrapy_rep.commands.output import output_file
from scrapy_rep.commands.urls import read_file
from scrapy_rep.report import tables
from scrapy_rep.report.ledgers import NO_LIMITS, Ledgers
from tests.commands.rep import SCHEMAS, Rep
from tests.report.ledgers import NEWS, PRESS, START, Ledger, eventful, hostile, measured

ORIGIN = "https://a.example"
PAGE = Path("robots-report.html")


@pytest.fixture
def ledger(rep: Rep) -> str:
    """Return the path of a ledger, in the present folder."""
    return eventful(Path("ledger"))


def names() -> set[str]:
    return {path.name for path in Path().iterdir()} - {"robots.txt"}


def as_csv(table: str) -> list[dict[str, str]]:
    with Path(f"csv/{table}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


# The page.


def test_one_file_that_loads_nothing(rep: Rep) -> None:
    """The only URLs in attributes lead within the page; only its own script and style run."""
    assert rep("report", hostile(Path("ledger"))).status == 0
    page = PAGE.read_text()
    found = re.findall(r"""\b(?:src|href|action|url)\s*[=(]["']?([^"'>\s]*)""", page)
    addresses = [each for each in found if not each.startswith("x")]
    assert all(each.startswith("#") or each == "data:," for each in addresses)
    assert "default-src &#39;none&#39;" in page or "default-src 'none'" in page
    assert page.count("<script>") == page.count("</script>") == 1


@pytest.mark.parametrize("value", [True, "1", "true"])
def test_a_dry_run(rep: Rep, value: object) -> None:
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
    heading = "Dry run: 2 requests would be refused, 1 item or link dropped"
    assert re.search(f"<h1[^>]*>{heading}</h1>", page)
    assert "refuses, drops and delays nothing" in page
    assert "refused 2" in page
    assert "would-" not in page


def test_the_same_ledger_twice(rep: Rep, ledger: str) -> None:
    """A ledger given twice counts once, whatever paths lead to it. A dash writes the report to
    standard output, without other output.
    """
    Path("link").symlink_to(ledger)
    ended = rep("report", ledger, ledger, "link", "-o", "-")
    assert (ended.status, ended.err) == (0, "")
    assert ended.out.startswith("<!DOCTYPE html>")
    assert ended.out.rstrip().endswith("</html>")
    assert "0 of 104 pages fetched" in ended.out


def test_without_jinja(rep: Rep, ledger: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Jinja, a sentence says what to install. JSON and CSV files do not need it."""
    monkeypatch.delitem(sys.modules, "scrapy_rep.report.render", raising=False)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    ended = rep("report", ledger)
    assert (ended.status, "pip install 'scrapy-rep[report]'" in ended.err) == (2, True)
    assert rep("report", ledger, "--json", "--csv", "csv").status == 0


# The tables for programs.


@pytest.mark.parametrize("maker", [eventful, hostile, measured, Ledger])
def test_json_and_csv(rep: Rep, maker: type[Ledger]) -> None:
    """The JSON of any ledger fits the schema, in ASCII, with all rows of all tables. Each table is a
    CSV file too, with the same rows and columns; older files are replaced. No page is written.
    """
    made = maker(Path("ledger"))
    if isinstance(made, Ledger):  # An empty one, and then more than a page shows.
        rep.record("report", made.path)
        for number in range(31):
            made.refused(f"{ORIGIN}/search?q={number}", 17, "Disallow: /search")
            made.snapshot(f"https://{number}.example")
        made.close()
    for _ in range(2):
        ended = rep("report", "ledger", "--csv", "csv", "--json")
    assert (ended.status, ended.out.count("\n")) == (0, 1)
    assert ended.out.isascii()
    [record] = ended.records("report")
    assert list(record["tables"]) == list(tables.TABLES)
    assert names() == {"ledger", "csv"}
    written = set(tables.TABLES) - {"differences"}
    assert {path.stem for path in Path("csv").iterdir()} == written
    for name in written if maker is not hostile else ():
        assert as_csv(name) == [
            {key: "" if value is None else str(value) for key, value in row.items()}
            for row in record["tables"][name]
        ]
    if maker is Ledger:
        assert len(record["tables"]["urls"]) == 31
        without = len(record["tables"]["without-robotstxt"])
        assert record["figures"]["without"] == without == 31
    if maker is measured:
        assert as_csv("timeline")[0]["start_at"] == "2026-09-21T14:10:00Z"
        assert as_csv("fetched")[0] == {
            "origin": "https://news.example", "day": "2026-09-21", "pages": "1801",
            "bytes": "42244256",
        }  # fmt: skip


def test_the_schema_has_the_columns_of_the_views(rep: Rep) -> None:
    """No second list of columns can differ from the views."""
    schema = json.loads((SCHEMAS / "report.json").read_text())
    listed = schema["properties"]["tables"]["properties"]
    with closing(Ledgers([Ledger(Path("ledger")).close()], NO_LIMITS)) as nothing:
        for table, view in tables.TABLES.items():
            columns = [each[0] for each in nothing.view(view).description]
            assert list(listed[table]["items"]["properties"]) == tables.columns(columns)


@pytest.mark.parametrize(
    "text",
    ["=1+1", "+1", "-1", "@SUM(A1)", " =1", "\t=1", "\r\n=1", "\uff1dHYPERLINK(1)"],
)
def test_no_cell_is_a_formula(rep: Rep, text: str) -> None:
    """A text that a spreadsheet may take for a formula begins with a quote; a row is one line."""
    ledger = Ledger(Path("ledger"))
    given = {"layer": text, "verdict": "refused", "reason": text, "origin": text}
    ledger.decision(text, statement=text, **given)
    assert rep("report", ledger.close(), "--csv", "csv").status == 0
    for name in ("urls", "reasons", "hosts"):
        (row,) = as_csv(name)
        texts = [each for each in row.values() if each and not each[0].isdigit()]
        assert not {each.lstrip()[0] for each in texts} & {*"=+-@\uff1d"}
        assert Path(f"csv/{name}.csv").read_bytes().count(b"\n") == 2


def test_differences(rep: Rep) -> None:
    """What has changed is listed: the whole first, then the hosts that differ most. What is the
    same is not. The page has the table, and names the ledger that is compared with.
    """
    for number, (name, body) in enumerate((("before", PRESS), ("now", NEWS))):
        ledger = Ledger(Path(name))
        ledger.crawl("denied", started=START + number * 2_600_000)
        ledger.snapshot(ORIGIN, body)
        for each in range(1 + 4 * number):
            ledger.refused(f"{ORIGIN}/private/{each}", 3, "Disallow: /private/")
        ledger.snapshot("https://same.example", PRESS)
        ledger.snapshot(f"https://only-{number}.example")
        ledger.traffic(ORIGIN, 0, pages=10 - number, bytes=1000)
        ledger.progress(0, pages=10 - number, bytes=1000)
        ledger.close()
    asked = ("report", "now", "--against", "before")
    found = rep.record(*asked)["tables"]["differences"]
    assert [tuple(row.values()) for row in found] == [
        ("", "hosts that name AI crawlers", 0, 1),
        ("", "pages fetched", 10, 9),
        ("", "refused, robots.txt: rule", 1, 5),
        (ORIGIN, "content of robots.txt (SHA-256)", found[3]["was"], found[3]["value"]),
        (ORIGIN, "delay asked for, in seconds", 2.0, 5.0),
        (ORIGIN, "forbidden to CCBot", None, "everything"),
        (ORIGIN, "forbidden to ClaudeBot", None, "some paths"),
        (ORIGIN, "forbidden to GPTBot", None, "everything"),
        (ORIGIN, "forbidden to Google-Extended", None, "nothing"),
        (ORIGIN, "forbidden to PerplexityBot", None, "everything but exceptions"),
        (ORIGIN, "pages fetched", 10, 9),
        (ORIGIN, "refused", 1, 5),
        ("https://only-0.example", "robots.txt", "unavailable 404", None),
        ("https://only-1.example", "robots.txt", None, "unavailable 404"),
    ]
    assert rep(*asked, "--csv", "csv").status == 0
    assert len(as_csv("differences")) == len(found)
    for arguments, said in (
        (asked, "Compared with <code>before</code>"),
        (asked, "only-0.example"),
        (("report", "now", "--against", "now"), '<p class="none">Nothing.</p>'),
    ):
        rep(*arguments)
        assert said in PAGE.read_text().partition('id="difference"')[2]
    rep("report", "now")
    assert 'id="difference"' not in PAGE.read_text()


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
        out = rep("report", ledger, "-o", "link", "--json", "--csv", "csv").out
    finally:
        os.umask(umask)
    assert out.startswith('{"made_at": ')
    assert "0 of 104 pages" in PAGE.read_text()
    assert PAGE.stat().st_mode & 0o777 == 0o640
    assert Path("link").is_symlink()
    assert names() == {"empty", "ledger", "link", str(PAGE), "csv"}


def test_an_input_is_not_replaced(rep: Rep) -> None:
    """A table does not replace a ledger. ``test_wrong_usage.py`` has the other files."""
    eventful(Path("hosts.csv"))
    ended = rep("report", "hosts.csv", "--csv", ".")
    assert (ended.status, "hosts.csv: this is an input file" in ended.err) == (2, True)
    assert rep("report", "hosts.csv", "--json").status == 0


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
    said = {"full": "--purge-list: File too large", "interrupted": ""}
    assert str(error.value).endswith(said.get(failure, "--purge-list: Is a directory"))
    assert names() == {"urls"}
    assert path.is_dir() or path.read_text() == "before"


UNREADABLE = "/proc/self/mem"
"""A file that opens, but whose first bytes cannot be read, not even by root."""


@pytest.mark.skipif(not Path(UNREADABLE).is_file(), reason="There is no such file")
def test_a_file_that_cannot_be_read() -> None:
    """A read error names the file. A file whose mark cannot be read is not replaced."""
    with pytest.raises(UsageError, match=UNREADABLE):
        read_file(UNREADABLE)
    output = output_file(UNREADABLE, UNREADABLE, [], b"mark")
    with pytest.raises(UsageError, match=UNREADABLE), output:
        pass
