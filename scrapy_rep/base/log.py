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
"""The name under which an item is passed to a log message, as in ``%(item)s``. Items are logged unchanged, on
several lines, as Scrapy logs them."""


class _Visible(logging.Filter):
    """Escapes control characters in the values of a log record, and masks user names and passwords in URLs.

    URLs, rules, header values and errors contain text from servers. A line break in this text could forge a
    log line, and an escape sequence could control the terminal. Passwords are masked because more people
    read a log than may know the passwords.
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
    """The logger of a module for one crawl. Its log records have the attribute ``spider``, like Scrapy's log
    records. Keyword arguments are the values of the message: ``logger.info("%(url)s is back", url=url)``.
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
        """Log *msg* at *level*. The methods for single levels, such as ``info``, call this method.

        The keyword arguments *values* replace the placeholders with these names in *msg*, such as ``%(url)s``. Without
        keyword arguments, *args* replace placeholders without names, such as ``%s``.
        """
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
        """Log one line of the summary that ends a crawl's log. The line begins with the spider's name,
        because several crawls may write to the same log.
        """
        spider = self._crawler.spider
        assert spider is not None
        self.log(level, f"[%(spider)s] {msg}", spider=spider.name, **values)


def get_logger(name: str) -> logging.Logger:
    """Return the logger *name*. This logger escapes control characters in the values of its messages, and masks
    user names and passwords in URLs.
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
