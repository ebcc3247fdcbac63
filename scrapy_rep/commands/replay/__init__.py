"""``scrapy rep replay``: what the robots.txt files of today say of past crawls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_rep.commands.shared.arguments import add_format, add_profile

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from scrapy.settings import Settings

HELP = "Show which URLs of past crawls are now forbidden, and which are newly allowed"


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "ledgers",
        nargs="+",
        metavar="LEDGER",
        help="the ledger of a crawl; without REP_LEDGER_LEVEL = 'all' it has no URLs that "
        "could be newly forbidden",
    )
    add_profile(parser, default="as in each past crawl")
    parser.add_argument(
        "--robots",
        action="append",
        default=[],
        metavar="[ORIGIN=]FILE",
        help="use this file as the robots.txt of an origin "
        "(https://example.com=robots.txt), or of all origins without a file of their own, "
        "and do not fetch it; can be repeated",
    )
    parser.add_argument(
        "--purge-list",
        metavar="FILE",
        help="write the URLs that were fetched and are now forbidden to this file",
    )
    add_format(parser)


def run(arguments: Namespace, settings: Settings) -> int:
    from scrapy_rep.commands.replay.command import replay  # noqa: PLC0415

    return replay(arguments, settings)
