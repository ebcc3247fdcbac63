"""Renders a report as a single HTML file that does not load other files."""

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
"""The beginning of every report. The command replaces an existing file only if the file begins with this text."""

_MAX_SHOWN = 300
"""The maximum number of characters that the page shows of a text, unless a template sets another limit."""

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
    """Return an iterator over the parts of the HTML page, as text. *now* is the time of the report, in seconds since
    the epoch.
    """
    style, script = _read_asset("page.css"), _read_asset("page.js")
    # The context does not contain the rows of most tables. The templates read these rows with the function "view".
    context = {
        **answers.overall(ledgers, now),
        "mark": Markup(MARK),  # noqa: S704
        "style": style,
        "script": script,
        # The Content-Security-Policy permits only this package's script and style, so that text from sites is never
        # executed.
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
    """Return the Jinja environment. The environment is cached, so that a process compiles each template only once."""
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
    """Return *value* as a template shows it. A string is cut after ``_MAX_SHOWN`` characters, and its invisible
    characters are escaped. A value of another type, such as Markup, is returned unchanged.
    """
    # Markup, a subclass of str, is already safe HTML.
    return answers.visible(value, _MAX_SHOWN) if type(value) is str else value


def visible(text: object, limit: int) -> Markup:
    """Return up to *limit* characters of *text*, escaped for HTML, with invisible characters replaced by codes."""
    return escape(answers.visible(text, limit))


def _excerpt(
    ledgers: ReportLedgers, version: sqlite3.Row, marks: list[sqlite3.Row]
) -> list[tuple[int, str | None, sqlite3.Row | None]]:
    """Return the lines of a robots.txt that the report shows. *version* is the row of this robots.txt in the view
    ``version``. *marks* contains a row of the view ``mark`` for each line on which decisions are based.

    For each shown line, the result contains a tuple: the line number, the text, and the row in *marks*. The row is None
    if no decision is based on the line. In place of lines that are left out, the result contains a tuple with the
    number of these lines, None and None.
    """
    # The dialect of the crawl determines which characters end a line.
    dialect = ledgers.dialect_of(version["crawl"]) or RFC9309
    return excerpt(text_lines(ledgers.body(version["sha256"]), dialect), marks)


def _read_asset(name: str) -> Markup:
    """Return the text of the file *name* in this package. Templates insert the text without escaping."""
    text = files("scrapy_rep").joinpath(f"tools/report/{name}").read_text("utf-8")
    return Markup(text)  # noqa: S704


def _digest(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def by(
    rows: Iterable[sqlite3.Row], *columns: str
) -> Iterator[tuple[tuple[Any, ...], list[sqlite3.Row]]]:
    """Group consecutive *rows* with equal values in *columns*. For each group, yield these values, and its rows."""
    for values, group in groupby(rows, itemgetter(*columns)):
        yield values, list(group)


def left_out(rows: Sequence[sqlite3.Row]) -> int:
    """Return how many rows are missing in *rows*, because a view returned only its maximum number of rows. The column
    ``of_all`` contains the number of rows that the view would return without a maximum.
    """
    return rows[0]["of_all"] - len(rows) if rows else 0


def cells(heads: tuple[str, ...]) -> Callable[[], Markup]:
    """Return a function for one row of a table. Each call of the function returns the start tag of the row's next cell.
    *heads* are the headings of the columns. A heading that begins with ``#`` marks a column of numbers.
    """
    return iter(_start_tags(heads)).__next__


@cache
def _start_tags(heads: tuple[str, ...]) -> list[Markup]:
    cell = Markup('<td{} data-head="{}">')
    number = {True: Markup(' class="n"'), False: ""}
    tags = [cell.format(number[head[0] == "#"], head.lstrip("#")) for head in heads]
    return [Markup('<th scope="row">'), *tags[1:]]
