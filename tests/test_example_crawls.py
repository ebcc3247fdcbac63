"""The example project does what its README says, and its settings tell the truth."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from importlib import import_module
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple
from urllib.request import ProxyHandler, build_opener

import pytest
from scrapy.settings import default_settings

from scrapy_rep.settings import DEFAULTS

ROOT = Path(__file__).parents[1]
PROJECT = ROOT / "example_project"
COLUMNS = ["page", "outcome", "item", "said by", "statement"]
ACQUITTED = [
    "requests for a robots.txt: 8",
    "requests that reached a forbidden path: 0",
    "items kept that said noindex: 0",
]
IGNORE_PAGES = (
    "-s",
    "REP_NOINDEX=ignore",
    "-s",
    "REP_NOFOLLOW=ignore",
    "-s",
    "REP_REL=",
)

MODES = [
    pytest.param("TWISTED_REACTOR_ENABLED=True", id="asyncio"),
    pytest.param(
        "TWISTED_REACTOR_ENABLED=False",
        id="reactorless",
        marks=pytest.mark.skipif(
            not hasattr(default_settings, "TWISTED_REACTOR_ENABLED"),
            reason="Scrapy runs without a reactor from 2.15 on",
        ),
    ),
]

KEPT = {
    "http://bare.example/",
    "http://bare.example/private/",
    "http://docs.example/",
    "http://docs.example/drafts/ready-to-read.html",
    "http://docs.example/guide/",
    "http://moved.example/",
    "http://moved.example/news.html",
    "http://open.example/",
    "http://open.example/about.html",
    "http://press.example/",
    "http://press.example/archive/founding.html",
    "http://press.example/comments.html",
    "http://press.example/letters.html",
    "http://press.example/rivals.html",
    "http://shop.example/",
    "http://shop.example/basket/help.html",
    "http://shop.example/tea.html",
}
EXPIRING = {"http://press.example/fair.html": "until 2099-12-31T23:59:59Z"}
NOINDEX = {
    "http://press.example/archive.html": "noindex (meta)",
    "http://press.example/members.html": "none (meta)",
    "http://press.example/print.html": "noindex (header)",
}
EXPIRED = {
    "http://press.example/yesterday.html": "unavailable_after: 2010-06-25 (meta)"
}
REDIRECT = "http://open.example/offer"
FETCHED = {*KEPT, *EXPIRING, *NOINDEX, *EXPIRED, REDIRECT}
# A link extractor leaves links to PDF files out, unless it is told otherwise.
PDF = "http://docs.example/guide/guide.pdf"
PDF_PAGE = "http://docs.example/guide/guide.pdf?page=1"
PDF_NOINDEX = "http://press.example/paper.pdf"

SHOP = "http://shop.example/robots.txt"
DOCS = "http://docs.example/robots.txt"
REFUSED = {
    "http://docs.example/drafts/rough.html": (DOCS, "2: Disallow: /drafts/"),
    "http://down.example/": ("http://down.example/robots.txt", "unreachable"),
    "http://moved.example/drafts/next.html": (
        "http://moved.example/robots.txt",
        "2: Disallow: /drafts/",
    ),
    "http://shop.example/basket/": (SHOP, "7: Disallow: /basket/"),
    "http://shop.example/basket/add.html": (SHOP, "7: Disallow: /basket/"),
    "http://shop.example/basket/offer.html": (SHOP, "7: Disallow: /basket/"),
    "http://shop.example/tea.html?sort=price": (SHOP, "9: Disallow: /*?sort="),
}

PRESS = "http://press.example"
NOT_FOLLOWED = {
    f"{PRESS}/comments/advert.html": (f"{PRESS}/comments.html", "nofollow (rel)"),
    f"{PRESS}/comments/reader.html": (f"{PRESS}/comments.html", "nofollow (rel)"),
    f"{PRESS}/letters/complaint.html": (f"{PRESS}/letters.html", "nofollow (page)"),
    f"{PRESS}/members/list.html": (f"{PRESS}/members.html", "nofollow (page)"),
}


class Row(NamedTuple):
    page: str
    outcome: str
    item: str
    said_by: str
    statement: str


class Crawl(NamedTuple):
    """What a crawl printed."""

    rows: list[Row]
    closing_lines: list[str]
    printed: str

    @property
    def fetched(self) -> set[str]:
        return {row.page for row in self.rows if row.outcome.startswith("fetched ")}

    @property
    def kept(self) -> set[str]:
        return {row.page for row in self.rows if row.item == "kept"}

    def not_sent(self, outcome: str) -> dict[str, tuple[str, str]]:
        """Who said of each page with this outcome what."""
        rows = [row for row in self.rows if row.outcome == outcome]
        return {row.page: (row.said_by, row.statement) for row in rows}

    def of_item(self, item: str) -> dict[str, str]:
        """What each page whose item became this said of itself."""
        rows = [row for row in self.rows if row.item == item]
        assert {row.said_by for row in rows} <= {"itself"}
        return {row.page: row.statement for row in rows}


def crawl(*args: str, project: Path = PROJECT) -> Crawl:
    process = subprocess.run(
        [sys.executable, "-m", "scrapy", "crawl", *args],
        cwd=project,
        env=environment(),
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )
    assert process.returncode == 0, process.stderr
    assert "ERROR" not in process.stderr
    table, _, closing = process.stdout.partition("\n\n")
    head, *lines = table.splitlines()
    assert re.split(r" {2,}", head) == COLUMNS
    starts = [head.index(column) for column in COLUMNS]
    cuts = [slice(*ends) for ends in zip_longest(starts, starts[1:])]
    rows = [Row(*(line[cut].strip() for cut in cuts)) for line in lines]
    assert len({row.page for row in rows}) == len(rows)
    return Crawl(rows, closing.splitlines(), process.stdout)


def environment() -> dict[str, str]:
    """Our environment, without what would choose another project, and with the package."""
    kept = {name: os.environ[name] for name in os.environ if "SCRAPY" not in name}
    paths = [str(ROOT), *filter(None, [kept.get("PYTHONPATH")])]
    return kept | {"PYTHONPATH": os.pathsep.join(paths)}


@pytest.mark.parametrize("mode", MODES)
def test_demo(mode: str) -> None:
    """The demo spider fetches and keeps what it may. The table names the line that
    refused a page, the statement that dropped an item, and the page whose links were not
    followed; the server has seen no more, and the judge finds nothing.
    """
    result = crawl("demo", "-s", mode)
    assert result.fetched == {*FETCHED, PDF_PAGE, PDF_NOINDEX}
    assert result.kept == {*KEPT, PDF_PAGE}
    noindex = {**NOINDEX, PDF_NOINDEX: "noindex (header)"}
    assert result.of_item("dropped") == {**noindex, **EXPIRED}
    assert result.of_item("expiring") == EXPIRING
    refused = {**REFUSED, PDF: (DOCS, "3: Disallow: /*.pdf$")}
    assert result.not_sent("refused") == refused
    assert result.not_sent("not followed") == NOT_FOLLOWED
    assert result.closing_lines == ACQUITTED


@pytest.mark.parametrize("mode", MODES)
def test_links(mode: str) -> None:
    """The CrawlSpider, which knows nothing of all this, is kept to it all the same."""
    result = crawl("links", "-s", mode)
    assert result.fetched == FETCHED
    assert result.kept == KEPT
    assert result.of_item("dropped") == {**NOINDEX, **EXPIRED}
    assert result.of_item("expiring") == EXPIRING
    assert result.not_sent("refused") == REFUSED
    assert result.not_sent("not followed") == NOT_FOLLOWED
    assert result.closing_lines == ACQUITTED


def test_judge_finds_what_should_not_be() -> None:
    """A crawl that is told to ignore everything fetches the pages that were refused and
    those that were not followed, and keeps every item; the last lines accuse it of each
    forbidden page and of each item that said noindex, and of no other.
    """
    result = crawl("links", "-s", "ROBOTSTXT_OBEY=False", *IGNORE_PAGES)
    assert result.fetched == {*FETCHED, *REFUSED, *NOT_FOLLOWED}
    assert result.kept == result.fetched - {REDIRECT}
    assert result.closing_lines == [
        "requests for a robots.txt: 0",
        f"requests that reached a forbidden path: {len(REFUSED)}",
        *(f"  {page}" for page in sorted(REFUSED)),
        f"items kept that said noindex: {len(NOINDEX)}",
        *(f"  {page}" for page in sorted(NOINDEX)),
    ]


def test_judge_reads_headers_and_tags(monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge knows to whom a header or a tag is addressed."""
    monkeypatch.syspath_prepend(str(PROJECT))
    judge = import_module("demo.judge")
    pages = {PDF_NOINDEX, *NOINDEX, "http://press.example/rivals.html"}
    ours = set(judge.noindex_pages(pages, "demobot/1.0"))
    theirs = set(judge.noindex_pages(pages, "otherbot/1.0"))
    assert ours - theirs == {"http://press.example/members.html"}
    assert theirs - ours == {"http://press.example/rivals.html"}
    assert ours == {PDF_NOINDEX, *NOINDEX}


