"""Renders a report as one HTML file that loads no other files."""

from __future__ import annotations

import sqlite3
from base64 import b64encode
from functools import cache, partial
from hashlib import sha256
from importlib.resources import files
from itertools import groupby, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from scrapy_rep.protocol.crawlers import CHECKED
from scrapy_rep.protocol.reasons import REASONS, outcome
from scrapy_rep.record import Verdict
from scrapy_rep.report import shown, words
from scrapy_rep.report.answers import answers
from scrapy_rep.report.documents import document
from scrapy_rep.report.summary import changed_settings, summarise

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from scrapy_rep.report.ledgers import Ledgers
    from scrapy_rep.report.summary import Summary

MARK = "<!DOCTYPE html>\n<!-- scrapy rep report -->"
"""The beginning of every report."""

BAR_WIDTH = 1000
"""The length of a whole bar."""

BAR_HEIGHT = 100
"""The height of the timeline."""

FIRST_ROWS = 5
"""The rows of a table, or the hosts of a list, that are shown before one opens the others."""

_LEAST_LENGTH = 4.0
"""The least length of a bar or a part, so that it can be seen."""


def render(ledgers: Ledgers, now: float, compared: Sequence[str] = ()) -> Iterator[str]:
    """Yield the page in parts. *now* is the time of the report; *compared* are the paths of the
    ledgers that it is compared with.

    The templates take most rows from the views, and show them as they are.
    """
    style, script = _own("page.css"), _own("page.js")
    summary = summarise(ledgers)
    given = {
        "mark": Markup(MARK),  # noqa: S704
        "style": style,
        "script": script,
        "policy": _policy(style, script),
        "summary": summary,
        "headline": words.headline(summary),
        "overview": _overview(summary),
        "answers": answers(ledgers, summary),
        "timeline": timeline(ledgers),
        "crawls": ledgers.crawls,
        "changed": list(changed_settings(ledgers.crawls)),
        "hosts_shown": min(summary.hosts, ledgers.limits.hosts),
        "view": ledgers.view,
        "example": ledgers.example,
        "document": partial(document, ledgers),
        "compared": compared,
        "now": now,
    }
    stream = _environment().get_template("page.html").stream(given)
    stream.enable_buffering(200)
    return iter(stream)


class _Environment(Environment):
    def getattr(self, obj: Any, attribute: str) -> Any:
        # A row has its columns as items; its attributes are not tried first.
        if type(obj) is sqlite3.Row:
            return obj[attribute]
        return super().getattr(obj, attribute)


