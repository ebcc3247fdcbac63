"""The queues whose robots.txt this worker fetches for all workers."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from scrapy_rep.crawl.frontier.core import Line, Phase, Where
from scrapy_rep.crawl.frontier.frontier import BackQueue
from scrapy_rep.redis.worker import Terms

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scrapy import Request

    from scrapy_rep.crawl.frontier.backlog import HostKey
    from scrapy_rep.crawl.frontier.core import Ticket
    from scrapy_rep.crawl.frontier.frontier import Frontier, Owner
    from scrapy_rep.protocol.origins import Origin
    from scrapy_rep.redis.worker import Popped, Worker

# The limit of robots.txt files that are fetched at once. Unreachable ones, which will be
# fetched again later, do not count.
_MAX_FETCHING = 256

# The number of fetches to begin at once.
_AT_ONCE = 32


class RemoteQueue(BackQueue):
    """A back queue on the Redis server. Its first request is known here."""

    __slots__ = ("_first", "name")

    def __init__(
        self,
        frontier: Frontier,
        key: HostKey,
        wanted: Wanted,
        *,
        name: str,
        first: Request,
    ) -> None:
        # It waits for robots.txt only: the server counts places.
        host, _ = frontier.host_of(key)
        super(BackQueue, self).__init__(wanted, host, ())
        self.key = key
        self.owner = wanted.owner
        self.name = name
        self._first = first

    def __len__(self) -> int:
        return 1  # At least; the server does not say.

    def peek(self) -> Request:
        return self._first


class Wanted(Line):
    """Lets the frontier fetch the robots.txt of queues, and reports it to the Redis server.

    It is the line of these queues: they come here when their robots.txt is known.
    """

    def __init__(
        self,
        frontier: Frontier,
        worker: Worker,
        owner: Owner,
        read: Callable[[Popped], Request | None],
    ) -> None:
        super().__init__(frontier.core)
        self.owner = owner
        self._frontier = frontier
        self._worker = worker
        self._read = read
        self._queues: dict[str, RemoteQueue] = {}
        self._refused: deque[RemoteQueue] = deque()
        self.on_change: Callable[[], None] = lambda: None
        """Called when there is something to report."""

    @property
    def queues(self) -> list[str]:
        """The names of the queues whose robots.txt this worker fetches."""
        return list(self._queues)

    @property
    def quota(self) -> int:
        """The number of further queues whose robots.txt may be fetched now."""
        under_way = len(self._queues)
        if under_way >= _MAX_FETCHING:
            under_way -= sum(
                queue.host is not None and queue.host.is_down
                for queue in self._queues.values()
            )
        return max(min(_MAX_FETCHING - under_way, _AT_ONCE), 0)

    def begin(self, wanted: Sequence[tuple[Popped, float]]) -> None:
        """Begin to fetch the robots.txt of queues, each named by a request of it. With the delay
        of its host.
        """
        for popped, delay in wanted:
            request = self._read(popped)
            if request is None:
                # The next one may do as well.
                self._worker.unknown(popped.queue, unreadable=popped)
                self.on_change()
            else:
                self._begin(popped.queue, request, delay)

    def _begin(self, name: str, request: Request, delay: float) -> None:
        frontier, hosts = self._frontier, self._frontier.hosts
        key = frontier.key_of(request)
        assert hosts is not None  # Else no robots.txt is wanted.
        queue = RemoteQueue(frontier, key, self, name=name, first=request)
        self._queues[name] = queue
        if delay and key.origin is not None:
            # The request for robots.txt waits for it too.
            hosts.set_delay(key, delay)
        frontier.add(queue)
        frontier.note_cause(key, request)

    def add(self, ticket: Ticket) -> None:
        """Report the robots.txt of a queue to the Redis server, unless its requests are refused."""
        assert isinstance(ticket, RemoteQueue)
        ticket.where = Where.NOWHERE
        if ticket.host is not None and ticket.host.phase is Phase.REFUSED:
            self._refused.append(ticket)
        elif self._end(ticket):
            terms = self._terms(ticket.key.origin)
            if terms is None:
                self._worker.unknown(ticket.name)
            else:
                self._worker.known(ticket.name, terms)
        self.on_change()

    def _end(self, queue: RemoteQueue) -> bool:
        """Forget *queue*. Return whether it was known."""
        if self._queues.pop(queue.name, None) is None:
            return False
        self._frontier.end(queue)
        return True

    def _terms(self, origin: Origin | None) -> Terms | None:
        """Return the terms for requests to *origin*; None if they are not known."""
        hosts = self._frontier.hosts
        if hosts is None or origin is None:
            return None
        robots, holds = hosts.rules(origin)
        if robots is None:
            return Terms(holds) if holds else None
        return Terms(holds, hosts.delay_of(robots))

    def take_refused(self) -> Sequence[Popped]:
        """Take some requests of a queue whose host is refused, for this worker to refuse them."""
        while self._refused:
            queue = self._refused[0]
            answer = None
            if queue.host is not None and queue.host.phase is Phase.REFUSED:
                answer = self._worker.exchange(refuses=queue.name)
                if answer is None:
                    return ()
            self._refused.popleft()
            if answer is not None and not answer.found:
                self._end(queue)
                continue
            self._frontier.add(queue)  # It comes here again, or its host is back.
            if answer is not None:
                return answer.found
        return ()


def name_of(key: HostKey) -> str:
    """The name on the Redis server of the queue of requests with *key*: a host, a tab, and an
    origin.

    Delays apply to a host. The name for requests without a robots.txt is their download
    slot and a tab: only the limit of the slot applies to them.
    """
    if key.origin is None:
        return key.slot.replace("\t", " ") + "\t"
    return f"{key.host}\t{key.origin}"
