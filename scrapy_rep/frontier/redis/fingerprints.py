"""Fingerprints of requests on their way from the duplicate filter to the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler


class Fingerprints:
    """Those of requests that were not seen before, with the key of the set that they go to.

    There is one for each crawler.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._found: WeakKeyDictionary[Request, tuple[str, str]] = WeakKeyDictionary()

    def put(self, request: Request, key: str, fingerprint: str) -> None:
        self._found[request] = key, fingerprint

    def take(self, request: Request) -> tuple[str, str]:
        """The key of the set and the fingerprint; empty where there is none."""
        return self._found.pop(request, ("", ""))
