"""``scrapy rep lint``: what is wrong with robots.txt files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_rep.commands.shared.arguments import add_format

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from scrapy.settings import Settings

HELP = "Show what is wrong with robots.txt files, and what to write instead"


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "files",
        nargs="+",
        metavar="FILE|URL",
        help="a file, a URL, or - for standard input; a URL without a path stands for the "
        "robots.txt of its host",
    )
    parser.add_argument(
        "--dialect",
        metavar="NAME",
        help="rfc9309, google, classic, or the import path of a Dialect (default: as a "
        "crawl with these settings)",
    )
    add_format(parser)


def run(arguments: Namespace, settings: Settings) -> int:
    from scrapy_rep.commands.lint.command import lint  # noqa: PLC0415

    arguments.agent = ["*"]
    return lint(arguments, settings)
