"""The product tokens of the crawler, by which it finds its groups in a robots.txt."""

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

# The name of the header field, as Scrapy stores it. It is in a set for isdisjoint(), which takes a tenth of the time
# of a look-up: at the gate, few requests have a User-Agent yet.
_FIELD = frozenset({b"User-Agent"})

_tokens = lru_cache(maxsize=256)(product_tokens)


class Identity:
    """Tells the product tokens of each request of a crawl. They come from ``ROBOTSTXT_USER_AGENT``; or
    from the ``User-Agent`` header of the request; or from ``USER_AGENT``, if the header names only a
    browser.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._logger = CrawlLog(__name__, crawler)
        self._agents = RepSettings.of(crawler).agents
        self._default_tokens: tuple[str, ...] | None = None
        self._has_warned = False
        # Cached, because a crawl sends few different headers.
        self._of_header = lru_cache(maxsize=256)(self._read_header)
        crawler.signals.connect(self._spider_opened, signals.spider_opened)

    @classmethod
    def of(cls, crawler: Crawler) -> Identity:
        """Return the instance that the components of a crawl share."""
        return shared_component(crawler, cls)

    def tokens(self, request: Request | None) -> tuple[str, ...]:
        """Return the product tokens of *request*, in order of preference. If *request* is None, or has no
        User-Agent, they are those of the default User-Agent.
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
        """Whether *robots* allows *url* for the requests that this package itself makes."""
        return robots.is_allowed(url, self.tokens(None))

    def _spider_opened(self) -> None:
        """Log mistakes in the settings: a User-Agent without a product token or without a contact, product
        tokens that RFC 9309 does not allow, unknown settings, and a
        ROBOTSTXT_PARSER, which has no effect.
        """
        agents = self.tokens(None)
        header = default_header(self._crawler.settings, self._crawler.spider)
        if agents and not _has_contact(header):
            self._logger.info(
                "The User-Agent %(header)r has no URL or e-mail address of yours, so the owner of a site "
                "can only block the crawler, and not contact you. Set USER_AGENT to something like "
                "'mybot/1.0 (+https://example.com/mybot)'.",
                header=header,
            )
        unusual = [agent for agent in agents if not is_rfc_token(agent)]
        if unusual:
            self._logger.warning(
                "The product token %(token)r has characters other than letters, '_' and "
                "'-', the only ones that RFC 9309 (2.2.1) allows. scrapy-rep uses the token "
                "unchanged; some sites and checkers may cut the token at such a character.",
                token=", ".join(unusual),
            )
        for name, nearest in unknown_names(self._crawler.settings):
            question = f" Did you mean {nearest}?" if nearest else ""
            self._logger.warning(
                "%(name)s is not a setting of scrapy-rep and has no effect.%(question)s",
                name=name,
                question=question,
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
    """Return the ``User-Agent`` of requests that do not set their own; empty if neither *settings* nor
    *spider* have one.
    """
    header: Any = getattr(spider, "user_agent", settings["USER_AGENT"])
    return _text(default_field(settings, "user-agent") or header)


def default_field(settings: BaseSettings, name: str) -> str | None:
    """Return the value of a header field in ``DEFAULT_REQUEST_HEADERS``; None if the field is missing.
    *name* is the name of the field in lower case.
    """
    for field, value in settings.getdict("DEFAULT_REQUEST_HEADERS").items():
        if field.lower() == name and isinstance(value, (str, bytes)):
            return _text(value)
    return None


def _has_contact(header: str) -> bool:
    """Whether the ``User-Agent`` *header* has a URL or an e-mail address of the crawler's operator. The
    URL of Scrapy, in Scrapy's default header, does not count.
    """
    return ("://" in header or "@" in header) and "://scrapy.org" not in header


def tokens_of(header: str, settings: BaseSettings) -> tuple[str, ...]:
    """Return the product tokens of a crawler that sends *header* as its ``User-Agent``. If *header* names
    only a browser, the tokens come from the setting ``USER_AGENT``.
    """
    return _tokens(header) or _tokens(_text(settings["USER_AGENT"]))


def _text(header: str | bytes | None) -> str:
    return header.decode("latin-1") if isinstance(header, bytes) else header or ""


def _unused_parser(settings: BaseSettings) -> str | None:
    """Return the import path of the parser in ``ROBOTSTXT_PARSER``, if the project has set the parser of
    another package; else None.
    """
    value = settings.get(PARSER)
    priority = settings.getpriority(PARSER) or 0
    if not value or priority <= SETTINGS_PRIORITIES["default"]:
        return None
    path = value if isinstance(value, str) else f"{value.__module__}.{value.__name__}"
    return None if path.startswith("scrapy_rep.") else path
