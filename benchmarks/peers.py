"""The measured parsers, behind one interface."""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib.metadata import version
from typing import Any
from urllib.robotparser import RobotFileParser

import protego
from gpyrobotstxt.robots_cc import RobotsMatcher
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

    def find_rules(self, parsed: Any) -> None:  # noqa: B027
        """Prepare decisions for the agent, if parsing does not."""

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

    def find_rules(self, parsed: RobotsTxt) -> None:
        # The first decision needs only some of the rules; other parsers read them all.
        parsed._rules_for(AGENT).read_rules()

    def is_allowed(self, parsed: RobotsTxt, url: str) -> bool:
        return parsed.is_allowed(url, AGENT)

    def crawl_delay(self, parsed: RobotsTxt) -> object:
        return parsed.crawl_delay(AGENT)


class Protego(Parser):
    name = package = "protego"

    def parse(self, body: bytes) -> protego.Protego:
        return protego.Protego.parse(body.decode("utf-8", "replace"))

    def find_rules(self, parsed: protego.Protego) -> None:
        parsed._get_matching_rule_set(AGENT)

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


class Gpyrobotstxt(Parser):
    """A port of Google's parser. Like the original, it reads the file for each URL."""

    name = package = "gpyrobotstxt"
    one_in = 100

    def parse(self, body: bytes) -> bytes:
        return body

    def is_allowed(self, parsed: bytes, url: str) -> bool:
        try:
            return RobotsMatcher().one_agent_allowed_by_robots(parsed, AGENT, url)
        except (IndexError, TypeError):  # Some files make it raise.
            return True

    def crawl_delay(self, parsed: bytes) -> object:
        return None  # Google ignores delays.


OURS = Ours()
PROTEGO = Protego()
STDLIB = StandardLibrary()
PEERS = (PROTEGO, STDLIB, Robotspy(), Rerp(), Gpyrobotstxt())
