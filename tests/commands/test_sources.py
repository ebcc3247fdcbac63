"""Where commands get the robots.txt of an origin from."""

from __future__ import annotations

import asyncio

import pytest
from scrapy.settings import Settings

from scrapy_rep.commands.profile import Profile
from scrapy_rep.commands.sources import access_words, of_result
from scrapy_rep.commands.web import ask
from scrapy_rep.protocol.access.results import AccessResult
from scrapy_rep.settings import RepSettings


def test_offline() -> None:
    """A job that needs no web runs without a crawl, and must not wait."""

    async def at_once(web: object) -> int:
        return 1

    async def later(web: object) -> None:
        await asyncio.sleep(0)

    settings = Settings()
    profile = Profile(settings, RepSettings.from_settings(settings), ("mybot",))
    assert ask(profile, at_once, offline=True) == 1
    with pytest.raises(RuntimeError, match="was suspended"):
        ask(profile, later, offline=True)


def test_access_in_words() -> None:
    """The description of a fetch has the redirect target, and says if the file is HTML."""
    result = AccessResult(
        url="https://a.example/robots.txt",
        status=200,
        body=b"<!doctype html>",
        headers=(("content-type", "text/html"),),
        redirects=("https://b.example/robots.txt",),
    )
    words = access_words(of_result(result).access)
    assert words.startswith("successful")
    assert "https://b.example/robots.txt" in words
    assert "HTML" in words
