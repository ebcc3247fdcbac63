"""What is read from ledgers."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from scrapy_rep.report.collect import Limits, collect
from scrapy_rep.report.model import Gap, Host, Line, Overridden
from scrapy_rep.report.scratch import Scratch
from scrapy_rep.report.words import headline
from tests.report.ledgers import PRESS, START, Ledger, empty, realistic

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from scrapy_rep.report.model import Report

ORIGIN = "https://a.example"


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    ledger = Ledger(tmp_path / "ledger.rep")
    yield ledger
    ledger.connection.close()


DEFAULT = Limits()


def read(*paths: str, limits: Limits = DEFAULT) -> tuple[Report, list[Host]]:
    """A report, and its hosts."""
    with closing(Scratch(paths)) as scratch:
        report = collect(scratch, limits)
        return report, list(report.hosts)


def test_hosts(tmp_path: Path) -> None:
    """Those with most refusals first, each with what is known of its robots.txt."""
    report, hosts = read(realistic(tmp_path / "ledger"))
    by_origin = {host.origin: host for host in hosts}
    assert report.hosts_met == len(hosts) == 10
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
    """Fewer hosts, files and rows; all of them are counted."""
    limits = Limits(hosts=3, documents=2, rows=1)
    path = realistic(tmp_path / "ledger")
    with closing(Scratch([path])) as scratch:
        report = collect(scratch, limits)
        assert [host.document for host in report.hosts] == [1, 2, None]
        assert len(list(report.documents)) == report.documents_shown == 2
    assert (report.hosts_shown, report.hosts_met) == (3, 10)
    assert report.documents_left_out == 5
    assert (len(report.outages), report.outages_left_out) == (1, 2)


def test_several_ledgers(tmp_path: Path) -> None:
    """What they say is added up: of one host, of one line."""
    one, two = realistic(tmp_path / "one"), realistic(tmp_path / "two")
    report, hosts = read(one, two)
    alone, hosts_alone = read(one)
    assert len(report.crawls) == 4
    assert report.total("refused") == 2 * alone.total("refused")
    assert report.let_through == 2 * alone.let_through
    assert [host.refused for host in hosts] == [2 * one.refused for one in hosts_alone]
    assert [host.rules[0].refused for host in hosts[:1]] == [400]


def test_documents(tmp_path: Path) -> None:
    """Each version of a robots.txt, the last first, with what its own lines decided."""
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
        if isinstance(line, Line) and line.mark
    }
    assert marked == {
        3: ("Disallow: /private/", 200, 0),
        4: ("Disallow: /*?print=", 67, 0),
        5: ("Allow: /private/press-kit/", 0, 30),
    }


def test_a_line_that_refused_and_allowed(ledger: Ledger) -> None:
    """Both are counted; the example is of what it refused."""
    crawl = ledger.crawl()
    snapshot = ledger.snapshot(crawl, ORIGIN, b"User-agent: *\nDisallow: /x\n")
    ledger.refused(crawl, snapshot, f"{ORIGIN}/x", 2, "Disallow: /x")
    ledger.allowed(crawl, snapshot, f"{ORIGIN}/y", line=2, statement="Disallow: /x")
    with closing(Scratch([ledger.close()])) as scratch:
        (document,) = collect(scratch, DEFAULT).documents
    (line,) = (
        one for one in document.versions[0].shown if isinstance(one, Line) and one.mark
    )
    assert line.mark
    assert (line.mark.refused, line.mark.allowed) == (1, 1)
    assert line.mark.example == f"{ORIGIN}/x"


def test_a_body_that_was_cut(ledger: Ledger) -> None:
    """More than is read of a robots.txt is said; many versions are counted."""
    crawl = ledger.crawl()
    for number in range(5):
        body = b"x" * 512_001 if number == 4 else b"%d\n" % number
        ledger.snapshot(crawl, ORIGIN, body, fetched=START + number)
    with closing(Scratch([ledger.close()])) as scratch:
        (document,) = collect(scratch, DEFAULT).documents
    assert document.more_versions == 2
    assert document.versions[0].cut
    assert not any(isinstance(one, Gap) for one in document.versions[1].shown)


def test_delay(ledger: Ledger) -> None:
    """Of Crawl-delay and Request-rate the slower; of the crawler's own group, whose name
    may be known from its User-Agent alone; none where the dialect ignores it.
    """
    body = b"User-agent: mybot\nCrawl-delay: 2\nRequest-rate: 1/10\n"
    agentless = {"agents": "[]"}
    for number, columns in enumerate((agentless, {"dialect": "google"}, {})):
        crawl = ledger.crawl(**columns)
        ledger.snapshot(crawl, f"https://{number}.example", body)
    _, hosts = read(ledger.close())
    assert [host.delay for host in hosts] == [10, None, 10]


def test_outages(tmp_path: Path) -> None:
    """Who could not be reached, why, what was given up, and whether it came back."""
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
    """Each kind is counted; of very many kinds the rarest are left out, and counted."""
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
    """Decisions by overrides, and each setting that is not as by default."""
    report, _ = read(realistic(tmp_path / "ledger"))
    statement = "staging.example: ignore"
    assert report.overridden == (Overridden("override", statement, "allowed", 14, 1),)
    changed = {(one.spider, one.name) for one in report.changed}
    assert ("press", "REP_NOFOLLOW") in changed
    assert ("press", "REP_DIALECT") not in changed


def test_settings_of_scrapy(ledger: Ledger) -> None:
    """As the add-on leaves them they are not listed; ROBOTSTXT_OBEY = False is."""
    parser = "scrapy.robotstxt.ProtegoRobotParser"
    ours = {"ROBOTSTXT_PARSER": parser, "ROBOTSTXT_USER_AGENT": None}
    ledger.crawl("denied", settings={**ours, "ROBOTSTXT_OBEY": True})
    ledger.crawl("denied", settings={**ours, "ROBOTSTXT_OBEY": False})
    report, _ = read(ledger.close())
    assert [(one.name, one.value) for one in report.changed] == [
        ("ROBOTSTXT_OBEY", False)
    ]


def test_while_a_crawl_writes(ledger: Ledger) -> None:
    """What was committed is read, of one moment, and the crawl can go on writing."""
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
    """A ledger that has lost a crawl can be read."""
    ledger.allowed(7, None, f"{ORIGIN}/1")
    ledger.snapshot(7, ORIGIN, PRESS)
    report, hosts = read(ledger.close())
    assert report.let_through == 0
    assert hosts[0].delay is None


def test_headline_of_every_decision(tmp_path: Path) -> None:
    """What was let through is asked about again."""
    said = headline(read(realistic(tmp_path / "ledger"))[0])
    assert said.kept
    assert said.sentence == (
        "0 of 1,560 requests that were let through were forbidden at that time."
    )
    assert "asked again about 1,440 requests" in said.notes[0]
    assert said.notes[1].startswith("120 requests had no robots.txt")
    assert said.notes[2].startswith("14 more requests passed by an override")


def test_headline_of_what_should_not_have_been(ledger: Ledger) -> None:
    """A request that the robots.txt in force forbids is found, whatever was recorded."""
    crawl = ledger.crawl()
    snapshot = ledger.snapshot(crawl, ORIGIN, PRESS)
    ledger.allowed(crawl, snapshot, f"{ORIGIN}/private/1")
    ledger.allowed(crawl, snapshot, f"{ORIGIN}/news", agent="aggregator")
    ledger.allowed(crawl, snapshot, f"{ORIGIN}/news", agent=None, reason="no-group")
    report, _ = read(ledger.close())
    said = headline(report)
    assert not said.kept
    assert said.sentence.startswith("2 of 3 requests that were let through were")
    assert set(report.check.examples) == {f"{ORIGIN}/private/1", f"{ORIGIN}/news"}


def test_forms_are_asked_about_again(ledger: Ledger) -> None:
    """What was let through is held against the rules in all the forms that a server sees."""
    crawl = ledger.crawl()
    snapshot = ledger.snapshot(crawl, ORIGIN, PRESS)
    ledger.allowed(crawl, snapshot, f"{ORIGIN}/news/../private/1")
    ledger.allowed(crawl, snapshot, f"{ORIGIN}/news/../open")
    report, _ = read(ledger.close())
    assert report.check.examples == (f"{ORIGIN}/news/../private/1",)


def test_a_url_without_a_host(ledger: Ledger) -> None:
    """It is counted among what was refused, and not among the hosts."""
    crawl = ledger.crawl()
    ledger.snapshot(crawl, ORIGIN, PRESS)
    ledger.decision(crawl, None, "http://a:+80/", origin="", reason="bad-url")
    report, hosts = read(ledger.close())
    assert [host.origin for host in hosts] == [ORIGIN]
    assert report.hosts_met == 1
    assert [(one.reason, one.count) for one in report.held_back] == [("bad-url", 1)]


def test_examples_are_few(ledger: Ledger) -> None:
    """All that should not have been let through is counted, ten URLs are shown."""
    crawl = ledger.crawl()
    snapshot = ledger.snapshot(crawl, ORIGIN, PRESS)
    for number in range(12):
        ledger.allowed(crawl, snapshot, f"{ORIGIN}/private/{number}")
    report, _ = read(ledger.close())
    assert (report.check.forbidden, len(report.check.examples)) == (12, 10)


def test_headline_of_what_cannot_be_asked_again(ledger: Ledger) -> None:
    """A dialect of the user's own, and a URL that is not whole, are said to be left."""
    own = ledger.crawl(dialect="lenient")
    ledger.allowed(own, ledger.snapshot(own, ORIGIN, PRESS), f"{ORIGIN}/private/")
    crawl = ledger.crawl()
    snapshot = ledger.snapshot(crawl, ORIGIN, PRESS, fetched=START + 20)
    ledger.allowed(crawl, snapshot, f"{ORIGIN}/private/…")
    ledger.crawl("denied")
    said = headline(read(ledger.close())[0])
    assert said.sentence.startswith("0 of 2 requests")
    assert "2 requests could not be asked about again" in said.notes[0]
    assert "what 1 crawl let through" in said.notes[1]


