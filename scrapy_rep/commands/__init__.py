"""``scrapy rep``: reads robots.txt files, pages and ledgers from the command line.

Scrapy loads every command at every start. So this module imports as little as it can: what
a subcommand needs is imported when that runs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from scrapy.commands import ScrapyCommand

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

SUBCOMMANDS = ("check", "lint", "page", "diff", "replay", "report")
"""Modules of this package, each with ``HELP``, ``add_arguments`` and ``run``."""


class RepCommand(ScrapyCommand):
    """Runs a subcommand."""

    requires_project = False
    requires_crawler_process = False
    default_settings: ClassVar[dict[str, Any]] = {"LOG_LEVEL": "WARNING"}

    def syntax(self) -> str:
        return "SUBCOMMAND [options]"

    def short_desc(self) -> str:
        return "Read robots.txt files, indexing rules and ledgers of crawls"

    def add_options(self, parser: ArgumentParser) -> None:
        subcommands = parser.add_subparsers(
            title="subcommands",
            dest="subcommand",
            metavar="SUBCOMMAND",
            prog="scrapy rep",
            required=True,
        )
        for name in SUBCOMMANDS:
            module = _module(name)
            subparser = subcommands.add_parser(
                name, help=module.HELP, description=module.HELP
            )
            module.add_arguments(subparser)
            # Scrapy's own options follow the subcommand.
            super().add_options(subparser)

    def run(self, args: list[str], opts: Namespace) -> None:
        from scrapy_rep.commands.shared.exit_status import exit_status  # noqa: PLC0415

        assert self.settings is not None
        run = _module(opts.subcommand).run
        self.exitcode = exit_status(run, opts, self.settings, unknown=args)


def _module(name: str) -> Any:
    return import_module(f"{__name__}.{name}")
