"""The command ``scrapy rep``, and the options of its subcommands.

Scrapy imports all commands at every start, even at the start of a crawl. To keep this import fast, this
module imports the module of a subcommand only when the subcommand runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from scrapy.commands import ScrapyCommand

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace


_Argument: TypeAlias = "tuple[str, dict[str, Any]]"
"""A command-line argument of a subcommand. The first value contains the argument's names, separated by spaces,
the second the keyword arguments for ``ArgumentParser.add_argument``."""


def _value(names: str, metavar: str, text: str, **options: Any) -> _Argument:
    """Return an argument with a value. *metavar* stands for the value in the help, and *text* is the help text."""
    return names, {"metavar": metavar, "help": text, **options}


def _flag(names: str, text: str) -> _Argument:
    """Return an option without a value. *text* is its help text."""
    return names, {"help": text, "action": "store_true"}


def _list(names: str, metavar: str, text: str) -> _Argument:
    """Return an option that can be given several times, each time with a value."""
    return _value(names, metavar, text, action="append", default=[])


_JSON = _flag("--json", "write JSON for programs, with one object on each line")
_AGENT = _list(
    "--agent", "NAME",
    "the crawler whose rules to follow: a product token, several product tokens separated by "
    "commas, or a User-Agent header (default: from the settings or the ledger)",
)  # fmt: skip
_DIALECT = _value(
    "--dialect", "NAME",
    "rfc9309, google, classic, or the import path of a Dialect (default: from the settings or "
    "the ledger)",
)  # fmt: skip
_PURPOSE = _list(
    "--purpose", "NAME",
    "the purpose of the crawl: search, ai-use, train-ai or tdm; separate several purposes by "
    "commas (default: REP_PURPOSES)",
)  # fmt: skip
_SPIDER = _value(
    "--spider", "NAME",
    "use the settings of this spider of the project, including its custom_settings",
)  # fmt: skip
_PROFILE = (_AGENT, _DIALECT, _PURPOSE, _JSON)
"""The options that all subcommands with verdicts on URLs share. ``profile_of`` and ``Output`` read them."""


_LEDGERS = _value("ledgers", "LEDGER", "the ledger of a crawl (REP_LEDGER)", nargs="+")


SUBCOMMANDS: dict[str, tuple[str, tuple[_Argument, ...]]] = {
    "check": (
        "Show whether URLs may be fetched, and which rule decides",
        (
            _value("urls", "URL", "a URL, or - for a list of URLs on standard input", nargs="+"),
            *_PROFILE, _SPIDER,
            _flag("--agents", "also show the verdicts for well-known crawlers"),
            _flag("--dialects", "also show the verdict in each dialect, and whether all dialects agree"),
            _value("--robots", "FILE", "judge every URL by this robots.txt, and fetch nothing"),
            _flag("--brief", "print only the verdict, the URL and the reason, separated by tabs"),
        ),
    ),
    "lint": (
        "Show the mistakes in robots.txt files, and how to correct them",
        (
            _value("files", "FILE|URL", "a file, a URL, or - for standard input", nargs="*"),
            _DIALECT, _JSON,
            _value(
                "--severity", "LEVEL",
                "show only findings of this severity or higher: error or warning (default: %(default)s)",
                choices=("error", "warning"), default="warning",
            ),
            _list("--ignore", "CODE", "hide findings with this code; separate several codes by commas"),
            _list("--explain", "CODE", "explain the findings with this code by an example"),
        ),
    ),
    "page": (
        "Show the indexing rules of a page, and the statements behind each rule",
        (
            _value("page", "URL|FILE", "a URL, an HTML file, or - for HTML on standard input"),
            *_PROFILE, _SPIDER,
            _list(
                "--header", "FIELD",
                'a header field for a page in a file, such as "X-Robots-Tag: noindex"',
            ),
            _flag("--force", "fetch the page even if robots.txt forbids it"),
        ),
    ),
    "diff": (
        "Compare two sources of rules, and show which rules and verdicts on URLs differ",
        (
            _value(
                "old", "OLD",
                "the old rules: a robots.txt (a file, a URL, or - for standard input); the ledger of a "
                "crawl, or several ledgers, LEDGER#2 for the ledger's crawl 2, or LEDGER@2026-11-30T12:00 "
                "for the ledger's state at this time (UTC); 'live' for the present robots.txt of each "
                "host; or a dialect, to read the rules of NEW in this dialect",
                nargs="+",
            ),
            _value("new", "NEW", "the new rules, in the same forms as OLD"),
            *_PROFILE,
            _value(
                "--urls", "LIST|LEDGER",
                "the URLs to judge by both sources: a file with one URL or path per line, - for "
                "standard input, or a ledger (default: the URLs in the ledger that is OLD or NEW; "
                "without a ledger, sample paths for the patterns in the rules)",
            ),
            _value("--origin", "URL", "compare only the rules and URLs of this host"),
            _value("--purge-list", "FILE", "write the URLs that OLD allows and NEW denies to this file"),
        ),
    ),
    "report": (
        "Write a report on past crawls, as one HTML file or as JSON",
        (
            _LEDGERS,
            _value(
                "-o --output", "FILE",
                "the HTML file to write, or - for standard output (default: robots-report.html, or no "
                "file with --json)",
            ),
            _flag("--json", "write the whole report, with all rows, as one JSON object"),
            _value(
                "--hosts", "N", "the maximum number of hosts to list (default: %(default)s)",
                type=int, default=10_000,
            ),
            _value(
                "--robotstxt", "N",
                "the maximum number of hosts whose robots.txt is shown (default: %(default)s)",
                type=int, default=200,
            ),
        ),
    ),
    "why": (
        "Show all decisions about a URL or a host in ledgers, with the robots.txt that applied",
        (
            _value("asked", "URL|HOST", "a URL, or a host such as shop.example or https://shop.example"),
            _LEDGERS,
            _value(
                "--limit", "N",
                "the maximum number of decisions to show; equal decisions count as one (default: %(default)s)",
                type=int, default=20,
            ),
            _JSON,
        ),
    ),
}  # fmt: skip
"""The help text and the arguments of each subcommand, by name. The module ``scrapy_rep.tools.NAME`` defines the
function ``run`` of the subcommand NAME. For ``report``, the function is in ``scrapy_rep.tools.report.command``."""


class RepCommand(ScrapyCommand):
    """The command ``scrapy rep``, which runs one of its subcommands."""

    requires_project = False
    requires_crawler_process = False
    default_settings: ClassVar[dict[str, Any]] = {"LOG_LEVEL": "WARNING"}

    def syntax(self) -> str:
        return "SUBCOMMAND [options]"

    def short_desc(self) -> str:
        return "Read robots.txt files, indexing rules and ledgers of crawls"

    def add_options(self, parser: ArgumentParser) -> None:
        subcommands = parser.add_subparsers(
            title="subcommands", dest="subcommand", metavar="SUBCOMMAND",
            prog="scrapy rep", required=True,
        )  # fmt: skip
        for name, (text, arguments) in SUBCOMMANDS.items():
            subparser = subcommands.add_parser(name, help=text, description=text)
            for names, options in arguments:
                subparser.add_argument(*names.split(), **options)
            # Scrapy's own options, such as -s and --nolog, are accepted after the subcommand.
            super().add_options(subparser)

    def run(self, args: list[str], opts: Namespace) -> None:
        from scrapy_rep.tools.output import exit_status  # noqa: PLC0415

        assert self.settings is not None
        self.exitcode = exit_status(opts, self.settings, unknown=args)
