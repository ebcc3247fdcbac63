"""``scrapy rep check``: whether URLs may be fetched, and by which rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_rep.commands.shared.arguments import add_format, add_profile, add_purposes

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from scrapy.settings import Settings

HELP = "Say whether URLs may be fetched, and show the rule that decides"


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "urls",
        nargs="+",
        metavar="URL",
        help="a URL, or - for a list on standard input",
    )
    add_profile(parser)
    add_purposes(parser)
    parser.add_argument(
        "--dialects",
        action="store_true",
        help="show what each dialect decides, and whether the dialects agree",
    )
    parser.add_argument(
        "--robots",
        metavar="FILE",
        help="judge every URL by the robots.txt in this file; nothing is fetched",
    )
    parser.add_argument(
        "--brief",
        action="store_true",
        help="one line for each URL: verdict, URL and reason, separated by tabs",
    )
    add_format(parser)


def run(arguments: Namespace, settings: Settings) -> int:
    from scrapy_rep.commands.check.command import check  # noqa: PLC0415

    return check(arguments, settings)
