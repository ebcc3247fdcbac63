"""Renders a report as one HTML file that loads no other files."""

from __future__ import annotations

import sqlite3
from base64 import b64encode
from functools import cache, partial
from hashlib import sha256
from importlib.resources import files
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from scrapy_rep.protocol.reasons import REASONS
from scrapy_rep.record import Verdict
from scrapy_rep.report import shown, words
from scrapy_rep.report.documents import delay, document
from scrapy_rep.report.summary import changed_settings, summarise

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy_rep.report.ledgers import Ledgers
    from scrapy_rep.report.summary import Summary

MARK = "<!DOCTYPE html>\n<!-- scrapy rep report -->"
"""The beginning of every report."""

BAR_WIDTH = 1000
"""The length of a whole bar."""

_LEAST_LENGTH = 4.0
"""The least length of a bar or a part, so that it can be seen."""


def render(ledgers: Ledgers, now: float) -> Iterator[str]:
    """Yield the page in parts. *now* is the time of the report.

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
        "crawls": ledgers.crawls,
        "changed": list(changed_settings(ledgers.crawls)),
        "hosts_shown": min(summary.hosts, ledgers.limits.hosts),
        "view": ledgers.view,
        "example": ledgers.example,
        "document": partial(document, ledgers),
        "delay": partial(delay, ledgers),
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
        "moment": shown.moment,
        "setting": shown.setting,
        "size": shown.size,
        "without": words.without_robotstxt,
        "visible": shown.visible,
        "whole": shown.whole,
    }
    environment.globals |= {
        "bar_length": bar_length,
        "bar_width": BAR_WIDTH,
        "by_layer": words.by_layer,
        "layers": words.LAYERS,
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
        first = ("fetched", "allowed", summary.responses)
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
