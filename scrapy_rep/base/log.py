"""The loggers of this package, which escape control characters and mask passwords."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from scrapy_rep.protocol.text import visible, without_credentials

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    _Adapter = logging.LoggerAdapter[logging.Logger]
else:  # In Python 3.10, LoggerAdapter takes no type parameter.
    _Adapter = logging.LoggerAdapter

_ITEM = "item"
"""The name under which a message has an item as a value. Items are logged unchanged, on several lines, as
Scrapy logs them."""


class _Visible(logging.Filter):
    """Escapes control characters in the values of a log record, with :func:`visible`, and masks
    the user names and passwords of URLs, with :func:`without_credentials`.

    URLs, rules, header values and errors come from servers. A line end in such a value could
    forge a line of the log, and an escape sequence would reach the terminal. Passwords are masked
    because more people read a log than may know the passwords of a crawl.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        values = record.args
        if isinstance(values, dict):
            record.args = {
                name: value if name == _ITEM else _shown(value)
                for name, value in values.items()
            }
        elif values:
            record.args = tuple(map(_shown, values))
        return True


_visible = _Visible()


class CrawlLog(_Adapter):
    """The logger of a module for one crawl. Its log records have the attribute ``spider``, as those of
    Scrapy. Keyword arguments are the values of the message: ``logger.info("%(url)s is back", url=url)``.
    """

    def __init__(self, name: str, crawler: Crawler) -> None:
        super().__init__(get_logger(name), {})
        self._crawler = crawler

    def log(
        self,
        level: int,
        msg: object,
        *args: object,
        exc_info: Any = None,
        **values: Any,
    ) -> None:
        """Log *msg* with *values*. All other methods call this method."""
        self.logger.log(
            level,
            msg,
            *args,
            *([values] if values else []),
            exc_info=exc_info,
            extra={"spider": self._crawler.spider},
            stacklevel=2,
        )

    def at_end(self, level: int, msg: str, **values: Any) -> None:
        """Log a line of the summary at the end of a crawl. The line begins with the name of the spider,
        since several crawls may write to the same log.
        """
        spider = self._crawler.spider
        assert spider is not None
        self.log(level, f"[%(spider)s] {msg}", spider=spider.name, **values)


def get_logger(name: str) -> logging.Logger:
    """Return the logger *name*. It escapes control characters, and masks passwords, in the values of its
    messages.
    """
    logger = logging.getLogger(name)
    logger.addFilter(_visible)
    return logger


def _shown(value: object) -> object:
    if isinstance(value, (int, float)):
        return value
    text = str(value)
    if "@" in text:
        return visible(without_credentials(text))
    return value if text.isprintable() else visible(text)
