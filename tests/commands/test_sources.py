"""Where commands get the robots.txt of an origin from."""

from __future__ import annotations

import asyncio

import pytest

from scrapy_rep.commands.shared.robotstxt import LoadedRobotsTxt, describe_access
from scrapy_rep.commands.shared.sources import finish
from scrapy_rep.protocol.access.results import AccessResult
from scrapy_rep.protocol.dialect import RFC9309


def test_finish() -> None:
    """``finish`` returns the result of a coroutine that does not wait, and raises for others."""

    async def at_once() -> int:
        return 1

    async def later() -> None:
        await asyncio.sleep(0)

    assert finish(at_once()) == 1
    with pytest.raises(RuntimeError, match="was suspended"):
        finish(later())


def test_access_in_words() -> None:
    """The description of a fetch has the redirect target, and says if the file is HTML."""
    result = AccessResult(
        url="https://a.example/robots.txt",
        status=200,
        body=b"<!doctype html>",
        headers=(("content-type", "text/html"),),
        redirects=("https://b.example/robots.txt",),
    )
    words = describe_access(LoadedRobotsTxt.of_result(result, RFC9309))
    assert words.startswith("successful")
    assert "https://b.example/robots.txt" in words
    assert "HTML" in words
