"""The sentences of a report."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.ledger.terms import Layer, Verdict
from scrapy_rep.report.shown import count

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy_rep.report.model import Report, Tally

LAYERS = {
    Layer.OVERRIDE.value: "Overrides",
    Layer.ROBOTS_TXT.value: "robots.txt",
    Layer.DELAY.value: "Crawl delay and visit time",
    Layer.HEADER.value: "X-Robots-Tag header",
    Layer.META.value: "Robots meta tag",
    Layer.REL.value: "rel of links",
    Layer.USAGE.value: "Usage preferences",
}

REASONS = {
    "rule": "a rule forbids it",
    "unreachable": "robots.txt is unreachable",
    "unavailable": "robots.txt is withheld from this crawler",
    "override": "decided by the user",
    "no-rule": "no rule matches",
    "no-group": "no rules for this crawler",
    "robots-txt": "robots.txt itself",
    "crawl-delay": "a longer delay than the crawl allows",
    "visit-time": "no visits wanted at that time",
    "bad-url": "the host or port of the URL can't be read",
    "too-long": "the URL is too long for all the rules with a *",
    "stopped": "stopped at its headers",
}

VERDICTS = {
    Verdict.ALLOWED.value: "Let through",
    Verdict.REFUSED.value: "Refused",
    Verdict.DROPPED.value: "Dropped",
    Verdict.ANNOTATED.value: "Annotated",
    Verdict.NOTED.value: "Noted",
}


def without_robotstxt(status: int | None, error: str | None) -> str:
    """Why a host was treated as having no robots.txt."""
    try:
        said = f"{status} {HTTPStatus(status or 0).phrase}"
    except ValueError:
        said = f"status {status}"
    return f"{error} ({said})" if error else said


def by_layer(tallies: Iterable[Tally]) -> list[tuple[str, list[Tally]]]:
    """*tallies* by layer, in the order in which a request meets the layers."""
    layers: dict[str, list[Tally]] = {layer: [] for layer in LAYERS}
    for one in sorted(tallies, key=lambda one: -one.count):
        layers.setdefault(one.layer, []).append(one)
    return [(layer, found) for layer, found in layers.items() if found]


class Headline(NamedTuple):
    sentence: str
    kept: bool
    """Whether no page that was fetched was forbidden."""
    notes: tuple[str, ...]


def headline(report: Report) -> Headline:
    """The result of the crawls, as far as the ledgers can show it."""
    if not any(crawl.complete for crawl in report.crawls):
        return _of_refusals(report)
    if not report.let_through:
        return Headline("No page was fetched", True, tuple(_notes(report)))
    forbidden = report.check.forbidden
    sentence = (
        f"{forbidden:,} of {count(report.let_through, 'page')} fetched "
        f"{'was' if forbidden == 1 else 'were'} forbidden"
    )
    kept = not forbidden and not report.arrived
    return Headline(sentence, kept, tuple(_notes(report)))


def _of_refusals(report: Report) -> Headline:
    refused, dropped = report.total(Verdict.REFUSED), report.total(Verdict.DROPPED)
    if not report.crawls:
        return Headline("No crawl has written into this ledger", True, ())
    sentence = (
        f"{count(refused, 'request')} {'was' if refused == 1 else 'were'} refused, "
        f"{count(dropped, 'item or link', 'items and links')} dropped"
    )
    note = (
        "The ledger has refusals alone: what was let through, and whether all of it was "
        'allowed, is only known of crawls with REP_LEDGER_LEVEL = "all".'
    )
    return Headline(sentence, True, (note,))


def _notes(report: Report) -> list[str]:
    check = report.check
    notes = []
    if check.checked:
        notes.append(
            f"{count(check.checked, 'page')} checked again for this report, by the "
            "robots.txt of that time. Each request that was let through counts as a page, "
            "also where no answer came."
        )
    without = report.let_through - check.checked - check.unchecked
    if without > 0:
        hosts = report.without.hosts
        notes.append(
            f"{count(without, 'page')} had no robots.txt to keep to"
            + (f": {count(hosts, 'host')} had none." if hosts else ".")
        )
    if check.unchecked:
        notes.append(
            f"{count(check.unchecked, 'page')} could not be checked again: the dialect is "
            "one of the project, or the URL was cut."
        )
    if report.arrived:
        notes.append(
            f"{count(report.arrived, 'forbidden page')} arrived by a browser's redirect: "
            "fetched by the browser, and refused to the spider."
        )
    if report.let_through_by_override:
        notes.append(
            f"{count(report.let_through_by_override, 'more page')} fetched by an override."
        )
    refusals_alone = sum(not crawl.complete for crawl in report.crawls)
    if refusals_alone:
        notes.append(
            f"Not counted: what {count(refusals_alone, 'crawl')} let through, whose "
            "ledger has refusals alone."
        )
    return notes
