"""``scrapy rep page``: the indexing rules of a page, and the statements behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_rep.commands.shared.arguments import add_format, add_profile, add_purposes

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from scrapy.settings import Settings

HELP = "Show the indexing rules of a page, and the statement behind each"


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "page",
        metavar="URL|FILE",
        help="a URL, an HTML file, or - for HTML on standard input",
    )
    add_profile(parser)
    add_purposes(parser)
    parser.add_argument(
        "--header",
        action="append",
        default=[],
        metavar="FIELD",
        help='a header field of a page in a file, such as "X-Robots-Tag: noindex"; can be '
        "repeated",
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="fetch the page even where robots.txt forbids it",
    )
    add_format(parser)


def run(arguments: Namespace, settings: Settings) -> int:
    from scrapy_rep.commands.page.command import page  # noqa: PLC0415

    return page(arguments, settings)
