"""``scrapy rep check``: may I fetch this URL, and who says so?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_rep.commands.shared.arguments import add_format, add_profile, add_purposes

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from scrapy.settings import Settings

HELP = "May I fetch these URLs? With the rule that decides, in its place"


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "urls", nargs="+", metavar="URL", help="or - for a list on standard input"
    )
    add_profile(parser)
    add_purposes(parser)
    parser.add_argument(
        "--dialects",
        action="store_true",
        help="show what each dialect decides, and whether they agree",
    )
    parser.add_argument(
        "--robots",
        metavar="FILE",
        help="the robots.txt to keep to, whatever the URL; nothing is fetched",
    )
    parser.add_argument(
        "--brief",
        action="store_true",
        help="a line for each URL: verdict, URL, why, separated by tabs",
    )
    add_format(parser)


def run(arguments: Namespace, settings: Settings) -> int:
    from scrapy_rep.commands.check.command import check  # noqa: PLC0415

    return check(arguments, settings)
