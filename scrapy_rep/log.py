"""The loggers of this package, which escape control characters in what servers sent."""

from __future__ import annotations

import logging

from scrapy_rep.protocol.display import visible

_ITEM = "item"
"""The name of an item in log records: not escaped, as Scrapy writes it on several lines."""


class _Visible(logging.Filter):
    """Escapes control characters in the values of a record, with :func:`visible`.

    URLs, rules, header values and errors come from servers. A line end in a value could
    forge a line of the log, and an escape sequence would reach the terminal.
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


def get_logger(name: str) -> logging.Logger:
    """The logger *name*, which escapes control characters in the values that it logs."""
    found = logging.getLogger(name)
    found.addFilter(_visible)
    return found


def _shown(value: object) -> object:
    if isinstance(value, (int, float)):
        return value
    text = str(value)
    return value if text.isprintable() else visible(text)
