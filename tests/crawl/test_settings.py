"""A setting that can't be meant stops the start, with one sentence that says what can."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.crawl.crawl import ADDON, BY_HAND, run_crawl

if TYPE_CHECKING:
    from tests.crawl.server import Site

pytestmark = [pytest.mark.newest, pytest.mark.unmeasured]

BAD = [
    ("REP_DIALECT", "gogle", ("rfc9309", "google", "classic")),
    ("REP_DOWNLOAD_TIMEOUT", -1, ("number",)),
    ("REP_DOWNLOAD_TIMEOUT", "soon", ("number",)),
    ("REP_OVERRIDES", {"x": "ignor"}, ("obey", "ignore")),
    ("REP_RETRY_TIMES", -1, ("number",)),
    ("ROBOTSTXT_USER_AGENT", "Bot 1", ("letters", "'Bot'")),
]


@pytest.mark.parametrize(("name", "value", "allowed"), BAD)
def test_with_the_add_on(
    site: Site, name: str, value: object, allowed: tuple[str, ...]
) -> None:
    """The process fails before it asks for anything, and names setting, value and what is allowed."""
    check(site, ADDON, name, value, allowed)


@pytest.mark.parametrize(("name", "value", "allowed"), BAD[:1])
def test_by_hand(
    site: Site, name: str, value: object, allowed: tuple[str, ...]
) -> None:
    """The same without the add-on."""
    check(site, BY_HAND, name, value, allowed)


@pytest.mark.parametrize("mode", ["select", "reactorless"], indirect=True)
def test_in_other_modes(site: Site, mode: str) -> None:
    """The same in each mode."""
    name, value, allowed = BAD[0]
    check(site, ADDON, name, value, allowed, mode)


def check(  # noqa: PLR0917
    site: Site,
    enable: dict[str, object],
    name: str,
    value: object,
    allowed: tuple[str, ...],
    mode: str = "asyncio",
) -> None:
    host = site.add()
    result = run_crawl(
        [host.url("/public")], enable=enable, settings={name: value}, mode=mode
    )
    assert result.exit_code != 0
    assert host.hits == []
    sentences = [
        line
        for line in result.log.splitlines()
        if all(word in line for word in (f"{name} is {value!r}", *allowed))
    ]
    assert sentences, result.log


def test_good_values_start(site: Site) -> None:
    """The extremes that are allowed are allowed, and settings may come as text."""
    host = site.add()
    settings = {
        "REP_DIALECT": "scrapy_rep.CLASSIC",
        "REP_DOWNLOAD_TIMEOUT": "0.5",
        "REP_GOOGLE_COMPATIBLE": "False",
        "REP_OVERRIDES": '{"*.example.com": "ignore", "[::1]:8080": "obey"}',
        "REP_REQUEST_META_KEYS": "download_slot,session",
        "REP_RETRY_TIMES": 0,
        "ROBOTSTXT_USER_AGENT": ["one-bot", "Other_Bot"],
    }
    result = run_crawl([host.url("/public")], settings=settings)
    assert result.exit_code == 0
    assert host.pages == ["/public"]
