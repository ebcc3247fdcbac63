"""The requests that a robots.txt is fetched for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy import Request

_MAX_CAUSES = 8


class Causes:
    """Requests that wait for one robots.txt, one for each proxy that they have, so that where
    one proxy fails another is tried. It may grow while robots.txt is fetched.
    """

    __slots__ = ("_requests",)

    def __init__(self, *requests: Request) -> None:
        self._requests: list[Request] = list(requests)

    def __len__(self) -> int:
        return len(self._requests)

    def nth(self, attempt: int) -> Request:
        """The request for an *attempt*, counted from 0; of a few they are used in turn."""
        return self._requests[attempt % len(self._requests)]

    def add(self, request: Request) -> bool:
        """Take *request* for the next attempt, if it has a proxy that no other has. Returns
        whether it has.
        """
        proxy = request.meta.get("proxy")
        if len(self._requests) >= _MAX_CAUSES or any(
            each.meta.get("proxy") == proxy for each in self._requests
        ):
            return False
        self._requests.append(request)
        return True

    def turn(self) -> None:
        """Let the last one be the first the next time."""
        self._requests.insert(0, self._requests.pop())
