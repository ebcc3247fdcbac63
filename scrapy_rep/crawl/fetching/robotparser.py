"""The robots.txt parser of this package, for use in Scrapy's own RobotsTxtMiddleware. A project without the add-on
enables the parser with the setting ``ROBOTSTXT_PARSER = "scrapy_rep.RobotParser"``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.robotstxt import RobotParser as BaseRobotParser
from scrapy.utils.python import to_unicode

from scrapy_rep.base.settings import RepSettings
from scrapy_rep.protocol.agents import product_tokens
from scrapy_rep.protocol.dialect import RFC9309
from scrapy_rep.protocol.request_target import TWISTED, is_allowed
from scrapy_rep.protocol.robots import RobotsTxt
from scrapy_rep.protocol.robotstxt.groups import sitemap_urls
from scrapy_rep.protocol.robotstxt.lines import lines
from scrapy_rep.protocol.text import SITEMAP

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

_ANY_BASE = "http://host.invalid/robots.txt"
"""If the URL of the robots.txt is unknown, relative sitemap URLs are resolved against this URL, to check whether they
are valid."""


class RobotParser(BaseRobotParser):
    """The robots.txt parser of this package, with the interface of Scrapy's robots.txt parsers."""

    def __init__(
        self, robots: RobotsTxt, clients: frozenset[str] = frozenset({TWISTED})
    ) -> None:
        self.robots = robots
        self._clients = clients

    @classmethod
    def from_crawler(
        cls, crawler: Crawler | None, robotstxt_body: bytes
    ) -> RobotParser:
        """Return a parser for *robotstxt_body*, the content of a robots.txt. The setting ``REP_DIALECT`` of *crawler*
        selects the dialect. If *crawler* is None, the dialect is that of RFC 9309.
        """
        dialect, clients = RFC9309, frozenset({TWISTED})
        if crawler is not None:
            settings = RepSettings.of(crawler)
            dialect, clients = settings.dialect, settings.clients
        return cls(RobotsTxt.parse(robotstxt_body, dialect), clients)

    def allowed(self, url: str | bytes, user_agent: str | bytes) -> bool:
        """Return whether *user_agent*, a product token or a ``User-Agent`` header, may fetch *url*."""
        return is_allowed(
            self.robots,
            to_unicode(url),
            product_tokens(to_unicode(user_agent)),
            self._clients,
        )

    def crawl_delay(self, user_agent: str | bytes) -> float | None:
        """Return the ``Crawl-delay`` in seconds for *user_agent*, a product token or a ``User-Agent`` header. Return
        None if robots.txt states no ``Crawl-delay`` for *user_agent*.
        """
        return self.robots.crawl_delay(product_tokens(to_unicode(user_agent)))

    def sitemaps(self) -> list[str]:
        """Return the URLs of the sitemaps that robots.txt lists, in file order, without duplicates.

        With the add-on, all returned URLs are absolute. Without the add-on, relative URLs are returned as written,
        since Scrapy's own middleware does not pass the URL of the robots.txt to the parser. To make them absolute, use
        ``response.urljoin()``.
        """
        robots = self.robots
        if robots.url is not None:
            return list(robots.sitemaps)
        written = (
            line.value.decode("utf-8", "replace")
            for line in lines(robots.body, robots.dialect)
            if line.field == SITEMAP and any(sitemap_urls([line], _ANY_BASE))
        )
        return list(dict.fromkeys(written))
