"""The requests that wait for one robots.txt."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy import Request

_MAX_CAUSES = 8


class Causes:
    """The requests that wait for one robots.txt, one for each proxy, so that another proxy
    is tried where one fails. More may be added during the fetch.
    """

    __slots__ = ("_requests",)

    def __init__(self, *requests: Request) -> None:
        self._requests: list[Request] = list(requests)

    def __len__(self) -> int:
        return len(self._requests)

    def nth(self, attempt: int) -> Request:
        """The request for an *attempt*, counted from 0; they are used in turn."""
        return self._requests[attempt % len(self._requests)]

    def add(self, request: Request) -> bool:
        """Add *request*, if its proxy is new. Return whether it is."""
        proxy = request.meta.get("proxy")
        if len(self._requests) >= _MAX_CAUSES or any(
            each.meta.get("proxy") == proxy for each in self._requests
        ):
            return False
        self._requests.append(request)
        return True

    def turn(self) -> None:
        """Let the last request be the first one for the next fetch."""
        self._requests.insert(0, self._requests.pop())
