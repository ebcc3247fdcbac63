"""The queues whose robots.txt this worker fetches for all workers."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.frontier.core import Phase, Where
from scrapy_rep.frontier.frontier import BackQueue
from scrapy_rep.protocol.robotstxt.decisions import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scrapy import Request

    from scrapy_rep.frontier.core import Scope, Ticket
    from scrapy_rep.frontier.frontier import Frontier, Owner
    from scrapy_rep.frontier.hostkeys import HostKey
    from scrapy_rep.frontier.redis.worker import Popped, Unknown, Worker
    from scrapy_rep.protocol.origins import Origin

# The limit of robots.txt files that are fetched at once. Unreachable ones, which will be
# fetched again later, do not count.
_MAX_LEARNING = 256

# The number of fetches to begin at once, and the seconds until the Redis server is asked for
# more if it had fewer queues than that, or none.
_AT_ONCE = 32
_PAUSE = 0.1
_IDLE_PAUSE = 0.5

# Terms that depend on the time of day are valid for this many seconds after the opening.
_CHANGES_AFTER = 60.0


class Terms(NamedTuple):
    """The delay and visiting hours of a host that the workers of a crawl share. All values
    are in seconds.
    """

    holds: float
    """The time for which the terms are valid."""

    delay: float = 0.0
    """The time between two requests."""

    ago: float = 0.0
    """The time since the request for robots.txt."""

    opens: float = 0.0
    """The time until the host is open for visits."""


class RemoteQueue(BackQueue):
    """A back queue on the Redis server. Its first request is known here, and those that were
    taken to be refused.
    """

    __slots__ = ("_first", "left", "name", "taken")

    def __init__(
        self,
        frontier: Frontier,
        key: HostKey,
        learning: Learning,
        *,
        name: str,
        first: Request,
    ) -> None:
        # It waits for robots.txt only: the server counts places.
        host, _ = frontier.host_of(key)
        super(BackQueue, self).__init__(learning, host, ())
        self.key = key
        self.owner = learning.owner
        self.name = name
        self._first = first
        self.taken: deque[Popped] = deque()
        self.left = 1
        """How many requests the server had when it was last asked, or more than 0."""

    def __len__(self) -> int:
        return len(self.taken) + self.left

    def peek(self) -> Request:
        return self._first


class Learning:
    """Lets the frontier fetch the robots.txt of queues, and reports it to the Redis server.

    It is the line of these queues: they come here when their robots.txt is known.
    """

    is_direct = False

    def __init__(
        self,
        frontier: Frontier,
        worker: Worker,
        owner: Owner,
        read: Callable[..., Request | None],
    ) -> None:
        self.core = frontier.core
        self.owner = owner
        self._frontier = frontier
        self._worker = worker
        self._read = read
        self._queues: dict[str, RemoteQueue] = {}
        self.on_learned: Callable[[], None] = lambda: None
        """Called when the robots.txt of a queue is known."""

        self.again_at = float("-inf")
        """The moment from which to ask the server for more queues."""

    @property
    def queues(self) -> list[str]:
        """The names of the queues whose robots.txt this worker fetches."""
        return list(self._queues)

    @property
    def taken(self) -> list[str]:
        """The numbers of the requests that wait to be refused."""
        return [each.number for queue in self._queues.values() for each in queue.taken]

    def begin(self, found: Sequence[Unknown], quota: int, now: float) -> None:
        """Begin to fetch the robots.txt of the queues that the server has *found*, of at most
        *quota*.
        """
        if len(found) < quota or quota <= 0:
            self.again_at = now + (_PAUSE if found else _IDLE_PAUSE)
        for unknown in found:
            self._begin(unknown)

    def quota(self, now: float) -> int:
        """The number of further queues whose robots.txt may be fetched now."""
        if now < self.again_at:
            return 0
        under_way = len(self._queues)
        if under_way >= _MAX_LEARNING:
            under_way -= sum(
                queue.host is not None
                and queue.host.phase in {Phase.DOWN, Phase.REFUSED}
                for queue in self._queues.values()
            )
        return min(_MAX_LEARNING - under_way, _AT_ONCE)

    def _begin(self, unknown: Unknown) -> None:
        """Begin to fetch the robots.txt of a queue."""
        name = unknown.queue
        request = self._read(unknown.data, is_taken=True)
        frontier, hosts = self._frontier, self._frontier.hosts
        if request is None:
            # The next one may do as well.
            self._worker.remove(unknown)
            self._worker.learned(name, None)
            self.again_at = float("-inf")
            self.on_learned()
            return
        key = frontier.key_of(request)
        assert hosts is not None  # Else no robots.txt is wanted.
        queue = RemoteQueue(frontier, key, self, name=name, first=request)
        self._queues[name] = queue
        if unknown.delay and key.origin is not None:
            # The request for robots.txt waits for it too.
            hosts.set_delay(key, unknown.delay)
        frontier.add(queue)
        if "proxy" in request.meta:
            frontier.note_cause(key, request)
        frontier.flush()

    def has(self, scope: Scope) -> bool:
        return False

    def discard(self, ticket: Ticket) -> None:
        """Does nothing: no queue stays here."""

    def add(self, ticket: Ticket) -> None:
        """Report the robots.txt of a queue to the Redis server."""
        assert isinstance(ticket, RemoteQueue)
        ticket.where = Where.NOWHERE
        for popped in ticket.taken:  # Its host was refused, and has answered after all.
            self._worker.back(popped.number)
        if self._end(ticket):
            self._worker.learned(ticket.name, self._terms(ticket.key.origin))
        self.on_learned()

    def _end(self, queue: RemoteQueue) -> bool:
        """Forget *queue*. Return whether it was known."""
        if self._queues.pop(queue.name, None) is None:
            return False
        self._frontier.end(queue)
        return True

    def _terms(self, origin: Origin | None) -> Terms | None:
        """Return the terms for requests to *origin*; None if they are not known.

        They leave out the delay or visiting hours for which the middleware refuses requests.
        """
        hosts = self._frontier.hosts
        if hosts is None or origin is None:
            return None
        robots, holds, ago = hosts.rules(origin)
        if robots is None:
            return Terms(holds) if holds else None
        pace = hosts.pace(robots)
        demand = hosts.demand(pace)
        if demand.refusal is Reason.CRAWL_DELAY:
            return Terms(holds)
        opens = 0.0 if demand.refusal else demand.opens_in
        if pace.changes:
            holds = min(holds, opens + _CHANGES_AFTER)
        return Terms(holds, demand.delay, ago, opens)

    def take(self, queue: BackQueue) -> Popped | None:
        """Pop a request of a queue whose host was given up; None if there is none."""
        assert isinstance(queue, RemoteQueue)
        if not queue.taken:
            found, queue.left = self._worker.take(queue.name, _AT_ONCE)
            queue.taken.extend(found)
        popped = queue.taken.popleft() if queue.taken else None
        if not queue:
            self._end(queue)
        return popped


def name_of(key: HostKey) -> str:
    """The name on the Redis server of the queue of requests with *key*: a host, a tab, and an
    origin.

    Delays apply to a host. The name for requests without a robots.txt is their download
    slot and a tab: only the limit of the slot applies to them.
    """
    if key.origin is None:
        return key.slot.replace("\t", " ") + "\t"
    return f"{key.host}\t{key.origin}"
