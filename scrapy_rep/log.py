"""The loggers of this package: nothing that a stranger wrote leaves them unseen."""

from __future__ import annotations

import logging

from scrapy_rep.protocol.display import visible

_ITEM = "item"
"""What Scrapy calls an item in what it logs: it writes that on many lines itself."""


class _Visible(logging.Filter):
    """Makes the values in a record visible, as :func:`visible` does.

    URLs, rules, header values and errors are from servers. A line end in one would begin a
    line of its own in the log, and an escape sequence would reach the terminal.
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
    """The logger of that *name*, whose messages are visible whatever is in them."""
    found = logging.getLogger(name)
    found.addFilter(_visible)
    return found


def _shown(value: object) -> object:
    if isinstance(value, (int, float)):
        return value
    text = str(value)
    return value if text.isprintable() else visible(text)
