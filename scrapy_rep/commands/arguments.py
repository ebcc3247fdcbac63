"""The options of the subcommands.

The parser has those of every subcommand, whichever runs. So this module imports nothing
heavy; the module of a subcommand is imported when that runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Callable

_AS_A_CRAWL = "as a crawl with these settings"


class Subcommand(NamedTuple):
    help: str
    add_arguments: Callable[[ArgumentParser], None]


def _check(parser: ArgumentParser) -> None:
    parser.add_argument(
        "urls",
        nargs="+",
        metavar="URL",
        help="a URL, or - for a list on standard input",
    )
    _add_profile(parser)
    _add_purposes(parser)
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
    _add_format(parser)


def _lint(parser: ArgumentParser) -> None:
    parser.add_argument(
        "files",
        nargs="+",
        metavar="FILE|URL",
        help="a file, a URL, or - for standard input; a URL without a path stands for the "
        "robots.txt of its host",
    )
    parser.set_defaults(agent=["*"])
    _add_dialect(parser)
    _add_format(parser)


def _page(parser: ArgumentParser) -> None:
    parser.add_argument(
        "page",
        metavar="URL|FILE",
        help="a URL, an HTML file, or - for HTML on standard input",
    )
    _add_profile(parser)
    _add_purposes(parser)
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
    _add_format(parser)


def _diff(parser: ArgumentParser) -> None:
    for name in ("old", "new"):
        parser.add_argument(
            name,
            metavar=name.upper(),
            help="a file, a URL, or - for standard input",
        )
    _add_profile(parser)
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
    _add_format(parser)


def _replay(parser: ArgumentParser) -> None:
    parser.add_argument(
        "ledgers",
        nargs="+",
        metavar="LEDGER",
        help="the ledger of a crawl; without REP_LEDGER_LEVEL = 'all' it has no URLs that "
        "could be newly forbidden",
    )
    _add_profile(parser, default="as in each past crawl")
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
    _add_format(parser)


def _report(parser: ArgumentParser) -> None:
    parser.add_argument(
        "ledgers", nargs="+", metavar="LEDGER", help="ledgers of crawls (REP_LEDGER)"
    )
    parser.add_argument(
        "-o",
        "--output",
        default="robots-report.html",
        metavar="FILE",
        help="the file to write, or - for standard output (default: %(default)s); an "
        "older report is replaced, any other file is not",
    )
    parser.add_argument(
        "--hosts",
        type=int,
        default=10_000,
        metavar="N",
        help="how many hosts to list at most (default: %(default)s)",
    )
    parser.add_argument(
        "--robotstxt",
        type=int,
        default=200,
        metavar="N",
        help="how many hosts to show the robots.txt of at most (default: %(default)s)",
    )


SUBCOMMANDS = {
    "check": Subcommand(
        "Say whether URLs may be fetched, and show the rule that decides", _check
    ),
    "lint": Subcommand(
        "Show what is wrong with robots.txt files, and what to write instead", _lint
    ),
    "page": Subcommand(
        "Show the indexing rules of a page, and the statement behind each", _page
    ),
    "diff": Subcommand(
        "Show what changed between two robots.txt files: rules, and verdicts on URLs",
        _diff,
    ),
    "replay": Subcommand(
        "Show which URLs of past crawls are now forbidden, and which are newly allowed",
        _replay,
    ),
    "report": Subcommand("Write a report on past crawls, as one HTML file", _report),
}
"""Each is a module of this package, with a function ``run``."""


def _add_profile(parser: ArgumentParser, default: str = _AS_A_CRAWL) -> None:
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
    _add_dialect(parser, default)


def _add_dialect(parser: ArgumentParser, default: str = _AS_A_CRAWL) -> None:
    parser.add_argument(
        "--dialect",
        metavar="NAME",
        help=f"rfc9309, google, classic, or the import path of a Dialect (default: {default})",
    )


def _add_purposes(parser: ArgumentParser) -> None:
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


def _add_format(parser: ArgumentParser) -> None:
    """The option that ``output.Output`` reads: text or JSON."""
    parser.add_argument(
        "--format",
        choices=("text", "json"),
        default="text",
        help="text for people, or JSON for programs: an object on each line",
    )
