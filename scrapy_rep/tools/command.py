"""The command ``scrapy rep``, which reads robots.txt files, pages and ledgers.

Scrapy imports all commands at every start, even of a crawl. So this module has the options of all
subcommands, but imports little; the module of a subcommand is imported when the subcommand runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from scrapy.commands import ScrapyCommand

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace


_Argument: TypeAlias = "tuple[str, dict[str, Any]]"
"""An argument of a subcommand: its names, separated by a space, and the keyword arguments of
``add_argument``."""


def _value(names: str, metavar: str, text: str, **options: Any) -> _Argument:
    """Define a command-line option with a value, which the help shows as *metavar*."""
    return names, {"metavar": metavar, "help": text, **options}


def _flag(names: str, text: str) -> _Argument:
    """Return an option without a value."""
    return names, {"help": text, "action": "store_true"}


def _list(names: str, metavar: str, text: str) -> _Argument:
    """Return an option with a value that can be repeated."""
    return _value(names, metavar, text, action="append", default=[])


_JSON = _flag("--json", "write JSON for programs: one object on each line")
_AGENT = _list(
    "--agent", "NAME",
    "follow the rules for this crawler: a product token, several separated by commas, or a "
    "User-Agent header (default: that of the settings or of the ledger)",
)  # fmt: skip
_DIALECT = _value(
    "--dialect", "NAME",
    "rfc9309, google, classic, or the import path of a Dialect (default: that of the settings "
    "or of the ledger)",
)  # fmt: skip
_PURPOSE = _list(
    "--purpose", "NAME",
    "what the crawl uses content for: search, ai-use, train-ai or tdm; several are separated "
    "by commas (default: REP_PURPOSES)",
)  # fmt: skip
_SPIDER = _value(
    "--spider", "NAME",
    "use the settings of this spider of the project, its custom_settings included",
)  # fmt: skip
_PROFILE = (_AGENT, _DIALECT, _PURPOSE, _JSON)
"""The options of all subcommands that judge URLs, which ``profile_of`` and ``Output`` read."""


_LEDGERS = _value("ledgers", "LEDGER", "a crawl's ledger (REP_LEDGER)", nargs="+")


SUBCOMMANDS: dict[str, tuple[str, tuple[_Argument, ...]]] = {
    "check": (
        "Say whether URLs may be fetched, and show the rule that decides",
        (
            _value("urls", "URL", "a URL, or - for a list on standard input", nargs="+"),
            *_PROFILE, _SPIDER,
            _flag("--agents", "also show what robots.txt says to well-known crawlers"),
            _flag("--dialects", "show what each dialect decides, and whether they agree"),
            _value("--robots", "FILE", "judge every URL by this robots.txt, and fetch nothing"),
            _flag("--brief", "print only verdict, URL and reason, separated by tabs"),
        ),
    ),
    "lint": (
        "Show what is wrong with robots.txt files, and what to write instead",
        (
            _value("files", "FILE|URL", "a file, a URL, or - for standard input", nargs="*"),
            _DIALECT, _JSON,
            _value(
                "--severity", "LEVEL",
                "show only findings of this severity or a more serious one: error or warning "
                "(default: %(default)s)",
                choices=("error", "warning"), default="warning",
            ),
            _list("--ignore", "CODE", "leave out these findings; several codes are separated by commas"),
            _list("--explain", "CODE", "show an example of this code, and what is wrong in it"),
        ),
    ),
    "page": (
        "Show the indexing rules of a page, and the statement behind each",
        (
            _value("page", "URL|FILE", "a URL, an HTML file, or - for HTML on standard input"),
            *_PROFILE, _SPIDER,
            _list(
                "--header", "FIELD",
                'a header field of a page that is read from a file, such as "X-Robots-Tag: noindex"',
            ),
            _flag("--force", "fetch the page even if robots.txt forbids it"),
        ),
    ),
    "diff": (
        "Show what changes between two sources of rules: rules, and verdicts on URLs",
        (
            _value(
                "old", "OLD",
                "a robots.txt (a file, a URL, or - for standard input); a crawl's ledger (several "
                "count as one), LEDGER#2 for its crawl 2, or LEDGER@2026-11-30T12:00 for the state "
                "at that time (UTC); 'live' for the present robots.txt of each host; or a dialect, "
                "in which the other rules are read",
                nargs="+",
            ),
            _value("new", "NEW", "the new rules, in the same forms as OLD"),
            *_PROFILE,
            _value(
                "--urls", "LIST|LEDGER",
                "the URLs to compare: a file with one URL or path per line, - for standard input, "
                "or a ledger (default: those of the ledger that is OLD or NEW, or else paths made "
                "from the patterns)",
            ),
            _value("--origin", "URL", "compare only the rules and URLs of this host"),
            _value("--purge-list", "FILE", "write to this file the URLs that OLD allows and NEW denies"),
        ),
    ),
    "report": (
        "Write a report on past crawls, as one HTML file or as JSON",
        (
            _LEDGERS,
            _value(
                "-o --output", "FILE",
                "the page to write, or - for standard output (default: robots-report.html; none, "
                "with --json)",
            ),
            _flag("--json", "write the whole report, with all rows, as one JSON object"),
            _value("--hosts", "N", "list at most this many hosts (default: %(default)s)", type=int, default=10_000),
            _value(
                "--robotstxt", "N",
                "show the robots.txt of at most this many hosts (default: %(default)s)",
                type=int, default=200,
            ),
        ),
    ),
    "why": (
        "Show everything that ledgers have on a URL or a host, with the robots.txt of that time",
        (
            _value("asked", "URL|HOST", "a URL; or a host, such as shop.example or https://shop.example"),
            _LEDGERS,
            _value(
                "--limit", "N",
                "show at most this many decisions; equal decisions count as one (default: %(default)s)",
                type=int, default=20,
            ),
            _JSON,
        ),
    ),
}  # fmt: skip
"""The help and the arguments of each subcommand. For a subcommand, this package has a module of the same
name with a function ``run``; the report has a package, ``report``, with a module ``command``.
"""


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
            # Scrapy's own options (-s, --nolog, ...), which users write after the subcommand.
            super().add_options(subparser)

    def run(self, args: list[str], opts: Namespace) -> None:
        from scrapy_rep.tools.output import exit_status  # noqa: PLC0415

        assert self.settings is not None
        self.exitcode = exit_status(opts, self.settings, unknown=args)
