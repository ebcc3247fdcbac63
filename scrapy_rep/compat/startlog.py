"""One sentence in the log where a wrong setting stops the start, and no traceback.

Scrapy leaves an exception at the start to asyncio or to Twisted, which log it with all the
calls that led to it. Those say nothing about a setting that its message does not.
"""

from __future__ import annotations

import logging

from twisted.logger import globalLogBeginner

from scrapy_rep.exceptions import LedgerError, SettingError

_SENTENCES = (SettingError, LedgerError)

_PREAMBLE = "Unhandled error in Deferred:"
"""What Twisted logs before the error itself."""

_AFTERMATH = "Unclosed client session"
"""How aiohttp begins what it logs of the session that Scrapy has opened before the error."""


class _OneSentence(logging.Filter):
    """Takes the traceback from what is logged of an error that is a sentence."""

    is_expecting = False
    """Whether such an error was raised, and has not been logged yet."""

    has_stopped = False
    """Whether such an error was raised."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if not isinstance(error, _SENTENCES):
            message = record.getMessage()
            is_preamble = self.is_expecting and message == _PREAMBLE
            is_aftermath = self.has_stopped and message.startswith(_AFTERMATH)
            return not (is_preamble or is_aftermath)
        self.is_expecting = False
        record.msg, record.args, record.exc_info = str(error), (), None
        record.name = "scrapy_rep"
        return True


_one_sentence = _OneSentence()


def say_in_one_sentence() -> None:
    """Have the log show the message alone of an error that is about to stop the start."""
    _one_sentence.is_expecting = _one_sentence.has_stopped = True
    for name in ("asyncio", "twisted"):
        logging.getLogger(name).addFilter(_one_sentence)
    # Until somebody begins logging, Twisted writes errors to standard error besides.
    if getattr(globalLogBeginner, "_temporaryObserver", None) is not None:
        globalLogBeginner.beginLoggingTo(
            [], discardBuffer=True, redirectStandardIO=False
        )
