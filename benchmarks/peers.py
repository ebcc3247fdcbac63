"""The measured parsers, behind one interface."""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib.metadata import version
from typing import Any
from urllib.robotparser import RobotFileParser

import protego
from robotexclusionrulesparser import RobotExclusionRulesParser
from robots import RobotsParser

from benchmarks.corpus import AGENT
from scrapy_rep.protocol.robots import RobotsTxt


class Parser(ABC):
    """A parser. The other methods take the result of ``parse``."""

    name: str
    package: str

    one_in = 1
    """A slow parser is measured on every n-th file, and compared with ours on the same files."""

    @abstractmethod
    def parse(self, body: bytes) -> Any: ...

    @abstractmethod
    def is_allowed(self, parsed: Any, url: str) -> bool: ...

    @abstractmethod
    def crawl_delay(self, parsed: Any) -> object:
        """Return the crawl delay of the agent."""

    @property
    def label(self) -> str:
        return f"{self.name} {version(self.package)}" if self.package else self.name


class Ours(Parser):
    name = "scrapy-rep"
    package = ""

    def parse(self, body: bytes) -> RobotsTxt:
        return RobotsTxt.parse(body)

    def is_allowed(self, parsed: RobotsTxt, url: str) -> bool:
        return parsed.is_allowed(url, AGENT)

    def crawl_delay(self, parsed: RobotsTxt) -> object:
        return parsed.crawl_delay(AGENT)


class Protego(Parser):
    name = package = "protego"

    def parse(self, body: bytes) -> protego.Protego:
        return protego.Protego.parse(body.decode("utf-8", "replace"))

    def is_allowed(self, parsed: protego.Protego, url: str) -> bool:
        return parsed.can_fetch(url, AGENT)

    def crawl_delay(self, parsed: protego.Protego) -> object:
        return parsed.crawl_delay(AGENT)


class StandardLibrary(Parser):
    name = "urllib.robotparser"
    package = ""

    def parse(self, body: bytes) -> RobotFileParser:
        parser = RobotFileParser()
        parser.parse(body.decode("utf-8", "replace").splitlines())
        return parser

    def is_allowed(self, parsed: RobotFileParser, url: str) -> bool:
        return parsed.can_fetch(AGENT, url)

    def crawl_delay(self, parsed: RobotFileParser) -> object:
        parsed.modified()  # It answers only after a fetch time is set.
        return parsed.crawl_delay(AGENT)


class Robotspy(Parser):
    name = package = "robotspy"
    one_in = 10

    def parse(self, body: bytes) -> RobotsParser:
        return RobotsParser.from_string(body.decode("utf-8", "replace"))

    def is_allowed(self, parsed: RobotsParser, url: str) -> bool:
        return parsed.can_fetch(AGENT, url)

    def crawl_delay(self, parsed: RobotsParser) -> object:
        return None  # It does not parse delays.


class Rerp(Parser):
    name = package = "robotexclusionrulesparser"
    one_in = 10

    def parse(self, body: bytes) -> RobotExclusionRulesParser:
        parser = RobotExclusionRulesParser()
        parser.parse(body.decode("utf-8", "replace"))
        return parser

    def is_allowed(self, parsed: RobotExclusionRulesParser, url: str) -> bool:
        return parsed.is_allowed(AGENT, url)

    def crawl_delay(self, parsed: RobotExclusionRulesParser) -> object:
        return parsed.get_crawl_delay(AGENT)


OURS = Ours()
PROTEGO = Protego()
STDLIB = StandardLibrary()
PEERS = (PROTEGO, STDLIB, Robotspy(), Rerp())
