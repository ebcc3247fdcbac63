"""The command-line options of the subcommands.

The parser always has the options of all subcommands. So this module imports nothing heavy;
the module of a subcommand is imported when the subcommand runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Callable

_FROM_SETTINGS = "from the settings, as in a crawl"


class Subcommand(NamedTuple):
    help: str
    add_arguments: Callable[[ArgumentParser], None]


def _check(parser: ArgumentParser) -> None:
    parser.add_argument(
        "urls",
        nargs="+",
        metavar="URL",
        help="a URL, or - for a list on standard input, one URL per line",
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
        help="check every URL against the robots.txt in this file, and fetch nothing",
    )
    parser.add_argument(
        "--brief",
        action="store_true",
        help="print one line per URL: verdict, URL and reason, separated by tabs",
    )
    _add_format(parser)


def _lint(parser: ArgumentParser) -> None:
    parser.add_argument(
        "files",
        nargs="+",
        metavar="FILE|URL",
        help="a file, a URL, or - for standard input; for a URL without a path, the "
        "robots.txt of its host is checked",
    )
    parser.set_defaults(agent=["*"])
    _add_dialect(parser)
    _add_format(parser)


def _page(parser: ArgumentParser) -> None:
    parser.add_argument(
        "page",
        metavar="URL|FILE",
        help="a URL, an HTML file, or - to read HTML from standard input",
    )
    _add_profile(parser)
    _add_purposes(parser)
    parser.add_argument(
        "--header",
        action="append",
        default=[],
        metavar="FIELD",
        help="a header field to add to a page that is read from a file, such as "
        '"X-Robots-Tag: noindex"; can be repeated',
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="fetch the page even if robots.txt forbids it",
    )
    _add_format(parser)


def _diff(parser: ArgumentParser) -> None:
    for name in ("old", "new"):
        parser.add_argument(
            name,
            metavar=name.upper(),
            help=f"the {name} robots.txt: a file, a URL, or - for standard input",
        )
    _add_profile(parser)
    parser.add_argument(
        "--urls",
        metavar="LIST|LEDGER",
        help="the URLs to compare: a file with one URL or path per line, - for standard "
        "input, or the ledger of a crawl (default: paths made from the patterns)",
    )
    parser.add_argument(
        "--origin",
        metavar="URL",
        help="compare only URLs of this host (default: the host of NEW, or of OLD, if "
        "that is a URL)",
    )
    _add_format(parser)


def _replay(parser: ArgumentParser) -> None:
    parser.add_argument(
        "ledgers",
        nargs="+",
        metavar="LEDGER",
        help="the ledger of a crawl; without REP_LEDGER_LEVEL = 'all' it lacks the URLs "
        "that were fetched, so none is shown as newly forbidden",
    )
    _add_profile(parser, default="from each past crawl")
    parser.add_argument(
        "--robots",
        action="append",
        default=[],
        metavar="[ORIGIN=]FILE",
        help="use this file instead of fetching robots.txt: for one origin, as in "
        "https://example.com=robots.txt, or for all origins without a file of their own; "
        "can be repeated",
    )
    parser.add_argument(
        "--purge-list",
        metavar="FILE",
        help="write to this file the URLs that were fetched and are now forbidden",
    )
    _add_format(parser)


def _report(parser: ArgumentParser) -> None:
    parser.add_argument(
        "ledgers", nargs="+", metavar="LEDGER", help="a crawl's ledger (REP_LEDGER)"
    )
    parser.add_argument(
        "-o",
        "--output",
        default="robots-report.html",
        metavar="FILE",
        help="the file to write, or - for standard output (default: %(default)s); an "
        "older report is replaced, any other existing file is an error",
    )
    parser.add_argument(
        "--hosts",
        type=int,
        default=10_000,
        metavar="N",
        help="list at most this many hosts (default: %(default)s)",
    )
    parser.add_argument(
        "--robotstxt",
        type=int,
        default=200,
        metavar="N",
        help="show the robots.txt of at most this many hosts (default: %(default)s)",
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
"""Each subcommand is a module of this package with a function ``run``."""


def _add_profile(parser: ArgumentParser, default: str = _FROM_SETTINGS) -> None:
    """Add ``--agent`` and ``--dialect``, which ``profile.profile_of`` reads."""
    parser.add_argument(
        "--agent",
        action="append",
        default=[],
        metavar="NAME",
        help="the crawler whose rules to follow: a product token or a User-Agent header; "
        "of several tokens (separated by commas, or the option repeated) the first with a "
        f"group counts, or else the group for everyone, * (default: {default})",
    )
    _add_dialect(parser, default)


def _add_dialect(parser: ArgumentParser, default: str = _FROM_SETTINGS) -> None:
    parser.add_argument(
        "--dialect",
        metavar="NAME",
        help=f"rfc9309, google, classic, or the import path of a Dialect (default: {default})",
    )


def _add_purposes(parser: ArgumentParser) -> None:
    """Add ``--purpose``, which ``profile.profile_of`` reads."""
    parser.add_argument(
        "--purpose",
        action="append",
        default=[],
        metavar="NAME",
        help="what the crawl uses content for: search, ai-use, train-ai or tdm; give "
        "several separated by commas, or repeat the option (default: REP_PURPOSES; if "
        "that is empty, all purposes are shown)",
    )


def _add_format(parser: ArgumentParser) -> None:
    """Add ``--format``, which ``output.Output`` reads."""
    parser.add_argument(
        "--format",
        choices=("text", "json"),
        default="text",
        help="text for people, or JSON for programs: one object per line",
    )
