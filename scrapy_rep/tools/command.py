"""The command ``scrapy rep``, which reads robots.txt files, pages and ledgers.

Scrapy imports every command at every start. So this module imports little; the module of a
subcommand is imported when the subcommand runs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from scrapy.commands import ScrapyCommand

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from scrapy.settings import Settings


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
        from scrapy_rep.tools.arguments import SUBCOMMANDS  # noqa: PLC0415

        subcommands = parser.add_subparsers(
            title="subcommands", dest="subcommand", metavar="SUBCOMMAND",
            prog="scrapy rep", required=True,
        )  # fmt: skip
        for name, (text, arguments) in SUBCOMMANDS.items():
            subparser = subcommands.add_parser(name, help=text, description=text)
            for names, how in arguments:
                subparser.add_argument(*names.split(), **how)
            # Scrapy's own options (-s, --nolog, ...) come after the subcommand.
            super().add_options(subparser)

    def run(self, args: list[str], opts: Namespace) -> None:
        from scrapy_rep.tools.output import exit_status  # noqa: PLC0415

        def run(arguments: Namespace, settings: Settings) -> int:
            # Imported inside exit_status(), which handles Ctrl-C: it can take a while.
            name = arguments.subcommand
            module = import_module(
                f"{__package__}.{'report.command' if name == 'report' else name}"
            )
            status: int = module.run(arguments, settings)
            return status

        assert self.settings is not None
        self.exitcode = exit_status(run, opts, self.settings, unknown=args)
