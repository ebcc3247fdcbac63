"""Options of several subcommands."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import ArgumentParser


def add_profile(
    parser: ArgumentParser, default: str = "as a crawl with these settings"
) -> None:
    """The options that ``profile.profile_of`` reads: agents and dialect."""
    parser.add_argument(
        "--agent",
        action="append",
        default=[],
        metavar="NAME",
        help="whose rules to follow: a product token or a User-Agent header; of several "
        "tokens, separated by commas or by repeating the option, the first that has a "
        f"group is followed, and * (everyone) where none has (default: {default})",
    )
    parser.add_argument(
        "--dialect",
        metavar="NAME",
        help=f"rfc9309, google, classic, or the import path of a Dialect (default: {default})",
    )


def add_purposes(parser: ArgumentParser) -> None:
    """The option that says what the content is for, as ``profile.profile_of`` reads it."""
    parser.add_argument(
        "--purpose",
        action="append",
        default=[],
        metavar="NAME",
        help="what the content is for: search, ai-use, train-ai or tdm; several are "
        "separated by commas or by repeating the option (default: REP_PURPOSES; all are "
        "shown where that is empty)",
    )


def add_format(parser: ArgumentParser) -> None:
    """The option that ``output.Output`` reads: text or JSON."""
    parser.add_argument(
        "--format",
        choices=("text", "json"),
        default="text",
        help="text for people, or JSON for programs: an object on each line",
    )
