"""The product tokens of the crawler, which select the groups that it follows."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.settings import SETTINGS_PRIORITIES

from scrapy_rep.base.compat import shared_component
from scrapy_rep.base.log import CrawlLog
from scrapy_rep.base.settings import PARSER, USER_AGENT, RepSettings, unknown_names
from scrapy_rep.protocol.agents import is_rfc_token, product_tokens

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

    from scrapy_rep.protocol.robots import RobotsTxt
    from scrapy_rep.protocol.robotstxt.pace import Pace

# The name as Scrapy stores it. At the gate, few requests have the field yet, and isdisjoint() takes a
# tenth of the time of a look-up.
_FIELD = frozenset({b"User-Agent"})

_tokens = lru_cache(maxsize=256)(product_tokens)


class Identity:
    """The product tokens of a crawler, from ``ROBOTSTXT_USER_AGENT``, or from the ``User-Agent``
    header of each request, or from ``USER_AGENT`` where that header has none.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._logger = CrawlLog(__name__, crawler)
        self._agents = RepSettings.of(crawler).agents
        self._default_tokens: tuple[str, ...] | None = None
        self._has_warned = False
        # A crawl sends few different headers.
        self._of_header = lru_cache(maxsize=256)(self._read_header)
        crawler.signals.connect(self._spider_opened, signals.spider_opened)

    @classmethod
    def of(cls, crawler: Crawler) -> Identity:
        """Return the instance that the components of a crawl share."""
        return shared_component(crawler, cls)

    def tokens(self, request: Request | None) -> tuple[str, ...]:
        """Return the product tokens whose groups *request* follows: those of its User-Agent, or of the
        default User-Agent if it has none. None stands for a request without a User-Agent.
        """
        if self._agents:
            return self._agents
        headers = None if request is None else request.headers
        if headers is not None and not _FIELD.isdisjoint(headers):
            sent = headers.getlist("User-Agent")
            if sent:
                return self._of_header(sent[-1].decode("latin-1"))
        if self._default_tokens is None:
            assert self._crawler.spider is not None
            header = default_header(self._crawler.settings, self._crawler.spider)
            self._default_tokens = self._of_header(header)
        return self._default_tokens

    def pace(self, robots: RobotsTxt) -> Pace:
        """Return the delays and rates in *robots* for requests with the default User-Agent."""
        return robots.pace(self.tokens(None))

    def may_fetch(self, robots: RobotsTxt, url: str) -> bool:
        """Whether *robots* allows requests of this package itself for *url*."""
        return robots.is_allowed(url, self.tokens(None))

    def _spider_opened(self) -> None:
        """Warn about a User-Agent without a product token, product tokens that RFC 9309 does
        not allow, unknown settings, and a parser that is not used. Say that a User-Agent names no
        contact.
        """
        agents = self.tokens(None)
        header = default_header(self._crawler.settings, self._crawler.spider)
        if agents and not _has_contact(header):
            self._logger.info(
                "The User-Agent %(header)r has no URL or address of yours, so a site has nobody to ask "
                "before it blocks the crawler. Usual is 'mybot/1.0 (+https://example.com/mybot)'.",
                header=header,
            )
        unusual = [agent for agent in agents if not is_rfc_token(agent)]
        if unusual:
            self._logger.warning(
                "The product token %(token)r has characters other than letters, '_' and "
                "'-', the only ones that RFC 9309 (2.2.1) allows. scrapy-rep matches it "
                "unchanged; some sites and checkers may cut it at such a character.",
                token=", ".join(unusual),
            )
        for name, nearest in unknown_names(self._crawler.settings):
            meant = f" Did you mean {nearest}?" if nearest else ""
            self._logger.warning(
                "%(name)s is not a setting of scrapy-rep and has no effect.%(meant)s",
                name=name,
                meant=meant,
            )
        parser = _unused_parser(self._crawler.settings)
        if parser:
            self._logger.warning(
                "%(setting)s = %(parser)r has no effect: scrapy-rep parses robots.txt with "
                "its own parser. Remove the setting, or use Scrapy's RobotsTxtMiddleware.",
                setting=PARSER,
                parser=parser,
            )

    def _read_header(self, header: str) -> tuple[str, ...]:
        tokens = tokens_of(header, self._crawler.settings)
        if not tokens and not self._has_warned:
            self._has_warned = True
            self._logger.warning(
                "Neither the User-Agent %(header)r nor USER_AGENT says which crawler this is, so the "
                "crawl follows only the groups for all crawlers (*). Set %(setting)s to the name "
                "of your crawler, and include that name in USER_AGENT.",
                header=header,
                setting=USER_AGENT,
            )
        return tokens


def default_header(
    settings: BaseSettings, spider: Spider | type[Spider] | None = None
) -> str:
    """Return the default ``User-Agent`` of requests; empty if neither settings nor spider have one."""
    header: Any = getattr(spider, "user_agent", settings["USER_AGENT"])
    return _text(default_field(settings, "user-agent") or header)


def default_field(settings: BaseSettings, name: str) -> str | None:
    """Return the value in ``DEFAULT_REQUEST_HEADERS`` of the field *name*, which is in lower case; None
    if there is no such field.
    """
    for field, value in settings.getdict("DEFAULT_REQUEST_HEADERS").items():
        if field.lower() == name and isinstance(value, (str, bytes)):
            return _text(value)
    return None


def _has_contact(header: str) -> bool:
    """Whether *header* has a URL or an address of the crawler's operator. The URL of Scrapy, in its
    default header, is none.
    """
    return ("://" in header or "@" in header) and "://scrapy.org" not in header


def tokens_of(header: str, settings: BaseSettings) -> tuple[str, ...]:
    """Return the product tokens of a crawler that sends *header* as its ``User-Agent``: those of
    *header*, or of the setting ``USER_AGENT`` if *header* has none, as that of a browser.
    """
    return _tokens(header) or _tokens(_text(settings["USER_AGENT"]))


def _text(header: str | bytes | None) -> str:
    return header.decode("latin-1") if isinstance(header, bytes) else header or ""


def _unused_parser(settings: BaseSettings) -> str | None:
    """Return the import path in ``ROBOTSTXT_PARSER``, if it is not that of this package's parser."""
    value = settings.get(PARSER)
    priority = settings.getpriority(PARSER) or 0
    if not value or priority <= SETTINGS_PRIORITIES["default"]:
        return None
    path = value if isinstance(value, str) else f"{value.__module__}.{value.__name__}"
    return None if path.startswith("scrapy_rep.") else path
