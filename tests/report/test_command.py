"""``scrapy rep report``."""

from __future__ import annotations

import os
import re
import resource
import sqlite3
import sys
from typing import TYPE_CHECKING

import pytest

from tests.report import ledgers
from tests.report.making import make_report, run

if TYPE_CHECKING:
    from pathlib import Path


def test_one_file_that_loads_nothing(tmp_path: Path) -> None:
    """The only URLs in attributes lead within the page; only its own script and style run."""
    page = make_report(tmp_path, ledgers.hostile).read_text()
    addresses = re.findall(
        r"""\b(?:src|href|action|url)\s*[=(]["']?([^"'>\s]*)""", page
    )
    markup = [each for each in addresses if not each.startswith("x")]
    assert all(each.startswith("#") or each == "data:," for each in markup)
    assert "default-src &#39;none&#39;" in page or "default-src 'none'" in page
    assert page.count("<script>") == page.count("</script>") == 1


@pytest.mark.parametrize("value", [True, "1", "true"])
def test_a_dry_run(tmp_path: Path, value: object) -> None:
    """The heading says that it is a dry run, and the tables show what would have been withheld."""

    def dry_run(path: Path) -> str:
        ledger = ledgers.Ledger(path)
        ledger.crawl("denied", settings={"REP_DRY_RUN": value})
        robots = b"User-agent: *\nDisallow: /a\n"
        ledger.snapshot("https://a.example", robots)
        for url in ("https://a.example/a/1", "https://a.example/a/2"):
            rule = "Disallow: /a"
            ledger.refused(url, 2, rule, verdict="would-refuse")
        page = "https://a.example/b"
        stated = {"verdict": "would-drop", "layer": "meta", "reason": "noindex"}
        ledger.decision(page, page=page, **stated)
        return ledger.close()

    page = make_report(tmp_path, dry_run).read_text()
    heading = "Dry run: 2 requests would be refused, 1 item or link dropped"
    assert re.search(f"<h1[^>]*>{heading}</h1>", page)
    assert "refuses, drops and delays nothing" in page
    assert "refused 2" in page
    assert "would-" not in page


def test_an_older_report_is_replaced(tmp_path: Path) -> None:
    """A new report replaces an older one, with a new file's mode, also if a link leads to it. It
    leaves no other file.
    """
    html = make_report(tmp_path, ledgers.empty)
    link = tmp_path / "link"
    link.symlink_to(html)
    umask = os.umask(0o027)
    try:
        assert run(ledgers.realistic(tmp_path / "ledger"), "-o", link) == 0
    finally:
        os.umask(umask)
    assert link.is_symlink()
    assert "1,560" in html.read_text()
    assert html.stat().st_mode & 0o777 == 0o640
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["empty.html", "empty.rep", "ledger", "link"]


def test_another_file_is_not_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A ledger or a folder is not replaced; an empty file, as from mktemp, is."""
    ledger = ledgers.empty(tmp_path / "ledger")
    another = ledgers.empty(tmp_path / "another")
    for output, why in (
        (another, f"{another} exists, and this command did not write it"),
        (tmp_path, f"{tmp_path}: Is a directory"),
        (ledger, f"{ledger}: this is an input file"),
    ):
        assert run(ledger, "-o", output) == 2
        assert why in capsys.readouterr().err
    (tmp_path / "made").touch()
    assert run(ledger, "-o", tmp_path / "made") == 0


def test_damage_that_shows_late(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Damage found while the page is written leaves no output behind."""
    path = ledgers.brief(tmp_path / "ledger")
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE snapshot SET redirects = '{}'")
    connection.close()
    assert run(path, "-o", tmp_path / "report.html") == 2
    assert capsys.readouterr().err.startswith(f"scrapy rep: {path}: ")
    assert [path.name for path in tmp_path.iterdir()] == ["ledger"]


def test_a_disk_that_is_full(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A full disk leaves no partial report behind, and keeps an older one."""
    html = make_report(tmp_path, ledgers.brief)
    before = html.read_bytes()
    capsys.readouterr()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, hard))
    try:
        status = run(tmp_path / "brief.rep", "-o", html)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert status == 2
    assert capsys.readouterr().err == f"scrapy rep: {html}: File too large\n"
    assert html.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 2


def test_the_same_ledger_twice(tmp_path: Path) -> None:
    """A ledger given twice counts once, whatever paths lead to it."""
    path = ledgers.realistic(tmp_path / "ledger")
    (tmp_path / "link").symlink_to(path)
    assert run(path, path, tmp_path / "link", "-o", tmp_path / "report.html") == 0
    assert "0 of 1,560 pages fetched" in (tmp_path / "report.html").read_text()


def test_standard_output(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """A dash writes the report to standard output, without other output."""
    assert run(ledgers.brief(tmp_path / "ledger"), "-o", "-") == 0
    page, said = capsysbinary.readouterr()
    assert not said
    assert page.startswith(b"<!DOCTYPE html>")
    assert page.rstrip().endswith(b"</html>")


def test_without_jinja(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without Jinja, a sentence says what to install. JSON and CSV files do not need it."""
    monkeypatch.delitem(sys.modules, "scrapy_rep.report.render", raising=False)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert run(ledgers.empty(tmp_path / "ledger")) == 2
    assert "pip install 'scrapy-rep[report]'" in capsys.readouterr().err
    assert run(tmp_path / "ledger", "--json", "--csv", tmp_path / "csv") == 0
