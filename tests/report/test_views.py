"""The figures of a report, and the rows of its views."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from scrapy_rep.report import shown
from scrapy_rep.report.ledgers import IN_PLACE, Ledgers, Limits
from scrapy_rep.report.render import render
from scrapy_rep.report.robotstxt import excerpt
from scrapy_rep.report.tables import overall
from tests.report.ledgers import PRESS, START, Ledger, brief, empty, realistic, used

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence
    from pathlib import Path

ORIGIN = "https://a.example"


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    ledger = Ledger(tmp_path / "ledger.rep")
    yield ledger
    ledger.connection.close()


DEFAULT = Limits()


def rows(
    name: str, *paths: str, limits: Limits = DEFAULT, **columns: object
) -> list[sqlite3.Row]:
    """Return the rows of a view over the ledgers at *paths*."""
    with closing(Ledgers(paths, limits)) as ledgers:
        return ledgers.view(name, **columns).fetchall()


def row(name: str, *paths: str) -> sqlite3.Row:
    (found,) = rows(name, *paths)
    return found


def values(found: Sequence[sqlite3.Row], *columns: str) -> list[tuple[object, ...]]:
    return [tuple(each[column] for column in columns) for each in found]


def report(*paths: str) -> dict[str, Any]:
    """Return what the report says of the crawls as a whole."""
    with closing(Ledgers(paths, DEFAULT)) as ledgers:
        return overall(ledgers, START)


def delays(*paths: str) -> dict[str, float | None]:
    with closing(Ledgers(paths, DEFAULT)) as ledgers:
        return {host["origin"]: host["delay"] for host in ledgers.view("host")}


def page(*paths: str, limits: Limits = DEFAULT) -> str:
    with closing(Ledgers(paths, limits)) as ledgers:
        return "".join(render(ledgers, START))


def test_hosts(tmp_path: Path) -> None:
    """Hosts are sorted by refusals, each with the state of its robots.txt."""
    path = realistic(tmp_path / "ledger")
    hosts = rows("host", path)
    by_origin = {host["origin"]: host for host in hosts}
    assert len(hosts) == report(path)["figures"]["hosts"] == 10
    refused = [host["refused"] for host in hosts]
    assert refused == sorted(refused, reverse=True)
    press = by_origin["https://press.example"]
    assert (press["access"], press["status"]) == ("successful", 200)
    assert values(
        rows("rule", path, origin=press["origin"]), "statement", "refused"
    ) == [
        ("Disallow: /private/", 200),
        ("Disallow: /*?print=", 67),
        ("Disallow: /archive/", 40),
    ]
    assert by_origin["https://shop.example"]["dropped"] == 91
    old = by_origin["https://old.example"]
    assert (old["access"], old["copy_of"], old["age"]) == (
        "unreachable", START - 4000, 4600,
    )  # fmt: skip
    assert by_origin["https://bare.example"]["file"] is None
    assert by_origin["https://staging.example"]["access"] is None


def test_limits_say_what_is_left_out(tmp_path: Path) -> None:
    """With limits on hosts, files and rows, the omitted ones are counted."""
    limits = Limits(hosts=3, files=2, others=1)
    path = realistic(tmp_path / "ledger")
    hosts = rows("host", path, limits=limits)
    assert [host["file"] for host in hosts] == [1, 2, None]
    files = rows("file", path, limits=limits)
    assert values(files, "number", "of_all") == [(1, 7), (2, 7)]
    assert values(rows("outage", path, limits=limits), "of_all") == [(3,)]
    unreachable = page(path, limits=limits).partition('id="unreachable"')[2]
    assert "2 more hosts not shown" in unreachable.partition("</section>")[0]
    assert {each["number"] for each in rows("version", path, limits=limits)} == {1, 2}


@pytest.mark.parametrize("number", [2, IN_PLACE + 3])
def test_several_ledgers(tmp_path: Path, number: int) -> None:
    """A report reads any number of ledgers, also more than SQLite attaches. Numbers of several
    are added up, by host and by line.
    """
    paths = [brief(tmp_path / str(each)) for each in range(number)]
    both, alone = report(*paths), report(paths[0])
    for name in ("crawls", "refused", "dropped", "annotated", "let_through"):
        assert both["figures"][name] == number * alone["figures"][name] > 0
    checked = alone["checked_again"]["checked"]
    assert both["checked_again"]["checked"] == number * checked > 0
    for view, columns in (
        ("outcome", ("layer", "reason")),
        ("rule", ("origin", "statement")),
    ):
        count = "times" if view == "outcome" else "refused"
        found = [
            values(rows(view, *each), *columns, count) for each in (paths, paths[:1])
        ]
        assert sorted(found[0]) == sorted(
            (*which, number * times) for *which, times in found[1]
        )
    own = Ledger(tmp_path / "own")
    own.snapshot(ORIGIN, b"User-agent: *\nDisallow: /own/\n")
    own.refused(f"{ORIGIN}/own/1", 2, "Disallow: /own/")
    text = page(*paths, own.close())
    assert f"for example {ORIGIN}/own/1" in text
    assert "<mark>Disallow: /own/</mark>" in text


def test_documents(tmp_path: Path) -> None:
    """Versions of a robots.txt are listed, latest first, with the decisions of their lines."""
    path = realistic(tmp_path / "ledger")
    first = rows("file", path)[0]
    assert (first["origin"], first["refused"], first["allowed"]) == (
        "https://press.example", 307, 30,
    )  # fmt: skip
    with closing(Ledgers([path], DEFAULT)) as ledgers:
        later, earlier, *_ = ledgers.view("version")
        marks = ledgers.view("mark", origin=earlier["origin"], sha256=earlier["sha256"])
        lines = excerpt(ledgers, earlier, marks.fetchall())
    assert (later["size"], earlier["size"]) == (len(PRESS) + 20, len(PRESS))
    marked = {
        number: (text, mark["refused"], mark["allowed"])
        for number, text, mark in lines
        if mark
    }
    assert marked == {
        3: ("Disallow: /private/", 200, 0),
        4: ("Disallow: /*?print=", 67, 0),
        5: ("Allow: /private/press-kit/", 0, 30),
    }


def test_the_dates_of_a_copy(ledger: Ledger) -> None:
    """An older copy that was followed has the date of its own fetch, not of the failed one."""
    busy = {"access": "unreachable", "status": 503, "copy_of": START - 4000}
    ledger.snapshot(ORIGIN, PRESS, **busy)
    version = row("version", ledger.close())
    assert version["first"] == version["last"] == version["copy_of"] == START - 4000


def test_delay(ledger: Ledger) -> None:
    """The delay is the slower of Crawl-delay and Request-rate for the crawler's own
    group, even if only its User-Agent is known; none if the dialect ignores them.
    """
    body = b"User-agent: mybot\nCrawl-delay: 2\nRequest-rate: 1/10\n"
    agentless = {"agents": "[]"}
    for number, columns in enumerate((agentless, {"dialect": "google"}, {})):
        ledger.crawl(**columns)
        ledger.snapshot(f"https://{number}.example", body)
    assert list(delays(ledger.close()).values()) == [10, None, 10]


def test_gap(tmp_path: Path) -> None:
    """The gap is the shortest time between two requests to a host, also of different
    workers.
    """
    paths = []
    for worker, times in enumerate(([0, 10, 20.5], [5.25, 40])):
        ledger = Ledger(tmp_path / f"{worker}.rep")
        ledger.snapshot(ORIGIN, PRESS)
        for time in times:
            ledger.allowed(f"{ORIGIN}/{time}", time=START + time)
        # Refusals, overrides and statements of pages send no request.
        for given in (
            {"verdict": "refused"},
            {"layer": "override"},
            {"page": f"{ORIGIN}/"},
        ):
            given = {"time": START + 10.1, **given}
            ledger.allowed(f"{ORIGIN}/no", **given)
        paths.append(ledger.close())
    assert row("host", paths[0])["gap"] == 10.0
    assert row("host", *paths)["gap"] == 4.75


OWN = {"layer": "override", "reason": "override", "statement": "a.example: ignore"}


def test_refused_and_overridden_urls(ledger: Ledger) -> None:
    """Each URL has its rule and its count, refusals first; omitted URLs are counted."""
    ledger.snapshot(ORIGIN, PRESS)
    ledger.allowed(f"{ORIGIN}/own", agent=None, **OWN)
    for number in range(60):
        url = f"{ORIGIN}/private/{number}"
        for _ in range(2 if number == 59 else 1):
            ledger.refused(url, 3, "Disallow: /private/")
    ledger.allowed(f"{ORIGIN}/open")
    other = "https://b.example"
    ledger.refused(f"{other}/x", 3, "Disallow: /x")
    path = ledger.close()
    assert values(rows("judged", path), "origin", "refused", "overridden") == [
        (ORIGIN, 61, 1), (other, 1, 0),
    ]  # fmt: skip
    few = rows("judged", path, limits=Limits(others=1))
    assert values(few, "origin", "of_all") == [(ORIGIN, 2)]
    assert [host["judged"] for host in rows("host", path)] == [1, 2]
    *urls, second = rows("judged_url", path)
    assert len(urls) == 20
    assert {url["urls_of_host"] for url in urls} == {61}
    columns = "url", "verdict", "layer", "reason", "line", "statement", "times"
    rule = "refused", "robots.txt", "rule", 3, "Disallow: /private/"
    assert values(urls[:2], *columns) == [
        (f"{ORIGIN}/private/59", *rule, 2), (f"{ORIGIN}/private/0", *rule, 1),
    ]  # fmt: skip
    assert second["url"] == f"{other}/x"
    assert "41 more URLs not shown" in page(path)


def test_without_a_robotstxt(ledger: Ledger) -> None:
    """Each host without a robots.txt counts once, with its last result and its requests."""
    loop = "redirected more than 5 times, in a loop"
    for number, (status, error) in enumerate(
        [(404, None)] * 25 + [(403, None), (301, loop), (499, None)]
    ):
        origin = f"https://{number:02}.example"
        ledger.snapshot(origin, status=410)
        ledger.snapshot(origin, status=status, error=error, fetched=START + 60)
        ledger.allowed(f"{origin}/", reason="unavailable")
    ledger.decision(f"{origin}/no", reason="unavailable")
    ledger.snapshot(ORIGIN, PRESS)
    path = ledger.close()
    hosts = rows("without", path)
    found = {
        shown.status(one["status"], one["error"]): (
            one["hosts"], one["allowed"], one["refused"],
        )
        for one in hosts
    }  # fmt: skip
    assert found == {
        "404 Not Found": (25, 25, 0),
        f"{loop} (301 Moved Permanently)": (1, 1, 0),
        "403 Forbidden": (1, 1, 0),
        "status 499": (1, 1, 1),
    }
    assert report(path)["figures"]["without"] == 28
    assert [one["origin"] for one in hosts if one["status"] == 404] == [
        f"https://{number:02}.example" for number in range(20)
    ]
    text = page(path, limits=Limits(others=1))
    assert "and 5 more hosts" in text
    assert "3 more hosts not shown" in text


def test_outages(tmp_path: Path) -> None:
    """Unreachable hosts are listed with reason, abandoned requests and recovery."""
    path = realistic(tmp_path / "ledger")
    columns = "origin", "error", "given_up", "recovered", "copy_at"
    assert values(rows("outage", path), *columns) == [
        ("https://gone.example", "DNS lookup failed", 25, 0, None),
        ("https://busy.example", None, 0, 1, None),
        ("https://old.example", None, 0, 0, START - 4000),
    ]
    assert report(path)["figures"]["unreachable"] == 3


def test_the_last_failure_of_an_outage(ledger: Ledger) -> None:
    """An outage has its first and its last time, and its last reason."""
    for hour, error in enumerate(("timed out", "reset", "refused")):
        given = {"access": "unreachable", "status": None, "error": error}
        ledger.snapshot(ORIGIN, fetched=START + hour * 3600, **given)
    columns = "times", "first_at", "last_at", "error"
    outage = row("outage", ledger.close())
    assert values([outage], *columns) == [(3, START, START + 7200, "refused")]


def test_pauses(ledger: Ledger) -> None:
    """A host that asked for pauses has what it asked for, and the shortest time from such an
    answer to its next request, whoever was in flight at that moment.
    """
    asked = {"layer": "delay", "verdict": "noted", "reason": "back-off"}
    for begin in (0.0, 10.0):
        ledger.allowed(f"{ORIGIN}/", time=START + begin)
        statement, moment = "429, Retry-After: 5", START + begin + 1
        ledger.decision(f"{ORIGIN}/", time=moment, statement=statement, **asked)
    ledger.allowed(f"{ORIGIN}/", time=START + 16.5)
    ledger.allowed("https://b.example/", time=START + 2)
    (pause,) = rows("pause", ledger.close())
    columns = "origin", "times", "statement", "resumed", "refused"
    assert values([pause], *columns) == [(ORIGIN, 2, "429, Retry-After: 5", 5.5, 0)]


def test_overridden(tmp_path: Path) -> None:
    """Decisions by overrides are listed, and settings that differ from their defaults."""
    path = realistic(tmp_path / "ledger")
    columns = "reason", "statement", "verdict", "times", "hosts"
    assert values(rows("overridden", path), *columns) == [
        (
            "override",
            "staging.example: ignore (our own; until 2027-01-01)",
            "allowed",
            14,
            1,
        )
    ]
    changed = {(one["spider"], one["name"]) for one in report(path)["settings"]}
    assert ("press", "REP_NOFOLLOW") in changed
    assert ("press", "REP_DIALECT") not in changed


def test_while_a_crawl_writes(ledger: Ledger) -> None:
    """The report reads one committed state, while the crawl continues to write."""
    ledger.connection.execute("PRAGMA journal_mode = WAL")
    ledger.crawl(ended=None)
    ledger.snapshot(ORIGIN, PRESS)
    ledger.allowed(f"{ORIGIN}/1")
    ledger.connection.commit()
    ledger.allowed(f"{ORIGIN}/2")
    with closing(Ledgers([ledger.path], DEFAULT)) as ledgers:
        ledger.connection.commit()
        found = overall(ledgers, START)
    assert found["crawls"][0]["ended_at"] is None
    assert (found["figures"]["let_through"], found["checked_again"]["checked"]) == (
        1,
        1,
    )


def test_headline_of_every_decision(tmp_path: Path) -> None:
    """The headline checks all requests again."""
    said = report(realistic(tmp_path / "ledger"))
    assert said["kept"]
    assert said["headline"] == "0 of 1,560 pages fetched were forbidden"
    first, *others = said["notes"]
    assert first.startswith("1,440 pages checked again for this report")
    assert others[:2] == [
        "No robots.txt applied to 120 pages: 1 host had none.",
        "14 more pages fetched because of an override.",
    ]


def test_headline_of_what_should_not_have_been(ledger: Ledger) -> None:
    """The headline counts requests that robots.txt forbade, in any form that a server may see,
    whatever was recorded.
    """
    ledger.snapshot(ORIGIN, PRESS)
    ledger.allowed(f"{ORIGIN}/private/1")
    ledger.allowed(f"{ORIGIN}/news/../private/2")
    ledger.allowed(f"{ORIGIN}/news/../open")
    ledger.allowed(f"{ORIGIN}/news", agent="aggregator")
    ledger.allowed(f"{ORIGIN}/news", agent=None, reason="no-group")
    said = report(ledger.close())
    assert not said["kept"]
    assert said["headline"] == "3 of 5 pages fetched were forbidden"
    assert set(said["checked_again"]["examples"]) == {
        f"{ORIGIN}/private/1", f"{ORIGIN}/news/../private/2", f"{ORIGIN}/news",
    }  # fmt: skip


def test_headline_of_what_cannot_be_asked_again(ledger: Ledger) -> None:
    """The headline says if a custom dialect or an incomplete URL could not be checked."""
    ledger.crawl(dialect="lenient")
    ledger.snapshot(ORIGIN, PRESS)
    ledger.allowed(f"{ORIGIN}/private/")
    ledger.snapshot(ORIGIN, PRESS, fetched=START + 20)
    ledger.allowed(f"{ORIGIN}/private/…")
    ledger.crawl("denied")
    said = report(ledger.close())
    assert said["headline"] == "0 of 2 pages fetched were forbidden"
    assert "2 pages could not be checked again" in said["notes"][0]
    assert "the pages of 1 crawl" in said["notes"][1]


def test_headline_of_refusals_alone(ledger: Ledger) -> None:
    """If a ledger records only refusals, the headline makes no claim about requests."""
    counts = {"downloader/response_count": 50, "robotstxt/response_count": 8}
    ledger.crawl("denied", counts=json.dumps(counts))
    ledger.snapshot(ORIGIN, PRESS)
    ledger.refused(f"{ORIGIN}/private/", 3, "Disallow: /private/")
    # An override has one row for each host, however many requests it allowed.
    ledger.allowed(f"{ORIGIN}/", layer="override", reason="override")
    said = report(ledger.close())
    assert said["headline"] == "1 request was refused, 0 items and links dropped"
    assert "only refusals" in said["notes"][0]
    figures = {"crawls": 1, "complete": 0, "pages": 42, "let_through_by_override": 0}
    assert said["figures"].items() >= figures.items()


def test_headline_of_nothing(tmp_path: Path, ledger: Ledger) -> None:
    """The headline of a ledger without a crawl, and of a crawl without requests."""
    assert report(empty(tmp_path / "empty"))["headline"].startswith("No crawl")
    ledger.crawl()
    assert report(ledger.close())["headline"] == "No page was fetched"


def test_pages_that_a_browser_was_led_to(ledger: Ledger) -> None:
    """A forbidden page that a browser had been led to is counted, and breaks the promise."""
    ledger.snapshot(ORIGIN, PRESS)
    ledger.allowed(f"{ORIGIN}/news")
    for via in (f"redirect {ORIGIN}/news", f"browser {ORIGIN}/news", None):
        url = f"{ORIGIN}/private/1"
        ledger.refused(url, 3, "Disallow: /private/", via=via)
    said = report(ledger.close())
    assert (said["figures"]["arrived"], said["kept"]) == (1, False)


def test_a_ledger_of_a_later_version(ledger: Ledger) -> None:
    """A ledger with columns that this version does not know can be read, whatever their names."""
    for table, columns in {
        "crawl": ("ledger", "path"), "snapshot": ("time", "layer"), "decision": ("fetched", "ledger"),
    }.items():  # fmt: skip
        for column in columns:
            ledger.connection.execute(f"ALTER TABLE {table} ADD COLUMN {column} TEXT")
    ledger.snapshot(ORIGIN, PRESS)
    ledger.refused(f"{ORIGIN}/private/1", 3, "Disallow: /private/")
    assert report(ledger.close())["figures"]["refused"] == 1


def test_uses(tmp_path: Path) -> None:
    """Drops because of usage preferences come first, with the statement; its line is marked in the
    file. Text of others stays text.
    """
    path = used(tmp_path / "ledger")
    with closing(Ledgers([path], DEFAULT)) as ledgers:
        purposes = ledgers.view("purpose").fetchall()
        examples = list(map(ledgers.example, purposes))
        marks = ledgers.view("mark").fetchall()
    text, other = "Content-Usage: /a/ train-ai=n", "https://b.example"
    columns = (
        "origin",
        "purpose",
        "verdict",
        "source",
        "statement",
        "line",
        "times",
        "file",
    )
    assert values(purposes, *columns) == [
        (ORIGIN, "train-ai", "dropped", "robots.txt", text, 2, 3, 1),
        (other, "search", "dropped", None, None, None, 1, None),
        (other, "train-ai", "annotated", "header", "<b>noai", None, 1, None),
        (ORIGIN, "train-ai", "noted", "robots.txt", text, 2, 1, 1),
    ]
    assert examples == [f"{ORIGIN}/a/0", f"{other}/y", f"{other}/x", f"{ORIGIN}/a/9"]
    columns = "line", "refused", "allowed", "about_use"
    assert values(marks, *columns) == [(2, 0, 0, 4), (3, 1, 0, 0)]
    shown = page(path)
    assert "<code>&lt;b&gt;noai</code>" in shown
    assert "about use 4" in shown
    assert "robots.txt, line 2; for example https://a.example/a/0" in shown
