"""Data that the report reads from ledgers."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from scrapy_rep.report.collect import Limits, collect
from scrapy_rep.report.documents import Gap, ShownLine
from scrapy_rep.report.model import Overridden
from scrapy_rep.report.render import render
from scrapy_rep.report.scratch import Scratch
from scrapy_rep.report.urls import JudgedUrl
from scrapy_rep.report.words import headline, without_robotstxt
from tests.report.ledgers import PRESS, START, Ledger, empty, realistic

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from scrapy_rep.report.hosts import Host
    from scrapy_rep.report.model import Report

ORIGIN = "https://a.example"


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    ledger = Ledger(tmp_path / "ledger.rep")
    yield ledger
    ledger.connection.close()


DEFAULT = Limits()


def read(*paths: str, limits: Limits = DEFAULT) -> tuple[Report, list[Host]]:
    """Return the report and its hosts."""
    with closing(Scratch(paths)) as scratch:
        report = collect(scratch, limits)
        return report, list(report.hosts)


def test_hosts(tmp_path: Path) -> None:
    """Hosts are sorted by refusals, each with the state of its robots.txt."""
    report, hosts = read(realistic(tmp_path / "ledger"))
    by_origin = {host.origin: host for host in hosts}
    assert report.hosts.met == len(hosts) == 10
    assert [host.refused for host in hosts] == sorted(
        (host.refused for host in hosts), reverse=True
    )
    press = by_origin["https://press.example"]
    assert (press.access, press.status, press.delay) == ("successful", 200, 2.0)
    assert [(rule.statement, rule.refused) for rule in press.rules] == [
        ("Disallow: /private/", 200),
        ("Disallow: /*?print=", 67),
        ("Disallow: /archive/", 40),
    ]
    assert by_origin["https://shop.example"].dropped == 91
    old = by_origin["https://old.example"]
    assert (old.access, old.copy, old.age) == ("unreachable", True, 4600)
    assert by_origin["https://bare.example"].document is None
    assert by_origin["https://staging.example"].access is None


def test_limits_say_what_is_left_out(tmp_path: Path) -> None:
    """With limits on hosts, files and rows, the omitted ones are counted."""
    limits = Limits(hosts=3, documents=2, rows=1)
    path = realistic(tmp_path / "ledger")
    with closing(Scratch([path])) as scratch:
        report = collect(scratch, limits)
        assert [host.document for host in report.hosts] == [1, 2, None]
        assert len(list(report.documents)) == len(report.documents.numbers) == 2
    assert (report.hosts.shown, report.hosts.met) == (3, 10)
    assert report.documents.left_out == 5
    assert (len(report.outages), report.outages_left_out) == (1, 2)


def test_several_ledgers(tmp_path: Path) -> None:
    """Numbers of several ledgers are added up, by host and by line."""
    one, two = realistic(tmp_path / "one"), realistic(tmp_path / "two")
    report, hosts = read(one, two)
    alone, hosts_alone = read(one)
    assert len(report.crawls) == 4
    assert report.total("refused") == 2 * alone.total("refused")
    assert report.let_through == 2 * alone.let_through
    assert [host.refused for host in hosts] == [2 * one.refused for one in hosts_alone]
    assert [host.rules[0].refused for host in hosts[:1]] == [400]


def test_documents(tmp_path: Path) -> None:
    """Versions of a robots.txt are listed, latest first, with the decisions of their lines."""
    with closing(Scratch([realistic(tmp_path / "ledger")])) as scratch:
        document = next(iter(collect(scratch, DEFAULT).documents))
    assert (document.origin, document.refused, document.allowed) == (
        "https://press.example", 307, 30,
    )  # fmt: skip
    later, earlier = document.versions
    assert (later.size, later.marked, later.cut) == (len(PRESS) + 20, 1, False)
    marked = {
        line.number: (line.text, line.mark.refused, line.mark.allowed)
        for line in earlier.shown
        if isinstance(line, ShownLine) and line.mark
    }
    assert marked == {
        3: ("Disallow: /private/", 200, 0),
        4: ("Disallow: /*?print=", 67, 0),
        5: ("Allow: /private/press-kit/", 0, 30),
    }


def test_a_line_that_refused_and_allowed(ledger: Ledger) -> None:
    """A line that refused and allowed URLs has both counts; the example is a refused URL."""
    crawl = ledger.crawl()
    snapshot = ledger.snapshot(crawl, ORIGIN, b"User-agent: *\nDisallow: /x\n")
    ledger.refused(crawl, snapshot, f"{ORIGIN}/x", 2, "Disallow: /x")
    ledger.allowed(crawl, snapshot, f"{ORIGIN}/y", line=2, statement="Disallow: /x")
    with closing(Scratch([ledger.close()])) as scratch:
        (document,) = collect(scratch, DEFAULT).documents
    (line,) = (
        one
        for one in document.versions[0].shown
        if isinstance(one, ShownLine) and one.mark
    )
    assert line.mark
    assert (line.mark.refused, line.mark.allowed) == (1, 1)
    assert line.mark.example == f"{ORIGIN}/x"


def test_a_body_that_was_cut(ledger: Ledger) -> None:
    """A long robots.txt is cut, and omitted versions are counted."""
    crawl = ledger.crawl()
    for number in range(5):
        body = b"x" * 512_001 if number == 4 else b"%d\n" % number
        ledger.snapshot(crawl, ORIGIN, body, fetched=START + number)
    with closing(Scratch([ledger.close()])) as scratch:
        (document,) = collect(scratch, DEFAULT).documents
    assert document.more_versions == 2
    assert document.versions[0].cut
    assert not any(isinstance(one, Gap) for one in document.versions[1].shown)


def test_the_dates_of_a_copy(ledger: Ledger) -> None:
    """An older copy that was followed has the date of its own fetch, not of the failed one."""
    crawl = ledger.crawl()
    busy = {"access": "unreachable", "status": 503, "copy_of": START - 4000}
    ledger.snapshot(crawl, ORIGIN, PRESS, **busy)
    with closing(Scratch([ledger.close()])) as scratch:
        (document,) = collect(scratch, DEFAULT).documents
    (version,) = document.versions
    assert version.first == version.last == version.copy_of == START - 4000


def test_delay(ledger: Ledger) -> None:
    """The delay is the slower of Crawl-delay and Request-rate for the crawler's own
    group, even if only its User-Agent is known; none if the dialect ignores them.
    """
    body = b"User-agent: mybot\nCrawl-delay: 2\nRequest-rate: 1/10\n"
    agentless = {"agents": "[]"}
    for number, columns in enumerate((agentless, {"dialect": "google"}, {})):
        crawl = ledger.crawl(**columns)
        ledger.snapshot(crawl, f"https://{number}.example", body)
    _, hosts = read(ledger.close())
    assert [host.delay for host in hosts] == [10, None, 10]


def test_gap(tmp_path: Path) -> None:
    """The gap is the shortest time between two requests to a host, also of different
    workers; hosts without a delay have none.
    """
    paths = []
    for worker, times in enumerate(([0, 10, 20.5], [5.25, 40])):
        ledger = Ledger(tmp_path / f"{worker}.rep")
        crawl = ledger.crawl()
        snapshot = ledger.snapshot(crawl, ORIGIN, PRESS)
        free = ledger.snapshot(crawl, "https://free.example", b"User-agent: *\n")
        for time in times:
            ledger.allowed(crawl, snapshot, f"{ORIGIN}/{time}", time=START + time)
            url = f"https://free.example/{time}"
            ledger.allowed(crawl, free, url, time=START + time)
        # Refusals, overrides and statements of pages send no request.
        for given in (
            {"verdict": "refused"},
            {"layer": "override"},
            {"page": f"{ORIGIN}/"},
        ):
            given = {"time": START + 10.1, **given}
            ledger.allowed(crawl, snapshot, f"{ORIGIN}/no", **given)
        paths.append(ledger.close())
    _, hosts = read(paths[0])
    assert {host.origin: (host.delay, host.gap) for host in hosts} == {
        ORIGIN: (2.0, 10.0),
        "https://free.example": (None, None),
    }
    _, hosts = read(*paths)
    assert [host.gap for host in hosts if host.origin == ORIGIN] == [4.75]


def test_no_gap_of_refusals_alone(ledger: Ledger) -> None:
    """A ledger that records only refusals has no gaps."""
    ledger.snapshot(ledger.crawl("denied"), ORIGIN, PRESS)
    _, (host,) = read(ledger.close())
    assert (host.delay, host.gap) == (2.0, None)


def test_refused_and_overridden_urls(ledger: Ledger) -> None:
    """Each URL has its rule and its count, refusals first; omitted URLs are counted."""
    crawl = ledger.crawl()
    snapshot = ledger.snapshot(crawl, ORIGIN, PRESS)
    given = {
        "layer": "override",
        "reason": "override",
        "statement": "a.example: ignore",
    }
    ledger.allowed(crawl, None, f"{ORIGIN}/own", agent=None, **given)
    for number in range(60):
        url = f"{ORIGIN}/private/{number}"
        for _ in range(2 if number == 59 else 1):
            ledger.refused(crawl, snapshot, url, 3, "Disallow: /private/")
    ledger.allowed(crawl, snapshot, f"{ORIGIN}/open")
    other = "https://b.example"
    ledger.refused(crawl, snapshot, f"{other}/x", 3, "Disallow: /x")
    with closing(Scratch([ledger.close()])) as scratch:
        report = collect(scratch, DEFAULT)
        first, second = report.urls
        few = collect(scratch, Limits(rows=1))
        assert (len(few.urls.numbers), few.urls.left_out) == (1, 1)
        assert [host.urls for host in report.hosts] == [1, 2]
    assert (first.origin, first.refused, first.overridden) == (ORIGIN, 61, 1)
    assert (len(first.urls), first.more_urls) == (20, 41)
    assert first.urls[0] == JudgedUrl(
        f"{ORIGIN}/private/59",
        "refused",
        "robots.txt",
        "rule",
        3,
        "Disallow: /private/",
        2,
    )
    assert first.urls[1].url == f"{ORIGIN}/private/0"
    assert [one.url for one in second.urls] == [f"{other}/x"]


def test_overridden_urls(ledger: Ledger) -> None:
    """A host with only overridden decisions is listed too."""
    crawl = ledger.crawl()
    given = {
        "layer": "override",
        "reason": "override",
        "statement": "a.example: ignore",
    }
    ledger.allowed(crawl, None, f"{ORIGIN}/own", agent=None, **given)
    with closing(Scratch([ledger.close()])) as scratch:
        (host,) = collect(scratch, DEFAULT).urls
    (one,) = host.urls
    assert (host.refused, host.overridden, host.more_urls) == (0, 1, 0)
    assert (one.verdict, one.layer, one.statement) == (
        "allowed", "override", "a.example: ignore",
    )  # fmt: skip


def test_a_rule_of_an_override_that_allows(ledger: Ledger) -> None:
    """The page does not call a rule that allows a URL a rule that forbids it."""
    given = {"layer": "override", "reason": "rule", "statement": "Allow: /own"}
    ledger.allowed(ledger.crawl(), None, f"{ORIGIN}/own", line=2, **given)
    with closing(Scratch([ledger.close()])) as scratch:
        page = "".join(render(collect(scratch, DEFAULT), START))
    for section in ("urls", "overridden"):
        text = page.partition(f'<section id="{section}"')[2].partition("</section>")[0]
        assert "Allow: /own" in text
        assert "a rule matches" in text
        assert "forbid" not in text


def test_without_a_robotstxt(ledger: Ledger) -> None:
    """Each host without a robots.txt counts once, with its last result and its requests."""
    crawl = ledger.crawl()
    loop = "redirected more than 5 times, in a loop"
    for number, (status, error) in enumerate(
        [(404, None)] * 25 + [(403, None), (301, loop), (499, None)]
    ):
        origin = f"https://{number:02}.example"
        ledger.snapshot(crawl, origin, status=410)
        snapshot = ledger.snapshot(
            crawl, origin, status=status, error=error, fetched=START + 60
        )
        ledger.allowed(crawl, snapshot, f"{origin}/", reason="unavailable")
    ledger.decision(crawl, snapshot, f"{origin}/no", reason="unavailable")
    ledger.snapshot(crawl, ORIGIN, PRESS)
    report, _ = read(ledger.close())
    found = {
        without_robotstxt(one.status, one.error): (one.hosts, one.allowed, one.refused)
        for one in report.without.reasons
    }
    assert found == {
        "404 Not Found": (25, 25, 0),
        f"{loop} (301 Moved Permanently)": (1, 1, 0),
        "403 Forbidden": (1, 1, 0),
        "status 499": (1, 1, 1),
    }
    assert report.without.hosts == 28
    assert report.without.reasons[0].origins[0] == "https://00.example"
    assert len(report.without.reasons[0].origins) == 20


def test_outages(tmp_path: Path) -> None:
    """Unreachable hosts are listed with reason, abandoned requests and recovery."""
    report, _ = read(realistic(tmp_path / "ledger"))
    found = {one.origin: one for one in report.outages}
    gone = found["https://gone.example"]
    assert (gone.error, gone.given_up, gone.recovered) == (
        "DNS lookup failed",
        25,
        False,
    )
    assert found["https://busy.example"].recovered
    assert found["https://old.example"].copy


def test_rare_answers(ledger: Ledger) -> None:
    """Each kind of response is counted; of very many kinds, the rarest are left out."""
    crawl = ledger.crawl()
    for number in range(25):
        nothing = {"access": "unreachable", "status": None, "error": f"no {number:02}"}
        ledger.snapshot(crawl, f"https://{number}.example", **nothing)
    ledger.snapshot(crawl, ORIGIN)
    ledger.snapshot(crawl, ORIGIN, fetched=START + 99)
    report, _ = read(ledger.close())
    first, *others = report.answers
    assert (first.access, first.status, first.count, first.hosts) == (
        "unavailable", 404, 2, 1,
    )  # fmt: skip
    assert [one.error for one in others] == [f"no {number:02}" for number in range(19)]
    assert report.answers_left_out == 6


def test_overridden(tmp_path: Path) -> None:
    """Decisions by overrides are listed, and settings that differ from their defaults."""
    report, _ = read(realistic(tmp_path / "ledger"))
    statement = "staging.example: ignore"
    assert report.overridden == (Overridden("override", statement, "allowed", 14, 1),)
    changed = {(one.spider, one.name) for one in report.changed}
    assert ("press", "REP_NOFOLLOW") in changed
    assert ("press", "REP_DIALECT") not in changed


def test_settings_of_scrapy(ledger: Ledger) -> None:
    """Settings that only the add-on changed are not listed; ROBOTSTXT_OBEY = False is."""
    parser = "scrapy.robotstxt.ProtegoRobotParser"
    ours = {"ROBOTSTXT_PARSER": parser, "ROBOTSTXT_USER_AGENT": None}
    ledger.crawl("denied", settings={**ours, "ROBOTSTXT_OBEY": True})
    ledger.crawl("denied", settings={**ours, "ROBOTSTXT_OBEY": False})
    report, _ = read(ledger.close())
    assert [(one.name, one.value) for one in report.changed] == [
        ("ROBOTSTXT_OBEY", False)
    ]


def test_while_a_crawl_writes(ledger: Ledger) -> None:
    """The report reads one committed state, while the crawl continues to write."""
    ledger.connection.execute("PRAGMA journal_mode = WAL")
    crawl = ledger.crawl(ended=None)
    ledger.allowed(crawl, None, f"{ORIGIN}/1", reason="unavailable")
    ledger.connection.commit()
    ledger.allowed(crawl, None, f"{ORIGIN}/2", reason="unavailable")
    with closing(Scratch([ledger.path])) as scratch:
        ledger.connection.commit()
        report = collect(scratch, DEFAULT)
    assert report.let_through == 1
    assert report.crawls[0].ended is None


def test_a_decision_of_no_crawl(ledger: Ledger) -> None:
    """A ledger with decisions of a missing crawl can be read."""
    ledger.allowed(7, None, f"{ORIGIN}/1")
    ledger.snapshot(7, ORIGIN, PRESS)
    report, hosts = read(ledger.close())
    assert report.let_through == 0
    assert hosts[0].delay is None


def test_headline_of_every_decision(tmp_path: Path) -> None:
    """The headline checks all requests again."""
    said = headline(read(realistic(tmp_path / "ledger"))[0])
    assert said.kept
    assert said.sentence == ("0 of 1,560 pages fetched were forbidden")
    assert said.notes[0].startswith("1,440 pages checked again for this report")
    assert said.notes[1] == "No robots.txt applied to 120 pages: 1 host had none."
    assert said.notes[2] == "14 more pages fetched because of an override."


def test_headline_of_what_should_not_have_been(ledger: Ledger) -> None:
    """The headline counts requests that robots.txt forbade, whatever was recorded."""
    crawl = ledger.crawl()
    snapshot = ledger.snapshot(crawl, ORIGIN, PRESS)
    ledger.allowed(crawl, snapshot, f"{ORIGIN}/private/1")
    ledger.allowed(crawl, snapshot, f"{ORIGIN}/news", agent="aggregator")
    ledger.allowed(crawl, snapshot, f"{ORIGIN}/news", agent=None, reason="no-group")
    report, _ = read(ledger.close())
    said = headline(report)
    assert not said.kept
    assert said.sentence.startswith("2 of 3 pages fetched were forbidden")
    assert set(report.check.examples) == {f"{ORIGIN}/private/1", f"{ORIGIN}/news"}


def test_forms_are_asked_about_again(ledger: Ledger) -> None:
    """The headline checks requests in all forms that a server may see."""
    crawl = ledger.crawl()
    snapshot = ledger.snapshot(crawl, ORIGIN, PRESS)
    ledger.allowed(crawl, snapshot, f"{ORIGIN}/news/../private/1")
    ledger.allowed(crawl, snapshot, f"{ORIGIN}/news/../open")
    report, _ = read(ledger.close())
    assert report.check.examples == (f"{ORIGIN}/news/../private/1",)


def test_a_url_without_a_host(ledger: Ledger) -> None:
    """A URL without a host counts as refused, but not as a host."""
    crawl = ledger.crawl()
    ledger.snapshot(crawl, ORIGIN, PRESS)
    ledger.decision(crawl, None, "http://a:+80/", origin="", reason="bad-url")
    report, hosts = read(ledger.close())
    assert [host.origin for host in hosts] == [ORIGIN]
    assert report.hosts.met == 1
    assert [(one.reason, one.count) for one in report.held_back] == [("bad-url", 1)]


def test_examples_are_few(ledger: Ledger) -> None:
    """All wrongly sent requests are counted, and ten of their URLs are shown."""
    crawl = ledger.crawl()
    snapshot = ledger.snapshot(crawl, ORIGIN, PRESS)
    for number in range(12):
        ledger.allowed(crawl, snapshot, f"{ORIGIN}/private/{number}")
    report, _ = read(ledger.close())
    assert (report.check.forbidden, len(report.check.examples)) == (12, 10)


def test_headline_of_what_cannot_be_asked_again(ledger: Ledger) -> None:
    """The headline says if a custom dialect or an incomplete URL could not be checked."""
    own = ledger.crawl(dialect="lenient")
    ledger.allowed(own, ledger.snapshot(own, ORIGIN, PRESS), f"{ORIGIN}/private/")
    crawl = ledger.crawl()
    snapshot = ledger.snapshot(crawl, ORIGIN, PRESS, fetched=START + 20)
    ledger.allowed(crawl, snapshot, f"{ORIGIN}/private/…")
    ledger.crawl("denied")
    said = headline(read(ledger.close())[0])
    assert said.sentence.startswith("0 of 2 pages")
    assert "2 pages could not be checked again" in said.notes[0]
    assert "the pages of 1 crawl" in said.notes[1]


def test_headline_of_refusals_alone(ledger: Ledger) -> None:
    """If a ledger records only refusals, the headline makes no claim about requests."""
    counts = {"downloader/response_count": 50, "robotstxt/response_count": 8}
    crawl = ledger.crawl("denied", counts=json.dumps(counts))
    snapshot = ledger.snapshot(crawl, ORIGIN, PRESS)
    ledger.refused(crawl, snapshot, f"{ORIGIN}/private/", 3, "Disallow: /private/")
    # An override has one row for each host, however many requests it allowed.
    ledger.allowed(crawl, None, f"{ORIGIN}/", layer="override", reason="override")
    report, _ = read(ledger.close())
    said = headline(report)
    assert said.sentence == "1 request was refused, 0 items and links dropped"
    assert "only refusals" in said.notes[0]
    assert (report.responses, report.let_through_by_override) == (42, 0)
    assert not report.complete


def test_headline_of_nothing(tmp_path: Path, ledger: Ledger) -> None:
    """The headline of a ledger without a crawl, and of a crawl without requests."""
    assert headline(read(empty(tmp_path / "empty"))[0]).sentence.startswith("No crawl")
    ledger.crawl()
    assert headline(read(ledger.close())[0]).sentence == "No page was fetched"


def test_pages_that_are_kept_by_a_setting(ledger: Ledger) -> None:
    """An override of a page's statement counts as an override, and not as a request."""
    crawl = ledger.crawl()
    given = {"layer": "override", "reason": "REP_NOINDEX", "statement": "noindex"}
    ledger.allowed(crawl, None, f"{ORIGIN}/", page=f"{ORIGIN}/", **given)
    ledger.decision(crawl, None, f"{ORIGIN}/", layer="meta", verdict="noted")
    report, _ = read(ledger.close())
    assert report.let_through_by_override == 0
    assert report.overridden[0].reason == "REP_NOINDEX"
    assert len(report.noted) == 1
    assert report.held_back == []
