"""Tests that control characters from servers are escaped in log messages and exceptions."""

from __future__ import annotations

import logging

import pytest
from scrapy import Request

from scrapy_rep.base.log import get_logger
from scrapy_rep.exceptions import (
    FileDenied,
    ItemDenied,
    JobError,
    LedgerError,
    RobotsDenied,
    StoreError,
    UsageDenied,
)

pytestmark = pytest.mark.newest

EVIL = "/\x1b[31m\x85\u2028\u202e\nFAKE"
SHOWN = r"/\x1b[31m\x85\u2028\u202e\nFAKE"


@pytest.mark.parametrize(
    ("message", "values", "shown"),
    [
        ("%(url)s", {"url": EVIL}, SHOWN),
        ("%s", (EVIL,), SHOWN),
        ("%s: %d of %g", (ValueError(EVIL), 2, 0.5), f"{SHOWN}: 2 of 0.5"),
        ("%(count)d", {"count": 3}, "3"),
        (
            "%s",
            (Request("http://me:word@a.example/b@c"),),
            "<GET http://***@a.example/b@c>",
        ),
        ("%(name)r", {"name": "a\\b"}, r"'a\\b'"),
        ("no values: 100 %", (), "no values: 100 %"),
        ("%(item)s", {"item": "of\nmany lines"}, "of\nmany lines"),
    ],
)
def test_control_characters_in_values_are_escaped(
    message: str, values: object, shown: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Passwords in URLs are masked. Items are not changed, because Scrapy formats them on several lines."""
    logger = get_logger("scrapy_rep.tests")
    assert get_logger("scrapy_rep.tests") is logger
    assert len(logger.filters) == 1
    with caplog.at_level(logging.DEBUG):
        logger.debug(message, *(values if isinstance(values, tuple) else (values,)))
    assert caplog.messages == [shown]


@pytest.mark.parametrize(
    "error",
    [
        RobotsDenied(EVIL, None),
        FileDenied(EVIL, None),
        ItemDenied(EVIL, None),
        UsageDenied(EVIL, None),
        StoreError("a.sqlite", EVIL),
        LedgerError(EVIL, "it is none"),
        JobError.unusable(EVIL, "it is none"),
        JobError.in_use(EVIL),
    ],
)
def test_control_characters_in_exceptions_are_escaped(error: Exception) -> None:
    """Exceptions may be logged, too."""
    assert str(error).isprintable()
    assert "\\x1" in str(error)
