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
    "rule": "a rule matches",
    "unreachable": "robots.txt is unreachable",
    "unavailable": "robots.txt is unavailable",
    "override": "decided by the settings of the crawler",
    "no-rule": "no rule matches",
    "no-group": "no rules for this crawler",
    "robots-txt": "robots.txt itself",
    "crawl-delay": "the crawl delay is longer than the crawl accepts",
    "visit-time": "outside the visit time of the host",
    "bad-url": "the host or port of the URL can't be read",
    "too-long": "the URL is too long to compare with so many rules with a *",
    "data": "an indexing rule of data, not of a document: withheld nothing",
    "stopped": "the download was stopped after the headers",
}

VERDICTS = {
    Verdict.ALLOWED.value: "Let through",
    Verdict.REFUSED.value: "Refused",
    Verdict.DROPPED.value: "Dropped",
    Verdict.ANNOTATED.value: "Annotated",
    Verdict.NOTED.value: "Noted",
}


def without_robotstxt(status: int | None, error: str | None) -> str:
    """Say why a host was treated as having no robots.txt."""
    try:
        said = f"{status} {HTTPStatus(status or 0).phrase}"
    except ValueError:
        said = f"status {status}"
    return f"{error} ({said})" if error else said


def by_layer(tallies: Iterable[Tally]) -> list[tuple[str, list[Tally]]]:
    """Group *tallies* by layer, in the order in which the layers are checked."""
    layers: dict[str, list[Tally]] = {layer: [] for layer in LAYERS}
    for one in sorted(tallies, key=lambda one: -one.count):
        layers.setdefault(one.layer, []).append(one)
    return [(layer, found) for layer, found in layers.items() if found]


class Headline(NamedTuple):
    sentence: str
    kept: bool
    """Whether none of the fetched pages was forbidden."""
    notes: tuple[str, ...]


def headline(report: Report) -> Headline:
    """Return the result of the crawls, as far as the ledgers show it."""
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
        return Headline("No crawl has written to this ledger", True, ())
    sentence = (
        f"{count(refused, 'request')} {'was' if refused == 1 else 'were'} refused, "
        f"{count(dropped, 'item or link', 'items and links')} dropped"
    )
    note = (
        "The ledger has only refusals. To see the pages that were fetched, and whether "
        'all of them were allowed, crawl with REP_LEDGER_LEVEL = "all".'
    )
    return Headline(sentence, True, (note,))


def _notes(report: Report) -> list[str]:
    check = report.check
    notes = []
    if check.checked:
        notes.append(
            f"{count(check.checked, 'page')} checked again for this report, against "
            "the robots.txt at the time of the request. Each request that was let through "
            "counts as a page, even if it got no response."
        )
    without = report.let_through - check.checked - check.unchecked
    if without > 0:
        hosts = report.without.hosts
        notes.append(
            f"No robots.txt applied to {count(without, 'page')}"
            + (f": {count(hosts, 'host')} had none." if hosts else ".")
        )
    if check.unchecked:
        notes.append(
            f"{count(check.unchecked, 'page')} could not be checked again: the crawl used "
            "a custom dialect, or the URL was cut for the ledger."
        )
    if report.arrived:
        notes.append(
            f"{count(report.arrived, 'forbidden page')} fetched by a browser that a "
            "redirect or a script led there; the spider did not receive the response."
        )
    by_override = report.let_through_by_override
    if by_override:
        notes.append(
            f"{count(by_override, 'more page')} fetched because of an override."
        )
    only_refusals = sum(not crawl.complete for crawl in report.crawls)
    if only_refusals:
        notes.append(
            f"Not counted: the pages of {count(only_refusals, 'crawl')} whose ledger has "
            "only refusals."
        )
    return notes
