"""Renders a report as a single HTML file, which does not load any other file."""

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
"""The beginning of every report, by which the command knows that it may replace a file."""

_MAX_SHOWN = 300
"""How many characters of a text the page shows, unless a template sets another limit."""

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
    """Yield the parts of the page. *now* is the time of the report. The templates take most rows directly
    from the SQL views.
    """
    style, script = _read_asset("page.css"), _read_asset("page.js")
    context = {
        **answers.overall(ledgers, now),
        "mark": Markup(MARK),  # noqa: S704
        "style": style,
        "script": script,
        # The Content-Security-Policy permits only the script and the style of this package, so that text
        # from sites cannot run.
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
    """Return the Jinja environment. It is cached, so that a process compiles each template only once."""
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
    """Return a value for a template. Text is cut, and its invisible characters become escapes."""
    # Markup is a subclass of str, and has been made safe already.
    return answers.visible(value, _MAX_SHOWN) if type(value) is str else value


def visible(text: object, limit: int) -> Markup:
    """Return up to *limit* characters of a text, escaped for HTML."""
    return escape(answers.visible(text, limit))


def _excerpt(
    ledgers: ReportLedgers, version: sqlite3.Row, marks: list[sqlite3.Row]
) -> list[tuple[int, str | None, sqlite3.Row | None]]:
    """Return the lines of a version of a robots.txt to show. The version is a row of the view ``version``."""
    # Where a line ends depends on the dialect of the crawl.
    dialect = ledgers.dialect_of(version["crawl"]) or RFC9309
    return excerpt(text_lines(ledgers.body(version["sha256"]), dialect), marks)


def _read_asset(name: str) -> Markup:
    """Return the text of a file of this package, which is put into the page without escaping."""
    text = files("scrapy_rep").joinpath(f"tools/report/{name}").read_text("utf-8")
    return Markup(text)  # noqa: S704


def _digest(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def by(
    rows: Iterable[sqlite3.Row], *columns: str
) -> Iterator[tuple[tuple[Any, ...], list[sqlite3.Row]]]:
    """Group consecutive *rows* that have the same values in *columns*. Yield these values, and the rows."""
    for values, group in groupby(rows, itemgetter(*columns)):
        yield values, list(group)


def left_out(rows: Sequence[sqlite3.Row]) -> int:
    """Return how many rows a limited view has left out: its column ``of_all`` has the number of all rows."""
    return rows[0]["of_all"] - len(rows) if rows else 0


def cells(heads: tuple[str, ...]) -> Callable[[], Markup]:
    """Return a function that returns the start tag of the next cell at each call. *heads* are the heads of
    the columns; those of columns with numbers begin with ``#``.
    """
    return iter(_start_tags(heads)).__next__


@cache
def _start_tags(heads: tuple[str, ...]) -> list[Markup]:
    cell = Markup('<td{} data-head="{}">')
    number = {True: Markup(' class="n"'), False: ""}
    tags = [cell.format(number[head[0] == "#"], head.lstrip("#")) for head in heads]
    return [Markup('<th scope="row">'), *tags[1:]]
