"""Renders a report as one HTML file that loads no other file."""

from __future__ import annotations

from base64 import b64encode
from functools import cache, partial
from hashlib import sha256
from importlib.resources import files
from itertools import groupby, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from scrapy_rep.crawl.ledger.reader import read_texts
from scrapy_rep.protocol.crawlers import CHECKED
from scrapy_rep.protocol.dialect import RFC9309
from scrapy_rep.protocol.reasons import REASONS, outcome
from scrapy_rep.protocol.robotstxt.lines import text_lines
from scrapy_rep.record import Layer, Verdict
from scrapy_rep.tools.report import answers
from scrapy_rep.tools.report.ledgers import excerpt

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from scrapy_rep.tools.report.ledgers import ReportLedgers

MARK = "<!DOCTYPE html>\n<!-- scrapy rep report -->"
"""The beginning of every report."""

_MOST = 300
"""The most characters of a text on the page, unless a template names another limit."""

_LAYERS = {
    Layer.OVERRIDE.value: "Overrides",
    Layer.ROBOTS_TXT.value: "robots.txt",
    Layer.DELAY.value: "Delays and pauses",
    Layer.HEADER.value: "X-Robots-Tag header",
    Layer.META.value: "Robots meta tag",
    Layer.REL.value: "rel of links",
    Layer.USAGE.value: "Usage preferences",
}

_VERDICTS = {
    Verdict.ALLOWED.value: "let through",
    Verdict.REFUSED.value: "refused",
    Verdict.DROPPED.value: "dropped",
    Verdict.ANNOTATED.value: "annotated",
    Verdict.NOTED.value: "noted",
}


def render(ledgers: ReportLedgers, now: float) -> Iterator[str]:
    """Yield the page in parts. *now* is the time of the report.

    The templates take most rows from the views, and show them as they are.
    """
    style, script = _own("page.css"), _own("page.js")
    context = {
        **answers.overall(ledgers, now),
        "mark": Markup(MARK),  # noqa: S704
        "style": style,
        "script": script,
        # This permits only this script and this style.
        "policy": f"default-src 'none'; style-src '{_digest(style)}'; script-src "
        f"'{_digest(script)}'; img-src data:; base-uri 'none'; form-action 'none'",
        "crawls": ledgers.crawls,
        "limits": ledgers.limits,
        "view": ledgers.view,
        "body": ledgers.body,
        "excerpt": partial(_excerpt, ledgers),
        "now": now,
    }
    stream = _environment().get_template("page.html").stream(context)
    stream.enable_buffering(200)
    return iter(stream)


@cache
def _environment() -> Environment:
    """Return the environment, cached so that a process compiles each template once."""
    environment = Environment(
        loader=PackageLoader("scrapy_rep.tools", "report"),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    formats: tuple[Callable[..., Any], ...] = (
        by, left_out, outcome, read_texts, visible, answers.count, answers.duration,
        answers.moment, answers.octets, answers.ratio, answers.setting, answers.status, answers.whole,
    )  # fmt: skip
    environment.filters |= {function.__name__: function for function in formats}
    environment.globals |= {
        "cells": cells,
        "crawlers_checked": CHECKED,
        "first": islice,
        "first_rows": 3,
        "layers": _LAYERS,
        "reasons": {
            reason: reason_words.text for reason, reason_words in REASONS.items()
        },
        "size_limit": RFC9309.size_limit,
        "span": answers.span,
        "verdicts": _VERDICTS,
    }
    return environment


def _shown(value: object) -> object:
    """Return a value that a template shows in a form that is safe on the page, whoever wrote it."""
    # Markup, which is escaped already, is of another type.
    return answers.visible(value, _MOST) if type(value) is str else value


def visible(text: object, limit: int) -> Markup:
    """Return up to *limit* characters of a text."""
    return escape(answers.visible(text, limit))


def _excerpt(
    ledgers: ReportLedgers, version: sqlite3.Row, marks: list[sqlite3.Row]
) -> list[tuple[int, str | None, sqlite3.Row | None]]:
    """Return the lines to show of *version*, a row of that view."""
    # The dialect of the crawl decides where a line ends.
    dialect = ledgers.dialect_of(version["crawl"]) or RFC9309
    return excerpt(text_lines(ledgers.body(version["sha256"]), dialect), marks)


def _own(name: str) -> Markup:
    """Return a file of this package, to be put into the page without escaping."""
    text = files("scrapy_rep").joinpath(f"tools/report/{name}").read_text("utf-8")
    return Markup(text)  # noqa: S704


def _digest(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def by(
    rows: Iterable[sqlite3.Row], *columns: str
) -> Iterator[tuple[tuple[Any, ...], list[sqlite3.Row]]]:
    """Yield consecutive *rows* with the same values in *columns*, with these values."""
    for values, group in groupby(rows, itemgetter(*columns)):
        yield values, list(group)


def left_out(rows: Sequence[sqlite3.Row]) -> int:
    """Return how many rows a view has left out, by its column ``of_all``."""
    return rows[0]["of_all"] - len(rows) if rows else 0


def cells(heads: tuple[str, ...]) -> Callable[[], Markup]:
    """Return a function that begins the next cell of a row. Each head of a column with numbers
    begins with ``#``.
    """
    return iter(_begins(heads)).__next__


@cache
def _begins(heads: tuple[str, ...]) -> list[Markup]:
    cell = Markup('<td{} data-head="{}">')
    number = {True: Markup(' class="n"'), False: ""}
    begins = [cell.format(number[head[0] == "#"], head.lstrip("#")) for head in heads]
    return [Markup('<th scope="row">'), *begins[1:]]
