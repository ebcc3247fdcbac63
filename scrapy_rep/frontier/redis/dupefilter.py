"""The duplicate filter for the host queue on a Redis server."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from scrapy_redis.dupefilter import RFPDupeFilter

from scrapy_rep.compat.versions import shared_component
from scrapy_rep.frontier.redis.link import Link

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from typing_extensions import Self

_FINGERPRINTS: WeakKeyDictionary[Request, tuple[str, str]] = WeakKeyDictionary()


class DupeFilter(RFPDupeFilter):
    """scrapy-redis' filter, for :class:`~scrapy_rep.frontier.redis.HostQueue`.

    The queue writes the fingerprint of a request in the same step as the request. If a
    worker were killed between two steps, the request would count as seen but be in no queue.
    If the server fails, the queue keeps the request in memory, and looks for duplicates when
    the server is back.

    In a Redis Cluster, the keys of the filter and the queue must have the same hash tag:
    ``SCHEDULER_DUPEFILTER_KEY = "{%(spider)s:requests}:dupefilter"``, where the part in
    braces is ``SCHEDULER_QUEUE_KEY``.
    """

    @classmethod
    def from_spider(cls, spider: Spider) -> Self:
        found: Self = super().from_spider(spider)
        crawler = spider.crawler
        found._link = shared_component(crawler, Link)
        found._link.connect(found.server)
        return found

    def request_seen(self, request: Request) -> bool:
        fingerprint = self.request_fingerprint(request)
        if self._link.ask("SISMEMBER", self.key, fingerprint):
            return True
        note_fingerprint(request, self.key, fingerprint)
        return False


def note_fingerprint(request: Request, key: str, fingerprint: str) -> None:
    """Have the queue add *fingerprint* to the set at *key* when it pushes *request*."""
    _FINGERPRINTS[request] = key, fingerprint


def take_fingerprint(request: Request) -> tuple[str, str]:
    """Remove and return the recorded key and fingerprint; empty strings if there are none."""
    return _FINGERPRINTS.pop(request, ("", ""))
