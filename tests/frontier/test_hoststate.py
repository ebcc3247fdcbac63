"""The order in which robots.txt files are fetched."""

from __future__ import annotations

import pytest

from scrapy_rep.frontier.hoststate import Host, WantedHosts
from scrapy_rep.protocol.origins import Origin

pytestmark = pytest.mark.newest


def hosts(count: int) -> list[Host]:
    return [Host(Origin("http", f"{number}.example", 80)) for number in range(count)]


def test_in_turn() -> None:
    """Each host is returned once, in order, while hosts are needed."""
    first, second = hosts(2)
    wanted = WantedHosts()
    for host in (first, second, first):
        wanted.add(host, is_urgent=False)
    assert wanted.next(is_needed=False) is None
    assert wanted.next(is_needed=True) is first
    assert wanted.next(is_needed=True) is second
    assert wanted.next(is_needed=True) is None


def test_one_that_becomes_urgent() -> None:
    """A host that a request in the downloader waits for goes first, even if it is already
    in line: such requests can fill the downloader, so that nothing is popped.
    """
    first, second = hosts(2)
    wanted = WantedHosts()
    wanted.add(first, is_urgent=False)
    wanted.add(second, is_urgent=False)
    wanted.add(second, is_urgent=True)
    assert wanted.next(is_needed=False) is second
    assert wanted.next(is_needed=False) is None
    wanted.add(second, is_urgent=False)
    assert wanted.next(is_needed=True) is first
    assert wanted.next(is_needed=True) is second
    assert wanted.next(is_needed=True) is None