def test_headline_of_refusals_alone(ledger: Ledger) -> None:
    """Nothing is claimed of what was let through; the stats say what was fetched."""
    counts = {"downloader/response_count": 50, "robotstxt/response_count": 8}
    crawl = ledger.crawl("denied", counts=json.dumps(counts))
    snapshot = ledger.snapshot(crawl, ORIGIN, PRESS)
    ledger.refused(crawl, snapshot, f"{ORIGIN}/private/", 3, "Disallow: /private/")
    # Of an override one row is written for each host, whatever it let through.
    ledger.allowed(crawl, None, f"{ORIGIN}/", layer="override", reason="override")
    report, _ = read(ledger.close())
    said = headline(report)
    assert said.sentence == "1 request was refused, 0 items and links dropped."
    assert "refusals alone" in said.notes[0]
    assert (report.responses, report.let_through_by_override) == (42, 0)
    assert not report.complete


def test_headline_of_nothing(tmp_path: Path, ledger: Ledger) -> None:
    """A ledger without a crawl, and a crawl without a request."""
    assert headline(read(empty(tmp_path / "empty"))[0]).sentence.startswith("No crawl")
    ledger.crawl()
    assert headline(read(ledger.close())[0]).sentence == "No request was let through."


def test_pages_that_are_kept_by_a_setting(ledger: Ledger) -> None:
    """What does not count of what a page says is an override, and no request."""
    crawl = ledger.crawl()
    given = {"layer": "override", "reason": "REP_NOINDEX", "statement": "noindex"}
    ledger.allowed(crawl, None, f"{ORIGIN}/", page=f"{ORIGIN}/", **given)
    ledger.decision(crawl, None, f"{ORIGIN}/", layer="meta", verdict="noted")
    report, _ = read(ledger.close())
    assert report.let_through_by_override == 0
    assert report.overridden[0].reason == "REP_NOINDEX"
    assert len(report.said) == 1
    assert report.held_back == []
