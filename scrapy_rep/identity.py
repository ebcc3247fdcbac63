"""Who the crawler says it is, and so whose rules it follows."""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import TYPE_CHECKING

from scrapy import signals
from scrapy.settings import SETTINGS_PRIORITIES

from scrapy_rep.compat import shared_component
from scrapy_rep.protocol.agents import is_rfc_token, product_tokens
from scrapy_rep.settings import PARSER, USER_AGENT, RepSettings

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

_tokens = lru_cache(maxsize=256)(product_tokens)


class Identity:
    """The product tokens of a crawler: those of ``ROBOTSTXT_USER_AGENT``, or else those
    in the ``User-Agent`` header of each request.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._agents = RepSettings.from_settings(crawler.settings).agents
        self._usual: tuple[str, ...] | None = None
        self._has_warned = False
        crawler.signals.connect(self._spider_opened, signals.spider_opened)

    @classmethod
    def of(cls, crawler: Crawler) -> Identity:
        """The one that the components of a crawl share."""
        return shared_component(crawler, cls)

    def usual_tokens(self) -> tuple[str, ...]:
        """The product tokens to follow for requests that bring no User-Agent header."""
        if self._usual is None:
            assert self._crawler.spider is not None
            _, self._usual = self.introduced(self._crawler.spider)
        return self._usual

    def tokens(self, request: Request) -> tuple[str, ...]:
        """The product tokens to follow for *request*, as it will be sent."""
        return self._agents or self._of_header(request.headers.get(b"User-Agent"))

    def introduced(self, spider: Spider) -> tuple[str, tuple[str, ...]]:
        """The User-Agent header, as the settings have it, and the tokens to follow."""
        header = self._default_header(spider) or ""
        written = header if isinstance(header, str) else header.decode("latin-1")
        return written, self._agents or self._of_header(header)

    def _spider_opened(self, spider: Spider) -> None:
        """Say at the start, not at the first request, if nobody can tell who crawls, or
        if sites may not know the name.
        """
        agents = self._agents or self._of_header(self._default_header(spider))
        unusual = [agent for agent in agents if not is_rfc_token(agent)]
        if unusual:
            logger.warning(
                "The product token %(token)r has other characters than letters, '_' and "
                "'-', the only ones that RFC 9309 knows (2.2.1). It is followed as it is; "
                "some sites and checkers may cut it.",
                {"token": ", ".join(unusual)},
                extra={"spider": spider},
            )
        parser = _unused_parser(self._crawler.settings)
        if parser:
            logger.warning(
                "%(setting)s = %(parser)r is not used: scrapy-rep reads robots.txt itself. "
                "Leave it out, or use Scrapy's own middleware for robots.txt.",
                {"setting": PARSER, "parser": parser},
                extra={"spider": spider},
            )

    def _default_header(self, spider: Spider) -> str | bytes | None:
        return default_header(self._crawler.settings, spider)

    def _of_header(self, header: str | bytes | None) -> tuple[str, ...]:
        header = header or ""
        found = _tokens(header if isinstance(header, str) else header.decode("latin-1"))
        if not found and not self._has_warned:
            self._has_warned = True
            logger.warning(
                "The User-Agent %(header)r does not say which crawler this is, so only "
                "the rules for everyone (*) are followed. Set %(setting)s to the name "
                "of your crawler, and let USER_AGENT contain it.",
                {"header": header, "setting": USER_AGENT},
                extra={"spider": self._crawler.spider},
            )
        return found


def default_header(
    settings: BaseSettings, spider: Spider | None = None
) -> str | bytes | None:
    """The ``User-Agent`` of requests that bring none of their own."""
    for name, value in settings.getdict("DEFAULT_REQUEST_HEADERS").items():
        if name.lower() == "user-agent" and isinstance(value, (str, bytes)):
            return value
    header: str | None = getattr(spider, "user_agent", settings["USER_AGENT"])
    return header


def _unused_parser(settings: BaseSettings) -> str | None:
    """What the project sets ``ROBOTSTXT_PARSER`` to, if that is not this package: its
    components read robots.txt themselves.
    """
    value = settings.get(PARSER)
    priority = settings.getpriority(PARSER) or 0
    if not value or priority <= SETTINGS_PRIORITIES["default"]:
        return None
    path = value if isinstance(value, str) else f"{value.__module__}.{value.__name__}"
    return None if path.startswith("scrapy_rep.") else path
