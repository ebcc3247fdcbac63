"""A parser for Scrapy's own robots.txt middleware:

``ROBOTSTXT_PARSER = "scrapy_rep.RobotParser"``
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from scrapy.robotstxt import RobotParser as BaseRobotParser
from scrapy.utils.python import to_unicode

from scrapy_rep.base.settings import RepSettings
from scrapy_rep.protocol.agents import product_tokens
from scrapy_rep.protocol.dialect import RFC9309
from scrapy_rep.protocol.request_target import is_allowed
from scrapy_rep.protocol.robots import RobotsTxt

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

_tokens = lru_cache(maxsize=64)(product_tokens)


class RobotParser(BaseRobotParser):
    """This package's robots.txt parser, with the interface of Scrapy's parsers."""

    def __init__(
        self, robots: RobotsTxt, clients: frozenset[str] = frozenset()
    ) -> None:
        self.robots = robots
        self._clients = clients

    @classmethod
    def from_crawler(
        cls, crawler: Crawler | None, robotstxt_body: bytes
    ) -> RobotParser:
        """Parse *robotstxt_body* in the dialect of the settings, or in RFC 9309."""
        dialect, clients = RFC9309, frozenset[str]()
        if crawler is not None:
            settings = RepSettings.of(crawler)
            dialect, clients = settings.dialect, settings.clients
        return cls(RobotsTxt.parse(robotstxt_body, dialect), clients)

    def allowed(self, url: str | bytes, user_agent: str | bytes) -> bool:
        """Whether *user_agent*, a product token or a ``User-Agent`` header, may fetch *url*."""
        return is_allowed(
            self.robots,
            to_unicode(url),
            _tokens(to_unicode(user_agent)),
            self._clients,
        )

    def crawl_delay(self, user_agent: str | bytes) -> float | None:
        """Return the ``Crawl-delay`` for *user_agent* in seconds, or None."""
        return self.robots.crawl_delay(_tokens(to_unicode(user_agent)))