def test_edited_site(tmp_path: Path) -> None:
    """Who edits a robots.txt or a page of the site sees the next crawl keep to it."""
    project = shutil.copytree(PROJECT, tmp_path / "project")
    site = project / "demo" / "site"
    (site / "bare" / "robots.txt").write_text(
        "User-agent: demobot\nDisallow: /private\n"
    )
    (site / "open" / "about.html").write_text('<meta name="robots" content="noindex">')
    result = crawl("demo", project=project)
    refused = "http://bare.example/private/"
    assert refused not in result.fetched
    assert result.not_sent("refused")[refused] == (
        "http://bare.example/robots.txt",
        "2: Disallow: /private",
    )
    assert (
        result.of_item("dropped")["http://open.example/about.html"] == "noindex (meta)"
    )
    assert result.closing_lines == ACQUITTED


def test_declared_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The description of a host can add headers to a file's answer, one of them twice."""
    monkeypatch.syspath_prepend(str(PROJECT))
    hosts, server = import_module("demo.hosts"), import_module("demo.server")
    tags = (("X-Robots-Tag", "noindex"), ("X-Robots-Tag", "nofollow"))
    answers = {"/guide/guide.pdf": hosts.Answer(headers=tags)}
    site = server.SiteServer([hosts.Host("docs", answers)])
    site.start()
    try:
        with build_opener(ProxyHandler({})).open(
            site.real(PDF), timeout=10
        ) as response:
            assert response.headers.get_all("X-Robots-Tag") == ["noindex", "nofollow"]
            assert response.headers["Content-Type"] == "application/pdf"
            assert response.read().startswith(b"%PDF-")
    finally:
        site.stop()


def test_readme_shows_the_table() -> None:
    """README.md has what the demo prints, to the letter."""
    assert crawl("demo").printed in (PROJECT / "README.md").read_text()


def test_settings_show_every_default() -> None:
    """settings.py has every setting of this package in a comment, with its default."""
    settings = (PROJECT / "demo" / "settings.py").read_text()
    shown = re.findall(r"^# (REP_\w+) = (.+)$", settings, flags=re.MULTILINE)
    assert {name: ast.literal_eval(value) for name, value in shown} == DEFAULTS
    assert len(shown) == len(DEFAULTS)


def test_settings_enable_in_one_line() -> None:
    """One line of settings.py switches this package on; two more are the project's taste."""
    settings = (PROJECT / "demo" / "settings.py").read_text()
    code = re.sub(r"^#.*\n", "", settings, flags=re.MULTILINE)
    lines = [line for line in code.splitlines() if re.search(r"scrapy_rep|REP_", line)]
    assert lines == [
        'ADDONS = {"scrapy_rep.Addon": 500}',
        "REP_UNREACHABLE_WAIT = 0",
        'REP_REL = ["nofollow", "ugc", "sponsored"]',
    ]
