"""The sentences of a report."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.record import Layer, Verdict
from scrapy_rep.report.shown import count

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

    from scrapy_rep.report.summary import Summary

LAYERS = {
    Layer.OVERRIDE.value: "Overrides",
    Layer.ROBOTS_TXT.value: "robots.txt",
    Layer.DELAY.value: "Delays, visit time and pauses",
    Layer.HEADER.value: "X-Robots-Tag header",
    Layer.META.value: "Robots meta tag",
    Layer.REL.value: "rel of links",
    Layer.USAGE.value: "Usage preferences",
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


def by_layer(outcomes: Iterable[sqlite3.Row]) -> list[tuple[str, list[sqlite3.Row]]]:
    """Group *outcomes* by layer, in the order in which the layers are checked."""
    layers: dict[str, list[sqlite3.Row]] = {layer: [] for layer in LAYERS}
    for one in sorted(outcomes, key=lambda one: -one["times"]):
        layers.setdefault(one["layer"], []).append(one)
    return [(layer, found) for layer, found in layers.items() if found]


class Headline(NamedTuple):
    sentence: str
    kept: bool
    """Whether none of the fetched pages was forbidden."""
    notes: tuple[str, ...]


def headline(summary: Summary) -> Headline:
    """Return the result of the crawls, as far as the ledgers show it."""
    if summary.dry_runs:
        return _of_dry_runs(summary)
    if not summary.complete:
        return _of_refusals(summary)
    if not summary.let_through:
        return Headline("No page was fetched", True, tuple(_notes(summary)))
    forbidden = summary.check.forbidden
    sentence = (
        f"{forbidden:,} of {count(summary.let_through, 'page')} fetched "
        f"{'was' if forbidden == 1 else 'were'} forbidden"
    )
    kept = not forbidden and not summary.arrived
    return Headline(sentence, kept, tuple(_notes(summary)))


def _of_dry_runs(summary: Summary) -> Headline:
    refused, dropped = summary.total(Verdict.REFUSED), summary.total(Verdict.DROPPED)
    sentence = (
        f"Dry run: {count(refused, 'request')} would be refused, "
        f"{count(dropped, 'item or link', 'items and links')} dropped"
    )
    note = (
        "A dry run (REP_DRY_RUN) fetches everything, and refuses, drops and delays nothing. Where "
        "this report says that it did, a real run would have done so."
    )
    notes = [note]
    if real := summary.crawls - summary.dry_runs:
        notes.append(f"{count(real, 'other crawl')} in this report: no dry run.")
    return Headline(sentence, True, tuple(notes))


def _of_refusals(summary: Summary) -> Headline:
    refused, dropped = summary.total(Verdict.REFUSED), summary.total(Verdict.DROPPED)
    if not summary.crawls:
        return Headline("No crawl has written to this ledger", True, ())
    sentence = (
        f"{count(refused, 'request')} {'was' if refused == 1 else 'were'} refused, "
        f"{count(dropped, 'item or link', 'items and links')} dropped"
    )
    note = (
        "The ledger has only refusals. To check again whether all pages that were fetched were "
        'allowed, crawl with REP_LEDGER_LEVEL = "all".'
    )
    return Headline(sentence, True, (note,))


def _notes(summary: Summary) -> list[str]:
    check = summary.check
    notes = []
    if check.checked:
        notes.append(
            f"{count(check.checked, 'page')} checked again for this report, against "
            "the robots.txt at the time of the request. Each request that was let through "
            "counts as a page, even if it got no response."
        )
    without = summary.let_through - check.checked - check.unchecked
    if without > 0:
        hosts = summary.without
        notes.append(
            f"No robots.txt applied to {count(without, 'page')}"
            + (f": {count(hosts, 'host')} had none." if hosts else ".")
        )
    if check.unchecked:
        notes.append(
            f"{count(check.unchecked, 'page')} could not be checked again: the crawl used "
            "a custom dialect, or the URL was cut for the ledger."
        )
    if summary.arrived:
        notes.append(
            f"{count(summary.arrived, 'forbidden page')} fetched by a browser that a "
            "redirect or a script led there; the spider did not receive the response."
        )
    by_override = summary.let_through_by_override
    if by_override:
        notes.append(
            f"{count(by_override, 'more page')} fetched because of an override."
        )
    only_refusals = summary.crawls - summary.complete
    if only_refusals:
        notes.append(
            f"Not counted: the pages of {count(only_refusals, 'crawl')} whose ledger has "
            "only refusals."
        )
    return notes
