"""``scrapy rep``: questions to robots.txt, pages and ledgers, from the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.commands import ScrapyCommand

if TYPE_CHECKING:
    from argparse import Namespace


class RepCommand(ScrapyCommand):
    """To be filled."""

    requires_project = False

    def short_desc(self) -> str:
        return "Ask about robots.txt, indexing rules and past crawls"

    def run(self, args: list[str], opts: Namespace) -> None:
        self.exitcode = 2
