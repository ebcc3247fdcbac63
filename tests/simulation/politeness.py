"""The judge of politeness. It checks that each request was allowed by its host, and was not sent too early.

The docstring of `judge.py` lists the rules. In all comments of this file:

- "The wire" is WireMiddleware, the add-on's downloader middleware nearest to the network. A request that did not wait
  in the scheduler waits at the wire until it may be sent.
- "A driver" is a middleware of the project that fetches pages itself, as a browser does. The wire does not see the
  requests of a driver.
- "The server" is the Redis server that workers share.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise, product
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from tests.simulation.world import WIRE_ORDER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulation.crawl import Story
    from tests.simulation.world import Answer, SentRequest

_SLACK = 0.01
"""The seconds by which a time in the log can be wrong, because of rounding and of the iterations of the event loop."""

_PAUSE_SAVED_AFTER = 0.1
"""A pause is saved in the JOBDIR within this number of seconds."""

_PAUSE_SHARED_AFTER = 0.25
"""The other workers know about a pause within this number of seconds, plus the time that calls of the Redis server
take.
"""

_HOST_FORGOTTEN_AFTER = 30.0
"""The seconds without a request after which the crawl may forget the delay and the address of a host."""

_NO_SERVER_TIMEOUT = 10.0
"""The seconds after which requests to a host without a server are refused."""

_MIN_LIFETIME = 300.0
"""A robots.txt is used for at least this number of seconds, even if its Cache-Control has a shorter max-age."""

_LEASE_RENEWED_WITHIN = 1.0
"""A worker that has sent a request renews its lease within this number of seconds, if the server answers."""

_MIN_FAILED_HOSTS, _MIN_FAILED_REQUESTS = 5, 20
"""The network counts as gone when this number of hosts, and this number of requests in a row, have failed."""

_MAX_DECIDED_ON_ARRIVAL = 3
"""When a robots.txt arrives, the add-on at once allows at most this number of waiting requests. It can send them much
later, even after the robots.txt has become stale.
"""


class Violation(NamedTuple):
    """A violation of a rule by a crawl."""

    at: float
    """The virtual time of the violation."""

    host: str
    """Empty if the violation concerns no single host."""

    text: str


class RobotsText(NamedTuple):
    """The text of a robots.txt, or of an override in the settings that replaces the robots.txt."""

    at: float
    """The time at which the text was received. ``-inf`` for an override."""

    process: int
    """The number of the process that has received the text."""

    body: str
    lifetime: float
    """The seconds for which the text is fresh. ``inf`` for an override."""

    @property
    def delay(self) -> float:
        """The Crawl-delay, in seconds. 0 if the text has none."""
        lines = self.body.splitlines()
        delay_lines = [line for line in lines if line.startswith("Crawl-delay: ")]
        return float(delay_lines[0].split()[1]) if delay_lines else 0.0

    def allows(self, path: str, agent: str) -> bool:
        """Whether the group of *agent*, or else the group ``*``, allows the page at *path*."""
        groups = [group.splitlines() for group in self.body.split("User-agent: ")[1:]]
        by_agent = {group[0]: group for group in groups}
        lines = by_agent.get(agent, by_agent.get("*", []))
        return not any(f"Disallow: {path[:n]}" in lines for n in range(1, len(path)))


class HostHistory:
    """The requests to a host in a crawl. The methods return what the answers say: the texts of the robots.txt, whether
    the robots.txt can be fetched, and for how long the host asks for pauses.
    """

    def __init__(self, story: Story, host: str) -> None:
        self.host = host
        self.log = [sent for sent in story.world.log if sent.host == host]
        self.settings = story.world.settings
        overrides = self.settings.get("REP_OVERRIDES", {})
        override = overrides.get(host, overrides.get("*", "obey"))
        is_obeyed = override == "obey" or isinstance(override, dict)
        self.override = None if is_obeyed else override
        """The text that replaces the robots.txt, or ``ignore``. None if the robots.txt of the host is obeyed."""

    def robots_texts(
        self, *, until: float, process: int | None = None
    ) -> list[RobotsText]:
        """Return each text of the robots.txt that was received until the time *until*, oldest first.

        If *process* is given, return only the texts that the process with this number has received. Return only the
        override if the settings replace the robots.txt, and no text if they ignore it.
        """
        if self.override == "ignore":
            return []
        if self.override is not None:
            return [RobotsText(-inf, 0, self.override, inf)]
        return [
            RobotsText(
                sent.received_at,
                sent.process,
                sent.answer.body,
                self._lifetime(sent.answer),
            )
            for sent in self.log
            if sent.is_robots
            and sent.received_at is not None
            and sent.received_at <= until
            and sent.answer.status in {200, 403, 404}
            and process in {None, sent.process}
        ]

    def _lifetime(self, answer: Answer) -> float:
        cache_control = answer.headers.get("Cache-Control", "max-age=inf")
        seconds = max(float(cache_control.removeprefix("max-age=")), _MIN_LIFETIME)
        return min(seconds, float(self.settings["REP_MAX_AGE"]))

    def has_failed(self, *, until: float, waits: bool) -> bool:
        """Whether the add-on can refuse a request at the time *until* because the robots.txt cannot be fetched.

        If *waits* is False, the request is refused after one failed fetch. If *waits* is True, the request waits for
        further fetches. It is refused if it would wait longer than REP_WAIT_TIMEOUT, or longer than ten seconds for a
        host that seems to have no server.
        """
        last = max((text.at for text in self.robots_texts(until=until)), default=-inf)
        tries = [
            s
            for s in self.log
            if s.is_robots and last < (s.received_at or inf) <= until
        ]
        if not tries:
            return False
        if any(sent.raised_driver_error for sent in tries):
            # The crawl takes the driver's own exception for an error in a component, not in the network. Requests are
            # refused without a wait.
            return True
        timeout = float(self.settings["REP_WAIT_TIMEOUT"])
        first = tries[0].received_at or 0.0
        # If a host seems to have no server, its robots.txt is fetched only once more. If that fails too, its requests
        # are refused until the host answers.
        early = [
            s
            for s in tries
            if (s.received_at or 0.0) < first + _NO_SERVER_TIMEOUT + 5.0
        ]
        if all(sent.answer.error or 300 <= sent.answer.status < 400 for sent in early):
            timeout = min(timeout, _NO_SERVER_TIMEOUT)
        waited = until - first
        # The pause before the next try doubles with each try, even if the host asks for a short pause.
        doubled = 2.0 ** min(len(tries), 12)
        will_wait = waited + max(doubled, *(requested_pause(sent) for sent in tries))
        return not waits or max(waited, will_wait) >= timeout - 1.0

    def longest_pause(self, *, until: float, process: int | None = None) -> float:
        """Return the length, in seconds, of the longest period in which all requests to the host failed or got a 429 or
        503.

        Only answers until the time *until* count. The period includes the pause after its last answer. If *process* is
        given, only requests of the process with this number count.
        """
        longest, began_at, last_failure_at = 0.0, None, -inf
        # No pause is shorter than the delay of the host.
        min_pause = max(
            (text.delay for text in self.robots_texts(until=until)), default=0.0
        )
        log = [
            s for s in self.log if s.received_at is not None and s.received_at <= until
        ]
        log = [s for s in log if process in {None, s.process}]
        for sent in sorted(log, key=lambda sent: sent.received_at or 0.0):
            received_at = sent.received_at or 0.0
            if sent.answer.status in {0, 429, 503}:
                began_at = received_at if began_at is None else began_at
                last_failure_at = received_at
                pause = max(
                    requested_pause(sent) or self.settings["REP_BACKOFF_MAX"], min_pause
                )
                longest = max(longest, received_at + pause - began_at)
            elif sent.at >= last_failure_at:
                # An answer with a status other than 429 and 503 ends the period of failures, unless its request was
                # already in flight at the time of the last failure.
                began_at = None
        return longest


def requested_pause(sent: SentRequest) -> float:
    """Return the seconds in the Retry-After header of the answer to *sent*. Return 0 if there is no such header."""
    return float(sent.answer.headers.get("Retry-After", 0))


def politeness_violations(story: Story) -> list[Violation]:
    """Return a violation for each request that was forbidden or sent too early, and for each that was given up too
    early.
    """
    violations = [
        *_check_concurrency(story),
        *_check_addresses(story),
        *_check_pages(story),
        *_check_outages(story),
    ]
    by_host: dict[str, list[SentRequest]] = defaultdict(list)
    for sent in story.world.log:
        by_host[sent.host].append(sent)
    for host, log in by_host.items():
        history = HostHistory(story, host)
        for check in (_check_rules, _check_delays, _check_pauses):
            violations += [Violation(sent.at, host, f"{text}: {sent}")
                      for sent, text in check(story, history, log)]  # fmt: skip
    return violations


def _check_rules(
    story: Story, history: HostHistory, log: list[SentRequest]
) -> Iterator[tuple[SentRequest, str]]:
    """No request for a page is sent before a robots.txt allows it, or after this robots.txt is stale."""
    # If DOWNLOAD_DELAY is set, a request that was allowed still waits in its download slot.
    settings = story.world.settings
    in_slot = float(settings["DOWNLOAD_DELAY"])
    in_slot *= max(2, settings["CONCURRENT_REQUESTS_PER_DOMAIN"])
    in_slot += 1.0
    max_in_slot = in_slot
    for sent in log if history.override != "ignore" else ():
        if sent.is_robots:
            continue
        # The robots.txt may become stale while a component holds the request back.
        held_since = sent.at if sent.held_since is None else sent.held_since
        in_slot = max_in_slot + sent.at - held_since
        # Each worker fetches its own copy of the robots.txt. With a JOBDIR, a process has the copy of the previous
        # process.
        process = sent.process if story.world.kind == "workers" else None
        robots_texts = history.robots_texts(until=sent.at, process=process)
        if not robots_texts:
            yield sent, "sent before its robots.txt"
            continue
        last = robots_texts[-1]
        # A request may have been allowed just before the last text was received.
        recent = [text for text in robots_texts if text.at > sent.at - in_slot]
        if not any(
            text.allows(sent.path, sent.agent) for text in [*recent, *robots_texts[-2:]]
        ):
            yield sent, "forbidden"
        failures = [
            s
            for s in history.log
            if s.is_robots and last.at < (s.received_at or inf) <= sent.at
        ]
        until = last.at + last.lifetime
        if failures:
            until = max(
                until, (failures[-1].received_at or 0.0) + _lifetime_after(failures)
            )
        # During a pause longer than REP_WAIT_TIMEOUT, no robots.txt is fetched. The robots.txt counts as unreachable,
        # and its last good copy is used.
        timeout = settings["REP_WAIT_TIMEOUT"]
        for other in history.log:
            ends = (other.received_at or -inf) + requested_pause(other)
            if (
                requested_pause(other) > timeout
                and ends - requested_pause(other) <= sent.at
                and until <= ends
            ):
                until = ends + _MIN_LIFETIME
        # If the clock is set back, a robots.txt seems to be newer than it is. If the Crawl-delay is longer than the
        # lifetime, one request may wait for the end of the delay, and is sent although the robots.txt is stale by then.
        set_back = max(
            (-offset for _, offset in story.world.clock_changes), default=0.0
        )
        late = sent.at - until - last.delay - in_slot - max(set_back, 0.0)
        is_outage = any(
            begins <= sent.at < ends for begins, ends in story.world.outages
        )
        # When a robots.txt arrives, the add-on decides at once about some of the requests that wait for it: one request
        # from the scheduler, and the requests that bypass the scheduler. It can send them much later, even after the
        # robots.txt has become stale.
        known_at = failures[-1].at if failures else last.at
        sent_since = [
            s
            for s in log
            if not s.is_robots
            and known_at < s.at < sent.at
            and s.process == sent.process
        ]
        if len(sent_since) < _MAX_DECIDED_ON_ARRIVAL:
            continue
        if late > 0 and not is_outage and late > _waited_in_slot(story, sent):
            yield sent, f"sent {late:.1f} s after its robots.txt was stale"


def _decided_at(story: Story, sent: SentRequest) -> float:
    """Return the time at which the add-on let a request go. Afterwards, only middlewares of the project held it."""
    hold = story.world.hold
    held_since = sent.at if sent.held_since is None else sent.held_since
    if sent.is_by_driver:
        return held_since - _SLACK
    return held_since if hold is not None and hold.order > WIRE_ORDER else sent.at


def _has_unknown_send_time(sent: SentRequest) -> bool:
    """Whether the add-on could not know when the request would be sent: a driver has sent the request, and the request
    bypassed the scheduler or was held back by another middleware.
    """
    is_direct_from_scheduler = (
        not (sent.is_robots or sent.bypasses_scheduler) and sent.held_since is None
    )
    return sent.is_by_driver and not is_direct_from_scheduler


def _waited_in_slot(story: Story, sent: SentRequest) -> float:
    """Return the maximum number of seconds for which a request may have waited in its download slot for the end of a
    request to another host. Two hosts can share a slot, because a redirected request stays in the slot of the first
    host.
    """
    ended_just_before = [
        other
        for other in story.world.log
        if other.slot == sent.slot and other.host != sent.host
        if other.at < sent.at and abs(_end_of(other, story) - sent.at) < _SLACK
    ]
    return max((sent.at - other.at for other in ended_just_before), default=0.0)


def _lifetime_after(failures: list[SentRequest]) -> float:
    """Return how long the last good copy of a robots.txt is used after the last of *failures*, in seconds. Then the
    robots.txt is fetched again.

    *failures* are the failed fetches since the good copy was received.
    """
    doubled = 45.0 * 2 ** min(len(failures) - 1, 7)
    return max(_MIN_LIFETIME, requested_pause(failures[-1]), doubled)


def _check_delays(
    story: Story, history: HostHistory, log: list[SentRequest]
) -> Iterator[tuple[SentRequest, str]]:
    """From the end of each request to the start of the next request to the host, at least the Crawl-delay passes."""
    delay = 0.0
    answered: list[SentRequest] = []
    if history.override is not None:
        delay = max(
            (text.delay for text in history.robots_texts(until=inf)), default=0.0
        )
    is_forgotten = False
    # During an outage of the crawler's network, requests reach no host. These requests are left out.
    for sent, after in pairwise(s for s in log if s.answer.error != "unresolved"):
        if sent.answer.status == 200 and sent.is_robots and history.override is None:
            delay = RobotsText(0.0, 0, sent.answer.body, 0.0).delay
        if sent.answered_at is not None:
            answered.append(sent)
        known_ends = [
            s.answered_at or inf
            for s in answered
            if _must_keep_delay(story, s, after)
            and not _is_beside_driver(s, after)
            and not (_has_unknown_send_time(s) and (s.answered_at or inf) > after.at)
        ]
        gap = after.at - max(known_ends, default=-inf)
        # A process does not know the delay before it has received the robots.txt, or after it has forgotten the host.
        is_forgotten = (
            is_forgotten and sent.is_robots
        ) or gap > delay + _HOST_FORGOTTEN_AFTER
        is_new = not history.robots_texts(until=after.at, process=after.process)
        is_known = not (after.is_robots and (is_forgotten or is_new))
        # If the host has an override, its robots.txt is fetched only to test whether the network is back.
        is_known = is_known and not (after.is_robots and history.override is not None)
        if delay > story.world.settings["REP_SKIP_DELAY_OVER"]:
            if not after.is_robots:
                yield after, "sent although the host's delay is too long"
        elif (
            delay
            and gap < delay - _SLACK
            and is_known
            and not _has_unknown_send_time(after)
        ):
            yield after, f"a gap of {gap:.2f} s instead of {delay:g} s"


def _is_beside_driver(sent: SentRequest, after: SentRequest) -> bool:
    """Whether the delay between *sent* and *after* need not be kept, because a driver (a middleware that fetches pages
    itself) has sent one of the two requests.

    The requests must overlap, and the other request must be for a robots.txt or a leaf (see `world.FIRST_LEAF`).
    """
    # The add-on learns that a driver has sent a request only when the driver returns the answer. A driver that blocks
    # the event loop holds *after* back until then, so *after* still counts as overlapping a moment (_SLACK) later.
    if not sent.at <= after.at <= (sent.answered_at or inf) + _SLACK:
        return False
    return any(
        request.is_by_driver and (other.is_leaf or other.is_robots)
        for request, other in ((sent, after), (after, sent))
    )


def _must_keep_delay(story: Story, sent: SentRequest, after: SentRequest) -> bool:
    """Whether *after* must keep the Crawl-delay after *sent*.

    This is always true if there are no workers, or if the same worker sent *sent* and *after*. If another worker sent
    *sent*, it is false in these cases:

    - *sent* is for a robots.txt, and the other worker did not know the Crawl-delay, because it had not received a
      robots.txt of the host before.
    - The Redis server has lost data between *sent* and *after*.
    - *sent* or *after* is for a robots.txt or a leaf (see `world.FIRST_LEAF`), and was sent while the Redis server was
      unreachable.
    - The lease of the other worker has ended while *sent* was in flight, because the Redis server was unreachable or
      the worker was suspended.
    """
    if story.world.kind != "workers" or sent.process == after.process:
        return True
    robots_texts = HostHistory(story, sent.host).robots_texts(
        until=sent.at, process=sent.process
    )
    if sent.is_robots and not robots_texts:
        return False
    if any(sent.at <= loss < after.at for loss in story.data_losses):
        return False
    min_lease = _min_lease(story)
    for begins, ends, process in story.disturbances:
        is_server = process is None
        for request in (sent, after) if is_server else ():
            if (request.is_leaf or request.is_robots) and begins <= request.at < ends:
                return False
        is_in_flight = sent.at < ends and begins < _end_of(sent, story)
        is_affected = is_server or process == sent.process
        if is_in_flight and is_affected and ends - begins > min_lease:
            return False
    return True


def _min_lease(story: Story) -> float:
    """Return a lower bound for the seconds that are left of the lease of a running worker."""
    return float(story.world.settings["REP_QUEUE_LEASE"]) - _LEASE_RENEWED_WITHIN


def lease_may_end(story: Story) -> bool:
    """Whether a fault was so long that the lease of a worker may have ended, although the worker continued later."""
    min_lease = _min_lease(story)
    return any(ends - begins > min_lease for begins, ends, _ in story.disturbances)


def _check_pauses(
    story: Story, history: HostHistory, log: list[SentRequest]
) -> Iterator[tuple[SentRequest, str]]:
    """After a page gets a 429 or 503, the host gets no request for the seconds in Retry-After, or for one second if
    that is longer. After this pause, requests are sent one at a time, and each success allows one more at a time. A 503
    without Retry-After starts a pause only if the previous answer was also a 503.
    """
    # The requests whose answers asked for a pause, and the ends of the pauses.
    pauses: list[tuple[SentRequest, float]] = []
    in_flight: dict[int, SentRequest] = {}
    concurrency, process = inf, 0
    single = _single_503s(story, log)
    events = [(sent.at, 1, sent) for sent in log if not _has_unknown_send_time(sent)]
    events += [(_end_of(sent, story), 0, sent) for sent in log]
    for at, is_start, sent in sorted(events, key=lambda event: event[:2]):
        is_page, status = not sent.is_robots, sent.answer.status
        if story.world.kind == "job" and sent.process != process:
            process, in_flight = sent.process, {}
            if not any(at < until for _, until in pauses) or _is_pause_unsaved(
                story, pauses[-1][0]
            ):
                pauses, concurrency = [], inf
        if is_start:
            if _end_of(sent, story) > at:  # Otherwise, it was cancelled at once.
                in_flight[sent.number] = sent
            known_ends = [
                end
                for paused_by, end in pauses
                if _knows_pause(story, sent, paused_by)
                and not _is_learned_while_blocked(story, paused_by, at)
            ]
            until = max(known_ends, default=-inf)
            if at < until - _SLACK:
                yield sent, f"sent {until - at:.2f} s before the end of a pause"
            last = pauses[-1][0] if pauses else None
            # If another worker got the answer that asks for the pause, this worker learns about the pause when it next
            # asks the Redis server for permission to send a request. It can fetch its first robots.txt of the host
            # without asking, so its requests for robots.txt are excused until it has received one.
            is_new = sent.is_robots and not history.robots_texts(
                until=at, process=sent.process
            )
            is_new = is_new and last is not None and last.process != sent.process
            # The wire does not count the requests of a driver as requests in flight. So it does not hold back requests
            # that bypass the scheduler when a driver already has a request in flight.
            is_new |= story.world.driver is not None and sent.bypasses_scheduler
            if last is not None and not is_new and _knows_pause(story, sent, last):
                others = in_flight.values()
                in_process = sum(other.process == sent.process for other in others)
                count = sum(
                    _counts_in_flight(story, other, sent, last) for other in others
                )
                if max(in_process, count) > concurrency:
                    yield (
                        sent,
                        f"{max(in_process, count)} requests in flight after a pause",
                    )
            continue
        in_flight.pop(sent.number, None)
        if sent.received_at is None or (is_page and sent.number in single):
            continue
        if status in {429, 503} and is_page:
            pauses.append((sent, at + max(requested_pause(sent), 1.0)))
            concurrency = 1
        elif status and pauses and sent.at >= pauses[-1][1] - _SLACK:
            concurrency += 1
            # The host has recovered when the number of requests at a time reaches the normal limit.
            if concurrency >= story.world.settings["CONCURRENT_REQUESTS_PER_DOMAIN"]:
                concurrency = inf


def _is_learned_while_blocked(story: Story, paused_by: SentRequest, at: float) -> bool:
    """Whether a driver has blocked the event loop until the time *at*, so that the process did not know before *at*
    about the pause that the answer to *paused_by* asks for.
    """
    driver = story.world.driver
    is_blocking = driver is not None and driver.is_blocking and paused_by.is_by_driver
    return is_blocking and at <= _loop_is_free_at(story, paused_by) + _SLACK


def _loop_is_free_at(story: Story, sent: SentRequest) -> float:
    """Return the latest time at which the process begins to handle the answer to *sent*.

    Usually, this is the end of *sent*. A driver that blocks the event loop first fetches the other pages that Scrapy
    has already passed to it, one after the other. Then it is the end of the last of these pages.
    """
    # *sent* and the other pages are in the downloader, which contains at most CONCURRENT_REQUESTS requests.
    free_at, driver = _end_of(sent, story), story.world.driver
    if driver is None or not (driver.is_blocking and sent.is_by_driver):
        return free_at
    later = [
        other
        for other in story.world.log
        if other.is_by_driver and other.process == sent.process and other.at > sent.at
    ]
    for other in later[: story.world.settings["CONCURRENT_REQUESTS"] - 1]:
        if other.at > free_at + _SLACK:
            break
        free_at = _end_of(other, story)
    return free_at


def _single_503s(story: Story, log: list[SentRequest]) -> set[int]:
    """Return the numbers of the requests that got a 503 that starts no pause.

    A 503 without Retry-After starts no pause, unless the previous answer of the host to the same process was a 503. A
    process forgets a 503 after half a minute.
    """
    single = set()
    last_503: dict[int, float] = {}
    for sent in sorted(
        (s for s in log if s.received_at), key=lambda s: _end_of(s, story)
    ):
        if not sent.answer.status:
            continue
        at, before = _end_of(sent, story), last_503.pop(sent.process, -inf)
        if sent.answer.status == 503:
            last_503[sent.process] = at
            is_first = at - before > _HOST_FORGOTTEN_AFTER
            if is_first and "Retry-After" not in sent.answer.headers:
                single.add(sent.number)
    return single


def _knows_pause(story: Story, sent: SentRequest, paused_by: SentRequest) -> bool:
    """Whether the process of *sent* knows, before it sends *sent*, about the pause that the answer to *paused_by* asks
    for.

    A worker does not know about a pause of another worker while the Redis server is unreachable or after it has lost
    data.
    """
    assert paused_by.received_at is not None
    known_at = paused_by.received_at
    if story.world.kind == "workers" and sent.process != paused_by.process:
        if any(paused_by.at < loss < sent.at for loss in story.data_losses):
            return False
        server_ends = [
            ends
            for begins, ends, process in story.disturbances
            if process is None and begins <= known_at < ends
        ]
        # The worker that got the pause can share it only in its next call to the server, and the worker of *sent*
        # learns it only in its own next call. Each of them may first have to wait for the reply to a call that is under
        # way.
        known_at += _PAUSE_SHARED_AFTER + 4 * story.world.lag
        known_at = max([known_at, *server_ends])
    return _decided_at(story, sent) >= known_at


def _is_pause_unsaved(story: Story, paused_by: SentRequest) -> bool:
    """Whether the JOBDIR does not contain the pause that the answer to *paused_by* asks for, because the process was
    killed or the disk was full.
    """
    at = paused_by.answered_at or inf
    saved_at = _loop_is_free_at(story, paused_by) + _PAUSE_SAVED_AFTER
    is_killed = any(at <= killed_at < saved_at for killed_at in story.kill_times)
    return is_killed or any(
        begins <= at <= ends for begins, ends, _ in story.disturbances
    )


def _counts_in_flight(
    story: Story, other: SentRequest, sent: SentRequest, paused_by: SentRequest
) -> bool:
    """Whether the request *other*, which is in flight when *sent* is sent, counts against the limit of requests in
    flight after a pause. The limit is for all workers together.

    A request from the shared queue counts. A request for a robots.txt, or a request that bypassed the scheduler, counts
    if its worker knew about the pause. If the Redis server has lost its data about the request or about the pause, the
    request does not count.

    :param paused_by: the request whose answer asks for the pause
    """
    if other is sent or story.world.kind != "workers":
        return True
    if any(other.at < loss < sent.at for loss in story.data_losses):
        return False
    if other.process != paused_by.process and any(
        paused_by.at < loss < other.at for loss in story.data_losses
    ):
        return False  # The server has lost the pause.
    is_from_queue = not (other.bypasses_scheduler or other.is_robots)
    return is_from_queue or _knows_pause(story, other, paused_by)


def _check_concurrency(story: Story) -> Iterator[Violation]:
    """No more requests are in flight than the settings allow."""
    settings = story.world.settings
    # If a driver sends a request for a robots.txt or a leaf, the add-on cannot know the time of sending, so the request
    # is left out.
    counted = [
        s
        for s in story.world.log
        if not _has_unknown_send_time(s) or not (s.is_robots or s.is_leaf)
    ]
    events = [(sent.at, 1, sent) for sent in counted]
    events += [(_end_of(sent, story), 0, sent) for sent in counted]
    # The number of requests in flight, by host and process. The process None stands for all workers together.
    by_host: Counter[tuple[str, int | None]] = Counter()
    by_process: Counter[int] = Counter()
    # For each host: the number of requests in flight that may have waited at the wire.
    at_wire: Counter[str] = Counter()
    for at, change, sent in sorted(events, key=lambda event: event[:2]):
        # Requests of all workers count against the limit of a host. But requests for robots.txt and leaves count only
        # in the worker that sends them, because the worker that owns the host does not know about them. After the Redis
        # server has lost its data, it does not know which worker owns a host, so each worker is counted alone.
        is_shared = story.world.kind == "workers" and not story.data_losses
        is_shared = is_shared and not (sent.is_robots or sent.is_leaf)
        counted_for = (None, sent.process) if is_shared else (sent.process,)
        for process in counted_for:
            by_host[sent.host, process] += 1 if change else -1
        at_wire[sent.host] += _may_wait_at_wire(sent) * (1 if change else -1)
        # CONCURRENT_REQUESTS does not limit requests for robots.txt, nor requests that bypass the scheduler.
        if not (sent.is_robots or sent.is_leaf):
            by_process[sent.process] += 1 if change else -1
        # One more request is allowed if the project has a driver, a middleware that fetches pages itself. The wire does
        # not see the requests of the driver.
        is_excused = story.world.driver is not None and at_wire[sent.host] > 0
        max_at_host = settings["CONCURRENT_REQUESTS_PER_DOMAIN"] + is_excused
        at_host = max(by_host[sent.host, process] for process in counted_for)
        if change and at_host > max_at_host:
            yield Violation(at, sent.host, f"too many requests to one host: {sent}")
        # While a robots.txt is fetched, Scrapy's own scheduler lets one more request into the downloader.
        is_strict = "SCHEDULER_PRIORITY_QUEUE" not in settings
        in_process = by_process[sent.process]
        is_strict = is_strict and not (sent.is_robots or sent.is_leaf)
        if change and is_strict and in_process > settings["CONCURRENT_REQUESTS"]:
            yield Violation(at, sent.host, f"too many requests in flight: {sent}")


def _may_wait_at_wire(sent: SentRequest) -> bool:
    """Whether the request may have waited at the wire: it is for a robots.txt, bypassed the scheduler, was redirected,
    or was held back by a middleware of the project.
    """
    is_late = sent.is_robots or sent.is_leaf or sent.held_since is not None
    return is_late and not sent.is_by_driver


def _check_addresses(story: Story) -> Iterator[Violation]:
    """No more requests are in flight to an IP address than the settings allow. A host counts for its address only while
    the process knows the address: from the first response, until the host had no request in flight for half a minute.
    """
    world = story.world
    limit = world.settings.get("REP_CONCURRENCY_PER_ADDRESS", 0)
    events = [(sent.at, 1, sent) for sent in world.log]
    events += [(_end_of(sent, story), 0, sent) for sent in world.log]
    in_flight: dict[tuple[int, str], set[int]] = defaultdict(set)
    # For each process and each host whose address the process knows: the time at which a request was last in flight,
    # and the time since which the process knows the address.
    last_in_flight: dict[tuple[int, str], float] = {}
    known_at: dict[tuple[int, str], float] = {}
    # The time for which a request may wait in its download slot after the wire has released it.
    in_slot = float(world.settings["DOWNLOAD_DELAY"])
    for at, begins, sent in (
        sorted(events, key=lambda event: event[:2]) if limit else ()
    ):
        key = sent.process, sent.host
        is_alone = not in_flight[key]
        if (
            begins
            and is_alone
            and at > last_in_flight.get(key, at) + _HOST_FORGOTTEN_AFTER - _SLACK
        ):
            last_in_flight.pop(key, None)
            known_at.pop(key, None)
        (in_flight[key].add if begins else in_flight[key].discard)(sent.number)
        shows_address = sent.answer.status > 0 and sent.received_at is not None
        shows_address = shows_address and not sent.is_by_driver
        shows_address = shows_address and (sent.is_robots or not _hides_answers(story))
        if key in last_in_flight or (not begins and shows_address):
            last_in_flight[key] = at
            known_at.setdefault(key, at)
        address = world.addresses[sent.host]
        hosts_at_address = [
            other
            for other, since in known_at.items()
            if other[0] == sent.process and world.addresses[other[1]] == address
            if since <= at - in_slot
        ]
        at_once = sum(len(in_flight[other]) for other in hosts_at_address)
        # One more request is allowed if the project has a driver, a middleware that fetches pages itself. The wire does
        # not see the requests of the driver.
        is_excused = world.driver is not None and _may_wait_at_wire(sent)
        if begins and key in hosts_at_address and at_once > limit + is_excused:
            yield Violation(at, sent.host, f"too many requests to {address}: {sent}")


def _check_pages(story: Story) -> Iterator[Violation]:
    """All processes together fetch no more pages of a host than the page limit allows."""
    if story.disturbances:
        # While the JOBDIR cannot be written, pages are fetched but not counted in it. So a resumed crawl can exceed the
        # limit.
        return
    pages: dict[str, set[str]] = defaultdict(set)
    for sent in story.world.log:
        if sent.is_page_of_host:
            pages[sent.host].add(sent.path)
            if len(pages[sent.host]) > story.world.page_limit(sent.host):
                yield Violation(
                    sent.at, sent.host, f"more pages than the page limit: {sent}"
                )


def _end_of(sent: SentRequest, story: Story) -> float:
    """Return the time at which a request was over: it was answered, or its process was killed. If neither happened, the
    request was cancelled, and counts as over when it was sent.
    """
    killed_at = story.processes[sent.process].killed_at
    return sent.answered_at or killed_at or sent.at


def _hides_answers(story: Story) -> bool:
    """Whether a component nearer to the network than the wire hides answers to pages from the wire."""
    replacement = story.world.replacement
    return replacement is not None and replacement.order > WIRE_ORDER


def _check_outages(story: Story) -> Iterator[Violation]:
    """While the crawler has no network, requests for robots.txt are sent at least a second apart. No request for a page
    is sent, or given up with a network error.

    The rule applies from the time at which the crawl must know that the network is gone (:func:`_network_gone_at`). If
    all hosts refuse connections, as in a ban, the crawl takes this for a network that is gone. If a process has got no
    answer from any host, the rule applies for at most REP_WAIT_TIMEOUT after the first failure.
    """
    processes = range(len(story.processes))
    periods = [*story.world.outages]
    if story.world.is_all_banned:
        periods.append((min(story.world.bans.values()), inf))
    for (begins, ends), process in product(periods, processes):
        log = [s for s in story.world.log if s.process == process]
        failed = [s for s in log if begins <= s.at < ends and s.says_no_connection]
        last_sent_at = gone_at = _network_gone_at(failed, log)
        until = ends
        has_worked = any(
            s.answer.status and s.received_at is not None and s.received_at < gone_at
            for s in story.world.log
            if s.is_robots or not _hides_answers(story)
        )
        if not has_worked:
            # No host has answered yet. The crawl cannot know that the network is gone: perhaps no host has a server.
            continue
        if gone_at < inf and not any(s.answer.status and s.at < ends for s in log):
            until = failed[0].at + story.world.settings["REP_WAIT_TIMEOUT"]
        for sent in log:
            if gone_at + _SLACK < sent.at < min(
                until, ends
            ) and not _has_unknown_send_time(sent):
                if sent.is_robots and sent.held_since is not None:
                    continue  # A component held the request back, and chose the time of sending.
                if not sent.is_robots and _decided_at(story, sent) <= gone_at + _SLACK:
                    continue
                if not sent.is_robots:
                    text = f"a page is sent without a network: {sent}"
                    yield Violation(sent.at, sent.host, text)
                elif sent.at - last_sent_at < 1.0 - _SLACK:
                    text = f"sent {sent.at - last_sent_at:.2f} s after the last request without a network: {sent}"
                    yield Violation(sent.at, sent.host, text)
                last_sent_at = sent.at
        held_urls = {
            f"http://{s.host}{s.path}" for s in log if s.held_since is not None
        }
        # When the network has been gone for REP_WAIT_TIMEOUT, the crawl closes, or all hosts count as unreachable.
        closes = gone_at + story.world.settings["REP_WAIT_TIMEOUT"] - 1.0
        for outcome in story.outcomes if story.world.kind == "plain" else ():
            # CannotResolveHostError is the error of an outage. Refused connections are not checked, because the crawl
            # can take a few refused connections for an outage. After this false alarm, more hosts must fail before the
            # network counts as gone again, and the world can have too few hosts.
            is_given_up = outcome.exception == "CannotResolveHostError"
            # If a component held a request back, the component chose the time of sending.
            is_given_up = is_given_up and outcome.url not in held_urls
            if is_given_up and gone_at + _SLACK < outcome.at < closes:
                text = f"given up without a network: {outcome.url}"
                yield Violation(outcome.at, "", text)


def _network_gone_at(failed: list[SentRequest], log: list[SentRequest]) -> float:
    """Return the time at which the crawl must know that the network is gone, or infinity.

    *failed* has the requests that failed without a connection, *log* has all requests of the process.
    """
    for number, sent in enumerate(failed, 1):
        hosts = {failure.host for failure in failed[:number]}
        if len(hosts) < _MIN_FAILED_HOSTS or number < _MIN_FAILED_REQUESTS:
            continue
        # An answer shows that the network works only if its request was sent after the first failure. For a request of
        # a driver, the time of the answer is used, because only the driver knows when it has sent the request.
        first_failure_at = failed[0].received_at or inf
        is_answered = any(
            s.received_at
            and first_failure_at <= (s.received_at if s.is_by_driver else s.at)
            and s.received_at <= sent.at
            and s.answer.status
            for s in log
        )
        if not is_answered:
            return sent.received_at or inf
    return inf
