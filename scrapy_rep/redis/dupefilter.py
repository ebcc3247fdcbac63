"""The duplicate filter for the host queue on a Redis server."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from scrapy_redis.dupefilter import RFPDupeFilter

if TYPE_CHECKING:
    from scrapy import Request

_FINGERPRINTS: WeakKeyDictionary[Request, tuple[DupeFilter, str]] = WeakKeyDictionary()


class DupeFilter(RFPDupeFilter):
    """scrapy-redis' filter, for :class:`~scrapy_rep.redis.HostQueue`.

    The queue writes the fingerprint of a request in the same step as the request. If a
    worker were killed between two steps, the request would count as seen but be in no queue.
    If the server fails, the queue keeps the request in memory, and looks for duplicates when
    the server is back.

    In a Redis Cluster, the keys of the filter and the queue must have the same hash tag:
    ``SCHEDULER_DUPEFILTER_KEY = "{%(spider)s:requests}:dupefilter"``, where the part in
    braces is ``SCHEDULER_QUEUE_KEY``.
    """

    def request_seen(self, request: Request) -> bool:
        """Return False: the queue looks for duplicates, a batch at a time, and drops them."""
        note_fingerprint(request, self, self.request_fingerprint(request))
        return False


def note_fingerprint(request: Request, owner: DupeFilter, fingerprint: str) -> None:
    """Have the queue add *fingerprint* to the set of *owner* when it pushes *request*."""
    _FINGERPRINTS[request] = owner, fingerprint


def take_fingerprint(request: Request) -> tuple[DupeFilter, str] | None:
    """Remove and return what was recorded of *request*, if anything."""
    return _FINGERPRINTS.pop(request, None)
