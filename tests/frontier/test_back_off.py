"""``back_off`` checks its arguments, and does nothing in a crawl that does not back off."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import pytest

from scrapy_rep import back_off
from scrapy_rep.crawl.frontier.frontier import Frontier
from tests.fakes import fake_crawler

pytestmark = pytest.mark.newest


@pytest.mark.parametrize("value", [-1, inf, nan])
@pytest.mark.parametrize("name", ["delay", "cap"])
def test_what_is_no_number_of_seconds(name: str, value: float) -> None:
    """A delay or cap that is no number of seconds raises ValueError, which names it."""
    with pytest.raises(ValueError, match=f"^{name} must be a number of seconds"):
        back_off(fake_crawler({}, {}), "shop.example", **{name: value})


@pytest.mark.parametrize(
    ("named", "key"),
    [
        ("shop.example", "shop.example"), ("SHOP.example.", "shop.example"),
        ("shop.example:8080", "shop.example"), ("https://me@shop.example:8080/a?b", "shop.example"),
        ("::1", "[::1]"), ("[::1]", "[::1]"), ("[::1]:80", "[::1]"), ("http://[::1]:80/", "[::1]"),
        ("127.0.0.1", "127.0.0.1"), ("bücher.example", "xn--bcher-kva.example"),
    ],
)  # fmt: skip
def test_what_names_a_host(named: str, key: str) -> None:
    """A host may be named as spiders have it: a URL, a name, an address, with a port or a dot."""
    crawler = fake_crawler({}, {})
    back_off(crawler, named, delay=30)
    scope = Frontier.of(crawler).core.scopes[key]
    assert scope.back_off is not None


def test_the_longest_pause() -> None:
    """A pause may be as long as a spider says, and counts as 68 years at most."""
    crawler = fake_crawler({}, {})
    back_off(crawler, "shop.example", delay=10**30)
    frontier = Frontier.of(crawler)
    left = frontier.core.scopes["shop.example"].back_off.until
    assert left - frontier.clock.monotonic() == pytest.approx(2**31, rel=0.01)


@pytest.mark.parametrize("named", [None, "", "a b", "http://", "mailto://x", "[::1"])
def test_what_names_no_host(named: str | None) -> None:
    """What names no host raises ValueError, so that no pause is lost in silence."""
    with pytest.raises(ValueError, match="a host or a URL, not"):
        back_off(fake_crawler({}, {}), named)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "is_paused"),
    [({}, True), ({"REP_BACKOFF_MAX": 0}, False), ({"REP_DRY_RUN": True}, False)],
)
@pytest.mark.parametrize("count", [1, 2])
def test_whether_back_off_is_on(
    settings: dict[str, Any], is_paused: bool, count: int
) -> None:
    """Each host is paused, unless REP_BACKOFF_MAX is 0, or nothing is enforced."""
    crawler = fake_crawler(settings, {})
    hosts = [f"{number}.example" for number in range(count)]
    back_off(crawler, hosts if count > 1 else hosts[0], delay=30)
    scopes = [Frontier.of(crawler).core.scopes.get(host) for host in hosts]
    assert [bool(each and each.back_off) for each in scopes] == [is_paused] * count
