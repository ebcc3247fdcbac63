"""Log messages and exceptions escape control characters from servers."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
from scrapy import Request

from scrapy_rep import exceptions
from scrapy_rep.log import get_logger
from scrapy_rep.protocol.indexing.rules import IndexingRules
from scrapy_rep.protocol.robots import RobotsTxt
from scrapy_rep.protocol.usage.preferences import UsagePreferences

if TYPE_CHECKING:
    from collections.abc import Callable

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
def test_values_are_visible(
    message: str, values: object, shown: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Control characters in the values of a log message are escaped, and passwords in URLs
    masked, except for items, which Scrapy formats on several lines.
    """
    logger = get_logger("scrapy_rep.tests")
    assert get_logger("scrapy_rep.tests") is logger
    assert len(logger.filters) == 1
    with caplog.at_level(logging.DEBUG):
        logger.debug(message, *(values if isinstance(values, tuple) else (values,)))
    assert caplog.messages == [shown]


ROBOTS = RobotsTxt.parse(f"User-agent: *\nDisallow: {EVIL[:-5]}".encode())
DENIAL = UsagePreferences.parse([("tdm-reservation", b"1")]).denial(["tdm"])
RULES = IndexingRules.parse([b"unavailable_after: 1\x1cJan\x1f2010"])

ERRORS: dict[str, Callable[[], BaseException]] = {
    "RobotsDenied": lambda: exceptions.RobotsDenied(
        ROBOTS.decide("http://a.example/%1B%5B31m%C2%85%E2%80%A8%E2%80%AE", "bot"),
        "http://a.example/robots.txt",
    ),
    "RobotsDenied, unreachable": lambda: exceptions.RobotsDenied(
        RobotsTxt.blanket(allowed=False, reason="unreachable").decide("http://a/", "b"),
        "http://a.example/robots.txt",
        EVIL,
    ),
    "IndexingDenied": lambda: exceptions.IndexingDenied(EVIL, RULES),
    "ItemDenied": lambda: exceptions.ItemDenied(EVIL, "unavailable_after", RULES),
    "UsageDenied": lambda: exceptions.UsageDenied(EVIL, DENIAL),
    "MediaUsageDenied": lambda: exceptions.MediaUsageDenied(EVIL, DENIAL),
    "StoreError": lambda: exceptions.StoreError("a.sqlite", EVIL),
    "LedgerError": lambda: exceptions.LedgerError(EVIL, "it is none"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_messages_are_visible(name: str) -> None:
    """Control characters in the messages of exceptions are escaped,
    since they are logged too.
    """
    message = str(ERRORS[name]())
    assert message.isprintable()
    assert "\\x1" in message