@cache
def _environment() -> Environment:
    """Return the environment, cached so that a process compiles each template once."""
    environment = _Environment(
        loader=PackageLoader("scrapy_rep", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters |= {
        "by": by,
        "count": shown.count,
        "duration": shown.duration,
        "figure": shown.figure,
        "moment": shown.moment,
        "octets": shown.octets,
        "outcome": outcome,
        "setting": shown.setting,
        "ratio": shown.ratio,
        "size": shown.size,
        "without": words.without_robotstxt,
        "visible": shown.visible,
        "whole": shown.whole,
    }
    environment.globals |= {
        "bar_height": BAR_HEIGHT,
        "bar_length": bar_length,
        "bar_width": BAR_WIDTH,
        "by_layer": words.by_layer,
        "layers": words.LAYERS,
        "crawlers_checked": CHECKED,
        "first": islice,
        "first_rows": FIRST_ROWS,
        "reasons": {reason: found.text for reason, found in REASONS.items()},
        "span": shown.span,
        "verdicts": words.VERDICTS,
    }
    return environment


def _own(name: str) -> Markup:
    """Return a file of this package, to be put into the page without escaping."""
    text = files("scrapy_rep").joinpath(f"report/{name}").read_text("utf-8")
    return Markup(text)  # noqa: S704


def _policy(style: str, script: str) -> str:
    """Return the content security policy, which permits only this script and this style."""
    return (
        f"default-src 'none'; style-src '{_digest(style)}'; "
        f"script-src '{_digest(script)}'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )


def _digest(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def _overview(summary: Summary) -> dict[str, list[Part]]:
    """Return a bar for the requests, and one for what was withheld of their pages, by title.

    They have no common whole: a page that was let through can have any number of links.
    """
    if summary.let_through or summary.let_through_by_override:
        passed = summary.let_through + summary.let_through_by_override
        first = ("let through", "allowed", passed)
    else:
        first = ("fetched", "allowed", summary.pages)
    refused, dropped, annotated = (
        (verdict.value, verdict.value, summary.total(verdict))
        for verdict in (Verdict.REFUSED, Verdict.DROPPED, Verdict.ANNOTATED)
    )
    bars = {
        "Requests": stacked_bar([first, refused]),
        "Items, links and files dropped or annotated": stacked_bar(
            [dropped, annotated]
        ),
    }
    return {title: bar for title, bar in bars.items() if bar}


class Bars(NamedTuple):
    """The timeline of the crawls."""

    seconds: int
    """The length of a bar in time."""
    bars: list[Bar]
    most: int
    """The most requests of a bar, fetched and refused."""
    most_waiting: int | None
    """None if it is not known how many requests waited."""


class Bar(NamedTuple):
    row: sqlite3.Row
    start: float
    length: float
    fetched: float
    """The heights of its parts, of :data:`BAR_HEIGHT`."""
    refused: float
    waiting: float


def timeline(ledgers: Ledgers) -> Bars | None:
    """Return the timeline; None if nothing happened."""
    rows = ledgers.view("timeline").fetchall()
    if not rows:
        return None
    (limits,) = ledgers.view("limits")
    first, seconds = rows[0]["start_at"], limits["seconds"]
    length = BAR_WIDTH / ((rows[-1]["start_at"] - first) / seconds + 1)
    most = max(row["fetched"] + row["refused"] for row in rows)
    waiting = [row["waiting"] for row in rows if row["waiting"] is not None]
    most_waiting = max(waiting, default=None)
    bars = [
        Bar(
            row,
            round((row["start_at"] - first) / seconds * length, 2),
            round(length * 0.9, 2),
            bar_height(row["fetched"], most),
            bar_height(row["refused"], most),
            bar_height(row["waiting"] or 0, most_waiting or 0),
        )
        for row in rows
    ]
    return Bars(seconds, bars, most, most_waiting)


def bar_height(count: int, most: int) -> float:
    """Return a height for *count*, where the highest bar is for *most*."""
    return round(max(1.0, BAR_HEIGHT * count / most), 1) if count and most else 0


class Part(NamedTuple):
    name: str
    kind: str
    """Its CSS class, which sets its colour."""
    times: int
    start: float
    length: float


def stacked_bar(parts: Iterable[tuple[str, str, int]]) -> list[Part]:
    """Return the parts of one bar, from names, kinds and counts, without counts of 0."""
    there = [part for part in parts if part[2] > 0]
    total = sum(count for _, _, count in there)
    lengths = [max(_LEAST_LENGTH, BAR_WIDTH * count / total) for _, _, count in there]
    shrink = BAR_WIDTH / sum(lengths) if lengths else 1
    bar, start = [], 0.0
    for part, length in zip(there, lengths, strict=True):
        bar.append(Part(*part, round(start, 1), round(length * shrink, 1)))
        start += length * shrink
    return bar


def bar_length(count: int, most: int) -> float:
    """Return the length of a bar for *count*, where the longest bar is for *most*."""
    return (
        round(max(_LEAST_LENGTH, BAR_WIDTH * count / most), 1) if count and most else 0
    )


def by(
    rows: Iterable[sqlite3.Row], *columns: str
) -> Iterator[tuple[tuple[Any, ...], list[sqlite3.Row]]]:
    """Yield consecutive *rows* with the same values in *columns*, with these values."""
    for values, group in groupby(rows, itemgetter(*columns)):
        yield values, list(group)
