"""The set of what has been seen, written together with the queue."""

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

    The fingerprint of a request is written by the queue, in the same step as the request:
    a worker that is killed between the two would leave a request that is taken for seen
    and is in no queue. And where the server fails, a request is not lost: it is kept, and
    whether it was seen before is found out when the server is back.

    In a Redis Cluster, its key and those of the queue must be on one server, which a hash
    tag says: ``SCHEDULER_DUPEFILTER_KEY = "{%(spider)s:requests}:dupefilter"``, with what is
    in braces being ``SCHEDULER_QUEUE_KEY``.
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
    """Have the fingerprint of *request* added to the set at *key* when the request is
    pushed.
    """
    _FINGERPRINTS[request] = key, fingerprint


def take_fingerprint(request: Request) -> tuple[str, str]:
    """The key of the set and the fingerprint of *request*; empty where there is none."""
    return _FINGERPRINTS.pop(request, ("", ""))
