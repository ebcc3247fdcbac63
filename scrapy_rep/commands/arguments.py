"""The command-line options of the subcommands.

The parser always has the options of all subcommands. So this module imports nothing heavy;
the module of a subcommand is imported when the subcommand runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Argument(NamedTuple):
    """A positional argument or an option."""

    names: str
    """One name, or several with spaces between them."""

    help: str
    how: dict[str, Any]
    """The other keyword arguments of ``add_argument``."""


class Subcommand(NamedTuple):
    """A module of this package with a function ``run``."""

    help: str
    arguments: tuple[Argument, ...]

    def add_arguments(self, parser: ArgumentParser) -> None:
        for names, text, how in self.arguments:
            parser.add_argument(*names.split(), help=text, **how)


def _flag(name: str, text: str) -> Argument:
    return Argument(name, text, {"action": "store_true"})


def _value(name: str, metavar: str, text: str, **how: Any) -> Argument:
    return Argument(name, text, {"metavar": metavar, **how})


def _list(name: str, metavar: str, text: str) -> Argument:
    return _value(name, metavar, text, action="append", default=[])


def _several(name: str, metavar: str, text: str) -> Argument:
    return _value(name, metavar, text, nargs="+")


_JSON = _flag("--json", "write JSON for programs: one object on each line")
_AGENT = _list(
    "--agent", "NAME",
    "the crawler whose rules to follow: a product token or a User-Agent header; of several "
    "tokens (separated by commas, or the option repeated) the first with a group counts, or "
    "else the group for everyone, * (default: from the settings, as in a crawl, or from the "
    "ledger)",
)  # fmt: skip
_DIALECT = _value(
    "--dialect", "NAME",
    "rfc9309, google, classic, or the import path of a Dialect (default: from the settings, as "
    "in a crawl, or from the ledger)",
)  # fmt: skip
_PURPOSE = _list(
    "--purpose", "NAME",
    "what the crawl uses content for: search, ai-use, train-ai or tdm; give several separated "
    "by commas, or repeat the option (default: REP_PURPOSES; if that is empty, all purposes "
    "are shown)",
)  # fmt: skip
_SPIDER = _value(
    "--spider", "NAME",
    "use the settings of this spider of the project, its custom_settings included",
)  # fmt: skip
_PROFILE = (_AGENT, _DIALECT, _PURPOSE, _JSON)
"""The options that ``profile_of`` and ``Output`` read."""


SUBCOMMANDS = {
    "check": Subcommand(
        "Say whether URLs may be fetched, and show the rule that decides",
        (
            _several("urls", "URL", "a URL, or - for a list on standard input, one URL per line"),
            *_PROFILE, _SPIDER,
            _flag("--agents", "show what robots.txt says to well-known crawlers too"),
            _flag("--dialects", "show what each dialect decides, and whether the dialects agree"),
            _value("--robots", "FILE", "check every URL against the robots.txt in this file, and fetch nothing"),
            _flag("--brief", "print one line per URL: verdict, URL and reason, separated by tabs"),
        ),
    ),
    "lint": Subcommand(
        "Show what is wrong with robots.txt files, and what to write instead",
        (
            _value(
                "files", "FILE|URL",
                "a file, a URL, or - for standard input; for a URL without a path, the "
                "robots.txt of its host is checked",
                nargs="*",
            ),
            _DIALECT, _JSON,
            _value(
                "--severity", "LEVEL",
                "show only findings of this severity and graver ones: error, warning or note "
                "(default: note)",
                choices=("error", "warning", "note"), default="note",
            ),
            _list(
                "--ignore", "CODE",
                "leave out the findings with this code; several codes are separated by commas, "
                "or the option is repeated",
            ),
            _list("--explain", "CODE", "show an example of this code, and what is wrong in it"),
        ),
    ),
    "page": Subcommand(
        "Show the indexing rules of a page, and the statement behind each",
        (
            _value("page", "URL|FILE", "a URL, an HTML file, or - to read HTML from standard input"),
            *_PROFILE, _SPIDER,
            _list(
                "--header", "FIELD",
                "a header field to add to a page that is read from a file, such as "
                '"X-Robots-Tag: noindex"; can be repeated',
            ),
            _flag("--force", "fetch the page even if robots.txt forbids it"),
        ),
    ),
    "diff": Subcommand(
        "Show what changes between two sources of rules: rules, and verdicts on URLs",
        (
            _several(
                "old", "OLD",
                "where the old rules are: a robots.txt (a file, a URL, or - for standard input); "
                "a crawl's ledger (several count as one), LEDGER#2 for its crawl 2, or "
                "LEDGER@2026-11-30T12:00 for the state at that time (UTC); 'live' for the present "
                "robots.txt of each host; or a dialect, in which the other rules are read",
            ),
            _value("new", "NEW", "where the new rules are, as for OLD"),
            *_PROFILE,
            _value(
                "--urls", "LIST|LEDGER",
                "the URLs to compare: a file with one URL or path per line, - for standard input, "
                "or the ledger of a crawl (default: the URLs of the ledger that is OLD or NEW, or "
                "else paths made from the patterns)",
            ),
            _value(
                "--origin", "URL",
                "compare only URLs of this host, and its rules (default: the host of NEW, or of "
                "OLD, if that is a URL)",
            ),
            _value("--purge-list", "FILE", "write to this file the URLs that OLD allows and NEW denies"),
        ),
    ),
    "report": Subcommand(
        "Write a report on past crawls: as one HTML file, as CSV files, or as JSON",
        (
            _several("ledgers", "LEDGER", "a crawl's ledger (REP_LEDGER)"),
            _list(
                "--against", "LEDGER",
                "a ledger of an earlier crawl: the report says what has changed since; can be "
                "repeated",
            ),
            _value(
                "-o --output", "FILE",
                "the page to write, or - for standard output (default: robots-report.html; none, "
                "with --csv or --json); an older report is replaced, any other existing file is "
                "an error",
            ),
            _value("--csv", "FOLDER", "write each table, with all of its rows, as a CSV file into this folder"),
            _flag("--json", "write the whole report, with all rows, as one JSON object on one line"),
            _value(
                "--hosts", "N", "list at most this many hosts (default: %(default)s)",
                type=int, default=10_000,
            ),
            _value(
                "--robotstxt", "N",
                "show the robots.txt of at most this many hosts (default: %(default)s)",
                type=int, default=200,
            ),
        ),
    ),
    "why": Subcommand(
        "Show everything that ledgers have on a URL or a host, with the robots.txt of that time",
        (
            _value(
                "asked", "URL|HOST",
                "a URL; or a host: a name such as shop.example or shop.example:8080, or a URL "
                "without a path",
            ),
            _several("ledgers", "LEDGER", "a crawl's ledger (REP_LEDGER)"),
            _value(
                "--limit", "N",
                "show at most this many decisions, like ones counted together (default: %(default)s)",
                type=int, default=20,
            ),
            _value(
                "--bundle", "FILE",
                "write the decisions, their robots.txt files and a page that says how to check "
                "them to this zip file",
            ),
            _JSON,
        ),
    ),
    "verify": Subcommand(
        "Say whether a ledger is as the crawls wrote it",
        (
            _value("ledger", "LEDGER", "a crawl's ledger (REP_LEDGER)"),
            _value(
                "digests", "DIGEST",
                "a digest (SHA-256) that was published: a crawl of the ledger must still have it",
                nargs="*",
            ),
            _JSON,
        ),
    ),
}  # fmt: skip
"""Each subcommand, by its name."""
