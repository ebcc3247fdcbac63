"""The parts of the example project: its server, its judge, its settings."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener

import pytest

from scrapy_rep.settings import DEFAULTS
from tests.example import PROJECT

pytestmark = pytest.mark.newest

PDF = "http://docs.example/guide/guide.pdf"
MEMBERS, RIVALS, PAPER, ARCHIVE, PRINT = (
    f"http://press.example/{name}"
    for name in (
        "members.html",
        "rivals.html",
        "paper.pdf",
        "archive.html",
        "print.html",
    )
)


def test_judge_reads_headers_and_tags(monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge reads X-Robots-Tag headers and robots meta tags, also
    those for one crawler only.
    """
    monkeypatch.syspath_prepend(str(PROJECT))
    judge = import_module("demo.judge")
    pages = [MEMBERS, RIVALS, PAPER, ARCHIVE, PRINT]
    ours = set(judge.noindex_pages(pages, "demobot/1.0"))
    theirs = set(judge.noindex_pages(pages, "otherbot/1.0"))
    assert ours == {MEMBERS, PAPER, ARCHIVE, PRINT}
    assert theirs == {RIVALS, PAPER, ARCHIVE, PRINT}


def test_judge_knows_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge reports the smallest gap between requests to a host with a Crawl-delay, in
    whatever order they are logged, and requests outside of Visit-time. A host with a
    single request has no gap.
    """
    monkeypatch.syspath_prepend(str(PROJECT))
    hosts, judge = import_module("demo.hosts"), import_module("demo.judge")
    server = import_module("demo.server")
    host = {each.name: each for each in hosts.HOSTS}
    log = [
        server.Hit(f"{host[name].origin}/", host[name], 200, seconds)
        for name, seconds in [
            ("slow", 9.0), ("slow", 5.0), ("slow", 8.75), ("glacial", 5.0),
            ("open", 5.0), ("open", 5.0), ("night", 5.0),
        ]
    ]  # fmt: skip
    assert judge.gaps(log, "demobot/1.0") == [(host["slow"], 0.3, 0.25)]
    assert judge.untimely_hits(log, "demobot/1.0") == [log[-1]]


def test_judge_misses_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge knows which pages a crawl must fetch, and how often each robots.txt may be
    fetched: once for its own host, and once for a host that redirects there.
    """
    monkeypatch.syspath_prepend(str(PROJECT))
    hosts, judge = import_module("demo.hosts"), import_module("demo.judge")
    server = import_module("demo.server")
    host = {each.name: each for each in hosts.HOSTS}
    crawl = "http://open.example/", "demobot/1.0", 180, ["nofollow", "ugc", "sponsored"]
    wanted = judge.missing_pages([], *crawl)
    assert len(wanted) == 32
    assert {ARCHIVE, MEMBERS, f"{PDF}?page=1", "http://open.example/offer"} < wanted
    assert not {PDF, "http://glacial.example/", "http://down.example/"} & wanted
    assert not {url for url in wanted if "comments/" in url or "letters/" in url}
    hits = [server.Hit(url, host["open"], 200, 0.0) for url in wanted - {PAPER}]
    assert judge.missing_pages(hits, *crawl) == {PAPER}
    robots = [f"http://{name}.example/robots.txt" for name in ("docs", "docs", "open")]
    asked = [server.Hit(url, host["docs"], 200, 0.0) for url in robots]
    assert judge.repeated_robotstxts(asked) == []
    asked.append(asked[0])
    assert judge.repeated_robotstxts(asked) == [robots[0]]


def test_declared_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The description of a host can add headers to the answer for a file, also the same
    header twice. Requests for unknown hosts fail.
    """
    monkeypatch.syspath_prepend(str(PROJECT))
    hosts, server = import_module("demo.hosts"), import_module("demo.server")
    tags = (("X-Robots-Tag", "noindex"), ("X-Robots-Tag", "nofollow"))
    answers = {"/guide/guide.pdf": hosts.Answer(headers=tags)}
    site = server.SiteServer([hosts.Host("docs", answers)])
    site.start()
    browser = build_opener(ProxyHandler({"http": site.address}))
    try:
        with browser.open(PDF, timeout=120) as response:
            assert response.headers.get_all("X-Robots-Tag") == ["noindex", "nofollow"]
            assert response.headers["Content-Type"] == "application/pdf"
            assert response.read().startswith(b"%PDF-")
        with pytest.raises(HTTPError, match="The bundled site has no such host"):
            browser.open("http://elsewhere.example/", timeout=120)
        assert [hit.url for hit in site.log] == [PDF]
    finally:
        site.stop()


def test_settings_show_every_default() -> None:
    """settings.py shows every setting of this package in a comment, with its default."""
    settings = (PROJECT / "demo" / "settings.py").read_text()
    shown = re.findall(r"^# (REP_\w+) = (.+)$", settings, flags=re.MULTILINE)
    assert {name: ast.literal_eval(value) for name, value in shown} == DEFAULTS
    assert len(shown) == len(DEFAULTS)


def test_settings_enable_in_one_line() -> None:
    """One line of settings.py enables this package; four more set options of the project."""
    settings = (PROJECT / "demo" / "settings.py").read_text()
    code = re.sub(r"^#.*\n", "", settings, flags=re.MULTILINE)
    lines = [line for line in code.splitlines() if re.search(r"scrapy_rep|REP_", line)]
    assert lines == [
        'ADDONS = {"scrapy_rep.Addon": 500}',
        "REP_UNREACHABLE_WAIT = 0",
        'REP_REL = ["nofollow", "ugc", "sponsored"]',
        'REP_LEDGER = "demo.ledger"',
        'REP_LEDGER_LEVEL = "all"',
    ]
