"""``scrapy rep diff``: what changed between two robots.txt files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_rep.commands.shared.arguments import add_format, add_profile

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from scrapy.settings import Settings

HELP = "Show what changed between two robots.txt files: rules, and verdicts on URLs"


def add_arguments(parser: ArgumentParser) -> None:
    for name in ("old", "new"):
        parser.add_argument(
            name,
            metavar=name.upper(),
            help="a file, a URL, or - for standard input",
        )
    add_profile(parser)
    parser.add_argument(
        "--urls",
        metavar="LIST|LEDGER",
        help="the URLs whose verdicts to compare: a file with one on each line, - for "
        "standard input, or the ledger of a crawl (default: paths made from the patterns)",
    )
    parser.add_argument(
        "--origin",
        metavar="URL",
        help="compare URLs of this host alone (default: the host of NEW or OLD, where one "
        "is a URL)",
    )
    add_format(parser)


def run(arguments: Namespace, settings: Settings) -> int:
    from scrapy_rep.commands.diff.command import diff  # noqa: PLC0415

    return diff(arguments, settings)
