"""Determines the crawler's product tokens, which select the groups of a robots.txt that the crawler follows."""

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

# The name of the User-Agent header, as Scrapy stores it. Few requests have this header when RobotsTxtMiddleware gets
# them. _FIELD.isdisjoint(headers) is True if a request does not have the header. This is ten times as fast as
# headers.get("User-Agent").
_FIELD = frozenset({b"User-Agent"})

_tokens = lru_cache(maxsize=256)(product_tokens)


class Identity:
    """Determines the crawler's product tokens for each request. The setting ``ROBOTSTXT_USER_AGENT`` takes
    precedence. Without it, the tokens are those in the request's ``User-Agent`` header or, if the header
    names only a browser, those in the setting ``USER_AGENT``.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._logger = CrawlLog(__name__, crawler)
        self._agents = RepSettings.of(crawler).agents
        self._default_tokens: tuple[str, ...] | None = None
        self._has_warned = False
        # Cached, because a crawl uses few different User-Agent headers.
        self._of_header = lru_cache(maxsize=256)(self._read_header)
        crawler.signals.connect(self._spider_opened, signals.spider_opened)

    @classmethod
    def of(cls, crawler: Crawler) -> Identity:
        """Return the instance that the components of a crawl share."""
        return shared_component(crawler, cls)

    def tokens(self, request: Request | None) -> tuple[str, ...]:
        """Return the crawler's product tokens for *request*, in order of preference. The setting
        ``ROBOTSTXT_USER_AGENT``, if set, decides for all requests. Otherwise, the ``User-Agent`` header of *request*
        decides or, if *request* is None or has no such header, the crawl's default User-Agent.
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
        """Return the crawl delay and request rate that *robots* states for the crawler. The result applies to all
        requests of the crawl, whatever their ``User-Agent`` headers are.
        """
        return robots.pace(self.tokens(None))

    def may_fetch(self, robots: RobotsTxt, url: str) -> bool:
        """Whether *robots* allows *url* for this package's own requests, such as those for tdmrep.json."""
        return robots.is_allowed(url, self.tokens(None))

    def _spider_opened(self) -> None:
        """Log mistakes in the settings: a User-Agent without a product token or a contact, product tokens that
        RFC 9309 does not allow, unknown ``REP_`` settings, and a ROBOTSTXT_PARSER, which has no effect.
        """
        agents = self.tokens(None)
        header = default_header(self._crawler.settings, self._crawler.spider)
        if agents and not _has_contact(header):
            self._logger.info(
                "The User-Agent %(header)r does not contain your URL or e-mail address, so site owners "
                "cannot contact you, and can only block the crawler. Set USER_AGENT to something like "
                "'mybot/1.0 (+https://example.com/mybot)'.",
                header=header,
            )
        unusual = [agent for agent in agents if not is_rfc_token(agent)]
        if unusual:
            self._logger.warning(
                "Product tokens of this crawler contain characters other than letters, '_' and '-': %(tokens)s. "
                "RFC 9309 (2.2.1) allows only these characters. scrapy-rep uses each token unchanged, but some "
                "sites and checkers may cut a token at the first other character. To avoid this, use only "
                "letters, '_' and '-' in product tokens.",
                tokens=", ".join(map(repr, unusual)),
            )
        for name, nearest in unknown_names(self._crawler.settings):
            question = (
                f" Did you mean {nearest}?"
                if nearest
                else " Correct its name, or remove it."
            )
            self._logger.warning(
                "%(name)s is not a setting of scrapy-rep and has no effect.%(question)s",
                name=name,
                question=question,
            )
        parser = _unused_parser(self._crawler.settings)
        if parser:
            self._logger.warning(
                "%(setting)s = %(parser)r has no effect, because scrapy-rep parses robots.txt with "
                "its own parser. Remove the setting; or, to use that parser in Scrapy's RobotsTxtMiddleware, "
                "remove scrapy_rep.Addon from ADDONS.",
                setting=PARSER,
                parser=parser,
            )

    def _read_header(self, header: str) -> tuple[str, ...]:
        tokens = tokens_of(header, self._crawler.settings)
        if not tokens and not self._has_warned:
            self._has_warned = True
            self._logger.warning(
                "Neither the User-Agent %(header)r nor the setting USER_AGENT contains the name of your "
                "crawler, so the crawl follows only the robots.txt groups for all crawlers (*). Set "
                "%(setting)s to the crawler's name, such as 'mybot', and begin USER_AGENT with the same name.",
                header=header,
                setting=USER_AGENT,
            )
        return tokens


def default_header(
    settings: BaseSettings, spider: Spider | type[Spider] | None = None
) -> str:
    """Return the ``User-Agent`` header of requests that do not set the header themselves. Return an empty string
    if neither *settings* nor *spider* define a User-Agent.
    """
    header: Any = getattr(spider, "user_agent", settings["USER_AGENT"])
    return _text(default_field(settings, "user-agent") or header)


def default_field(settings: BaseSettings, name: str) -> str | None:
    """Return the value of a header field in ``DEFAULT_REQUEST_HEADERS``, or None if the field is missing. *name* is
    the name of the field, written in lower case.
    """
    for field, value in settings.getdict("DEFAULT_REQUEST_HEADERS").items():
        if field.lower() == name and isinstance(value, (str, bytes)):
            return _text(value)
    return None


def _has_contact(header: str) -> bool:
    """Whether the ``User-Agent`` *header* contains a URL or an e-mail address of the crawler's operator.
    Scrapy's own URL, which Scrapy's default header contains, does not count.
    """
    return ("://" in header or "@" in header) and "://scrapy.org" not in header


def tokens_of(header: str, settings: BaseSettings) -> tuple[str, ...]:
    """Return the product tokens in the ``User-Agent`` *header*. If *header* names only a browser, return the
    product tokens in the setting ``USER_AGENT``. Return an empty tuple if neither contains a product token.
    """
    return _tokens(header) or _tokens(_text(settings["USER_AGENT"]))


def _text(header: str | bytes | None) -> str:
    return header.decode("latin-1") if isinstance(header, bytes) else header or ""


def _unused_parser(settings: BaseSettings) -> str | None:
    """Return the import path of the parser in ``ROBOTSTXT_PARSER``. Return None if the project did not change this
    setting, or if the parser is from this package.
    """
    value = settings.get(PARSER)
    priority = settings.getpriority(PARSER) or 0
    if not value or priority <= SETTINGS_PRIORITIES["default"]:
        return None
    path = value if isinstance(value, str) else f"{value.__module__}.{value.__name__}"
    return None if path.startswith("scrapy_rep.") else path
