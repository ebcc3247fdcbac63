"""Adapters for other Python parsers."""

from __future__ import annotations

import platform
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.robotparser import RobotFileParser

from conformance.cases import agents_of, body_of

if TYPE_CHECKING:
    from collections.abc import Mapping


class Peer:
    """The base class of adapters for parsers that accept only a single product token. Questions about a crawler with
    several tokens are not supported.
    """

    package = ""
    dialect = "rfc9309"

    def __init__(self) -> None:
        self.name = f"{self.package} {version(self.package)}"

    def answer(self, question: Mapping[str, Any]) -> Mapping[str, Any] | None:
        agents = agents_of(question)
        if len(agents) != 1:
            return None
        body = body_of(question)
        if question["kind"] == "decision":
            return {"allowed": bool(self.is_allowed(body, agents[0], question["url"]))}
        if question["kind"] == "sitemaps":
            sitemaps = self.sitemaps(body)
            return None if sitemaps is None else {"sitemaps": list(sitemaps)}
        if question["kind"] == "pace":
            return self.pace(body, agents[0])
        return None

    def is_allowed(self, body: bytes, agent: str, url: str) -> bool:
        raise NotImplementedError

    def sitemaps(self, body: bytes) -> list[str] | None:
        return None

    def pace(self, body: bytes, agent: str) -> Mapping[str, Any] | None:
        return None


def text(body: bytes) -> str:
    """Return the body of a robots.txt decoded as UTF-8, for parsers that take a string. A byte order mark is left out,
    as in Scrapy. Invalid bytes become U+FFFD, whereas Scrapy leaves them out.
    """
    return body.decode("utf-8-sig", "replace")


class Protego(Peer):
    package = "protego"

    def _parse(self, body: bytes) -> Any:
        from protego import Protego as Parser  # noqa: PLC0415

        return Parser.parse(text(body))

    def is_allowed(self, body: bytes, agent: str, url: str) -> bool:
        return bool(self._parse(body).can_fetch(url, agent))

    def sitemaps(self, body: bytes) -> list[str]:
        return list(self._parse(body).sitemaps)

    def pace(self, body: bytes, agent: str) -> Mapping[str, Any]:
        parsed = self._parse(body)
        rate = parsed.request_rate(agent)
        return {
            "crawl_delay": parsed.crawl_delay(agent),
            "request_rate": rate and [rate.requests, rate.seconds],
        }


class StandardLibrary(Peer):
    """The parser in the standard library of the running Python. Versions of Python 3.13, 3.14 and 3.15 since May 2026
    implement RFC 9309. Earlier versions implement the specifications of 1994 and 1996.
    """

    def __init__(self) -> None:
        self.name = f"urllib.robotparser {platform.python_version()}"
        # Parsers of the older Python versions follow the first rule that matches, "Disallow: /". Newer ones follow the
        # longest.
        is_rfc = self.is_allowed(b"User-agent: *\nDisallow: /\nAllow: /a", "a", "/a")
        self.dialect = "rfc9309" if is_rfc else "classic"

    def _parse(self, body: bytes) -> RobotFileParser:
        parser = RobotFileParser()
        parser.parse(text(body).splitlines())
        # The parser denies all URLs until the time of the fetch is set. parse() sets it, but this is not documented.
        parser.modified()
        return parser

    def is_allowed(self, body: bytes, agent: str, url: str) -> bool:
        return self._parse(body).can_fetch(agent, url)

    def sitemaps(self, body: bytes) -> list[str]:
        return self._parse(body).site_maps() or []

    def pace(self, body: bytes, agent: str) -> Mapping[str, Any]:
        parsed = self._parse(body)
        delay, rate = parsed.crawl_delay(agent), parsed.request_rate(agent)
        return {
            "crawl_delay": None if delay is None else float(delay),
            "request_rate": rate and [rate.requests, rate.seconds],
        }


class Robotspy(Peer):
    package = "robotspy"

    def _parse(self, body: bytes) -> Any:
        from robots import RobotsParser  # noqa: PLC0415

        return RobotsParser.from_string(text(body))

    def is_allowed(self, body: bytes, agent: str, url: str) -> bool:
        return bool(self._parse(body).can_fetch(agent, url))

    def sitemaps(self, body: bytes) -> list[str]:
        return list(self._parse(body).sitemaps)


class Rerp(Peer):
    package = "robotexclusionrulesparser"

    def _parse(self, body: bytes) -> Any:
        from robotexclusionrulesparser import RobotExclusionRulesParser  # noqa: PLC0415

        parser = RobotExclusionRulesParser()
        parser.parse(text(body))
        return parser

    def is_allowed(self, body: bytes, agent: str, url: str) -> bool:
        return bool(self._parse(body).is_allowed(agent, url))

    def sitemaps(self, body: bytes) -> list[str]:
        return list(self._parse(body).sitemaps)

    def pace(self, body: bytes, agent: str) -> Mapping[str, Any]:
        delay = self._parse(body).get_crawl_delay(agent)
        return {"crawl_delay": delay}


class Gpyrobotstxt(Peer):
    """gpyrobotstxt, a Python port of Google's parser."""

    package = "gpyrobotstxt"
    dialect = "google"

    def is_allowed(self, body: bytes, agent: str, url: str) -> bool:
        from gpyrobotstxt.robots_cc import RobotsMatcher  # noqa: PLC0415

        return bool(RobotsMatcher().one_agent_allowed_by_robots(body, agent, url))


class FastRobotstxt(Peer):
    """fast-robotstxt, C++ code derived from Google's parser. It parses the robots.txt again for each decision."""

    package = "fast-robotstxt"

    def _asked(self, body: bytes, agent: str, url: str) -> tuple[bool, Any]:
        from robotstxt import RobotsMatcher  # noqa: PLC0415

        matcher = RobotsMatcher()
        return matcher.is_allowed(text(body), agent, url), matcher

    def is_allowed(self, body: bytes, agent: str, url: str) -> bool:
        return self._asked(body, agent, url)[0]

    def pace(self, body: bytes, agent: str) -> Mapping[str, Any]:
        matcher = self._asked(body, agent, "http://example.com/")[1]
        rate = matcher.request_rate
        return {
            "crawl_delay": matcher.crawl_delay,
            "request_rate": rate and list(rate),
        }


PEERS: tuple[type[Peer], ...] = (
    *(Protego, StandardLibrary, Robotspy, Rerp, Gpyrobotstxt),
    # fast-robotstxt does not provide wheels for Python 3.14 and later.
    *([FastRobotstxt] if find_spec("robotstxt") else []),
)
