"""Removes the traceback from the log when an invalid setting stops Scrapy at the start.

asyncio or Twisted logs an exception at the start with its traceback. For an invalid setting
the message says all that the user needs.
"""

from __future__ import annotations

import logging

from twisted.logger import globalLogBeginner

from scrapy_rep.exceptions import LedgerError, SettingError

_WITHOUT_TRACEBACK = (SettingError, LedgerError)

_PREAMBLE = "Unhandled error in Deferred:"
"""What Twisted logs before the error itself."""

_AFTERMATH = "Unclosed client session"
"""The start of what aiohttp logs about the session that Scrapy opened before the error."""


class _TracebackFilter(logging.Filter):
    """Logs these errors without a traceback, and removes what Twisted and aiohttp add."""

    is_expecting = False
    """Whether such an error was raised, and not logged yet."""

    has_stopped = False
    """Whether such an error was raised."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if not isinstance(error, _WITHOUT_TRACEBACK):
            message = record.getMessage()
            is_preamble = self.is_expecting and message == _PREAMBLE
            is_aftermath = self.has_stopped and message.startswith(_AFTERMATH)
            return not (is_preamble or is_aftermath)
        self.is_expecting = False
        record.msg, record.args, record.exc_info = str(error), (), None
        record.name = "scrapy_rep"
        return True


_filter = _TracebackFilter()


def log_without_traceback() -> None:
    """Have only the message logged of an error that is about to stop Scrapy at the start."""
    _filter.is_expecting = _filter.has_stopped = True
    for name in ("asyncio", "twisted"):
        logging.getLogger(name).addFilter(_filter)
    # Until logging has begun, Twisted writes errors to standard error too.
    if getattr(globalLogBeginner, "_temporaryObserver", None) is not None:
        globalLogBeginner.beginLoggingTo(
            [], discardBuffer=True, redirectStandardIO=False
        )
