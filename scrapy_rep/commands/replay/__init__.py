"""``scrapy rep replay``: what does today's robots.txt say of a past crawl?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_rep.commands.shared.arguments import add_format, add_profile

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from scrapy.settings import Settings

HELP = "What of a past crawl is now forbidden, and what is newly allowed"


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "ledgers",
        nargs="+",
        metavar="LEDGER",
        help="of a crawl with REP_LEDGER_LEVEL = 'all'; one with the refused alone tells "
        "only what is newly allowed",
    )
    add_profile(parser, default="as in each past crawl")
    parser.add_argument(
        "--robots",
        action="append",
        default=[],
        metavar="[ORIGIN=]FILE",
        help="the robots.txt of an origin (https://example.com=robots.txt), or of all; "
        "it is not fetched then. Can be repeated",
    )
    parser.add_argument(
        "--purge-list",
        metavar="FILE",
        help="where to write the URLs that were fetched and are now forbidden",
    )
    add_format(parser)


def run(arguments: Namespace, settings: Settings) -> int:
    from scrapy_rep.commands.replay.command import replay  # noqa: PLC0415

    return replay(arguments, settings)
