"""Requests that wait for something where they are, since they can't be held."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.exceptions import IgnoreRequest
from scrapy.utils.asyncio import create_looping_call
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred

from scrapy_rep.internals import is_closing, room_in_downloader

if TYPE_CHECKING:
    from collections.abc import Hashable

    from scrapy import Request
    from scrapy.crawler import Crawler

# How often, in seconds, it is looked whether the spider is closing: it waits for those
# that wait here.
_CLOSING_LOOK = 0.2


class InPlace:
    """Lets requests wait until they are called, in the order in which they came.

    So it is with what a pipeline or a callback downloads by itself, with robots.txt, and
    with what there is no place for in the :class:`~scrapy_rep.hold.Hold`. What they wait
    for is named by a key. However many wait, only the one that is called wakes up.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._waiting: dict[Hashable, dict[Deferred[None], Request]] = {}
        self._closing_look = create_looping_call(self._end_if_closing)

    async def wait(self, key: Hashable, request: Request, *, makes_room: bool) -> None:
        """Wait until *request* is called. Raises IgnoreRequest where the spider closes
        meanwhile.

        With *makes_room* it takes no place from others in the downloader.
        """
        call: Deferred[None] = Deferred(lambda _: self._forget(call))
        self._waiting.setdefault(key, {})[call] = request
        if not self._closing_look.running:
            self._closing_look.start(_CLOSING_LOOK, now=False)
        with room_in_downloader(self._crawler, made=makes_room):
            await maybe_deferred_to_future(call)

    def first(self, key: Hashable) -> Request | None:
        """Of those that wait for *key*, the one that came first."""
        return next(iter(self._waiting.get(key, {}).values()), None)

    def call(self, key: Hashable) -> Request:
        """Let the first one go on that waits for *key*."""
        waiting = self._waiting[key]
        call, request = next(iter(waiting.items()))
        del waiting[call]
        if not waiting:
            del self._waiting[key]
        call.callback(None)
        return request

    def move(self, key: Hashable, to: Hashable) -> None:
        """Let those that wait for *key* wait for another."""
        waiting = self._waiting.pop(key, None)
        if waiting:
            self._waiting.setdefault(to, {}).update(waiting)

    def _forget(self, call: Deferred[None]) -> None:
        for key, waiting in list(self._waiting.items()):
            if waiting.pop(call, None) is not None and not waiting:
                del self._waiting[key]

    def _end_if_closing(self) -> None:
        if is_closing(self._crawler):
            reason = "The spider closes, and its turn has not come"
            everyone = list(self._waiting.values())
            self._waiting.clear()
            for call in [call for waiting in everyone for call in waiting]:
                call.errback(IgnoreRequest(reason))
        if not self._waiting:
            self._closing_look.stop()
