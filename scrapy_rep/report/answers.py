"""Answers, in a sentence each, what people ask about a crawl."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.protocol.reasons import REASONS
from scrapy_rep.record import Verdict
from scrapy_rep.report.shown import count, duration, octets, ratio, visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from sqlite3 import Row

    from scrapy_rep.report.ledgers import Ledgers
    from scrapy_rep.report.summary import Summary

_NAMED = 3
"""The most hosts, reasons or crawlers that an answer names."""

_EARLIER = "an earlier version of scrapy-rep wrote the ledger"


class Answer(NamedTuple):
    question: str
    sentences: str
    section: str
    """The id of the section that says more."""
    is_bad: bool = False
    """Whether the crawl has not kept to what a site asks for."""


def answers(ledgers: Ledgers, summary: Summary) -> list[Answer]:
    return [
        _fetched(ledgers, summary),
        _refused(summary),
        _delays(ledgers, summary),
        _pauses(ledgers),
        _ai_crawlers(ledgers),
    ]


def _fetched(ledgers: Ledgers, summary: Summary) -> Answer:
    (all_,) = ledgers.view("moved_in_all")
    said = []
    if all_["hosts"] or not summary.uncounted:
        pages, hosts = count(all_["pages"], "page"), count(all_["hosts"], "host")
        said.append(f"{pages} ({octets(all_['bytes'])}) from {hosts}")
        said[0] += f", on {count(all_['days'], 'day')}." if all_["days"] else "."
    if summary.uncounted:
        crawls = count(summary.uncounted, "crawl")
        said.append(f"Not known for {crawls}, since {_EARLIER}.")
    return Answer("What was fetched?", " ".join(said), "fetched")


def _refused(summary: Summary) -> Answer:
    refused = summary.total(Verdict.REFUSED)
    said = [f"{count(refused, 'request')} refused"]
    rows = [row for row in summary.outcomes if row["verdict"] == Verdict.REFUSED]
    if rows:
        rows.sort(key=itemgetter("times"), reverse=True)
        # Of one reason, no number is needed.
        reasons = [f"{row['times']:,} because {_reason(row['reason'])}" for row in rows]
        only = f", because {_reason(rows[0]['reason'])}"
        said[0] += f": {_listed(reasons, 'reason')}" if rows[1:] else only
    said[0] += "."
    if dropped := summary.total(Verdict.DROPPED):
        withheld = count(dropped, "item, link or file", "items, links and files")
        said.append(f"{withheld} dropped.")
    return Answer("What was refused, and why?", " ".join(said), "reasons")


def _delays(ledgers: Ledgers, summary: Summary) -> Answer:
    question, section = "Were the delays kept?", "delays"
    (all_,) = ledgers.view("delays_in_all")
    asking, known, kept = all_["asking"], all_["known"], all_["kept"]
    if not asking:
        return Answer(question, "No host asks for a delay.", section)
    if not known:
        hosts = count(asking, "host asks", "hosts ask")
        why = "no request had to keep to it (a setting or a dry run ignores it, or none was sent)"
        if summary.uncounted:
            why = f"whether it was kept is not known, since {_EARLIER}"
        return Answer(question, f"{hosts} for a delay; {why}.", section)
    rows = ledgers.view("delay").fetchall()
    exceptions = [row for row in rows if row["kept"] == 0]
    if exceptions:
        named = [
            f"{_origin(row)} ({_exact(row['gap'])}, asked for {_exact(row['delay'])})"
            for row in exceptions
        ]
        broken = known - kept
        of = count(known, "host")
        names = _listed(named, "host", broken)
        said = [f"The delay of {broken:,} of {of} was not kept: {names}."]
    else:
        said = [f"Yes, for {_all(known, 'host')} with a delay."]
        said += [_smallest(row, "delay", "gap") for row in rows if row["gap"]][:1]
    if asking > known:
        more = count(asking - known, "more host asks", "more hosts ask")
        said.append(f"{more} for a delay that no request had to keep to.")
    return Answer(question, " ".join(said), section, bool(exceptions))


def _pauses(ledgers: Ledgers) -> Answer:
    question, section = "Were the pauses kept that hosts asked for?", "delays"
    (all_,) = ledgers.view("pauses_in_all")
    if not all_["hosts"]:
        return Answer(question, "No host asked for a pause (429, 503).", section)
    asked = f"{count(all_['hosts'], 'host')} asked for {count(all_['times'], 'pause')}"
    if not all_["known"]:
        said = [f"{asked}; whether they were kept was not measured."]
        return Answer(question, said[0], section)
    rows = ledgers.view("pause").fetchall()
    exceptions = [row for row in rows if row["kept"] == 0]
    if exceptions:
        named = [
            f"{_origin(row)} (the next request after {_exact(row['resumed'])}, asked for "
            f"{_exact(row['pause'])})"
            for row in exceptions
        ]
        broken = all_["known"] - all_["kept"]
        hosts = count(broken, "host")
        said = [f"{asked}. Not kept at {hosts}: {_listed(named, 'host', broken)}."]
    else:
        said = [f"Yes: {asked}, of {duration(all_['longest'])} at most."]
        resumed = [row for row in rows if row["kept"] and row["resumed"] is not None]
        resumed.sort(key=lambda row: row["resumed"] / row["pause"])
        said += [_smallest(row, "pause", "resumed") for row in resumed[:1]]
    return Answer(question, " ".join(said), section, bool(exceptions))


def _ai_crawlers(ledgers: Ledgers) -> Answer:
    question, section = "Which sites say no to AI crawlers by name?", "crawlers"
    rows = ledgers.view("ai_crawler").fetchall()
    if not rows:
        return Answer(question, "None names a known AI crawler.", section)
    (all_,) = ledgers.view("ai_crawlers_in_all")
    named = [
        f"{visible(origin, 100)} ({_listed([row['crawler'] for row in group], 'crawler')})"
        for origin, group in _by_host(
            row for row in rows if row["forbids"].startswith("everything")
        )
    ]
    hosts = count(all_["hosts"], "host names", "hosts name")
    said = [f"{hosts} AI crawlers in robots.txt."]
    if named:
        closing = all_["closing"]
        forbid = "forbids" if closing == 1 else "forbid"
        said.append(
            f"{closing:,} {forbid} at least one of them everything: "
            f"{_listed(named, 'host', closing)}."
        )
    else:
        said.append("None forbids any of them everything.")
    return Answer(question, " ".join(said), section)


def _by_host(rows: Iterable[Row]) -> Iterator[tuple[str, list[Row]]]:
    for origin, group in groupby(rows, itemgetter("origin")):
        yield origin, list(group)


def _all(number: int, what: str) -> str:
    return f"the one {what}" if number == 1 else f"all {number:,} {what}s"


def _smallest(row: Row, asked: str, kept: str) -> str:
    times = ratio(row[kept] / row[asked])
    return (
        f"The shortest time from an answer to the next request was {times} times the "
        f"{asked}: {duration(row[kept])} at {_origin(row)}, which asks for "
        f"{duration(row[asked])}."
    )


def _exact(seconds: float) -> str:
    """Format a short time to the millisecond: 1.997 s is not 2 s."""
    return duration(seconds) if seconds >= 60 else f"{round(seconds, 3):g} s"


def _reason(reason: str) -> str:
    found = REASONS.get(reason)
    return visible(found.text if found else reason, 80)


def _origin(row: Row) -> str:
    return visible(row["origin"], 100)


def _listed(items: list[str], what: str, of_all: int | None = None) -> str:
    """Return the first of *items*, and how many more there are of all."""
    more = (len(items) if of_all is None else of_all) - len(items[:_NAMED])
    listed = ", ".join(items[:_NAMED])
    return f"{listed} and {count(more, f'more {what}')}" if more > 0 else listed
