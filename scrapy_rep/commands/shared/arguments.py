"""Arguments that several subcommands have."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import ArgumentParser


def add_terms(parser: ArgumentParser) -> None:
    """Who asks, in which dialect: what ``terms.terms_of`` reads."""
    parser.add_argument(
        "--agent",
        action="append",
        default=[],
        metavar="NAME",
        help="whose rules to follow: a product token, or several in order of preference, "
        "separated by commas or by repeating the option; * for everyone (default: as a "
        "crawl with these settings)",
    )
    parser.add_argument(
        "--dialect",
        metavar="NAME",
        help="rfc9309, google, classic, or the import path of a Dialect (default: as a "
        "crawl with these settings)",
    )


def add_purposes(parser: ArgumentParser) -> None:
    """What for: what ``terms.terms_of`` reads."""
    parser.add_argument(
        "--purpose",
        action="append",
        default=[],
        metavar="NAME",
        help="what the content is for: search, ai-use, train-ai or tdm; several separated "
        "by commas or by repeating the option (default: REP_PURPOSES, else all are shown)",
    )


def add_format(parser: ArgumentParser) -> None:
    """Text or JSON: what ``output.Output`` reads."""
    parser.add_argument(
        "--format",
        choices=("text", "json"),
        default="text",
        help="text for people, or JSON for programs: an object on each line",
    )
