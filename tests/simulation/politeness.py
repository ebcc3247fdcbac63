"""The judge of politeness: compares when each request was sent with what its host allows and asks for."""

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
"""The inaccuracy of sums of floating-point numbers and of an event loop, in seconds."""

_PAUSE_SAVED_AFTER = 0.1
"""After so many seconds, a JOBDIR knows of a pause."""

_PAUSE_SHARED_AFTER = 0.25
"""After so many seconds, other workers know of one."""

_HOST_FORGOTTEN_AFTER = 30.0
"""After so many seconds, the delay of a host to which nothing is sent need not be known any more."""

_NO_SERVER_TIMEOUT = 10.0
"""After so many seconds, requests to a host without a server are refused."""

_MIN_LIFETIME = 300.0
"""For so many seconds, a robots.txt is used even if its Cache-Control says less."""

_LEASE_RENEWED_WITHIN = 1.0
"""A worker that has sent something renews its lease within so many seconds, if the server answers."""

_MIN_FAILED_HOSTS, _MIN_FAILED_REQUESTS = 5, 20
"""When so many hosts, and so many requests in a row, have failed, the network counts as gone."""


class Violation(NamedTuple):
    """What a crawl did wrong."""

    at: float
    host: str
    """Empty if it concerns all."""

    text: str


class RobotsText(NamedTuple):
    """What a robots.txt, or the override in its place, says."""

    at: float
    """When it came."""

    process: int
    body: str
    lifetime: float

    @property
    def delay(self) -> float:
        """The Crawl-delay that it states; 0 if none."""
        lines = self.body.splitlines()
        stated = [line for line in lines if line.startswith("Crawl-delay: ")]
        return float(stated[0].split()[1]) if stated else 0.0

    def allows(self, path: str, agent: str) -> bool:
        """Whether the group of *agent*, or the one for all, allows a page."""
        groups = [group.splitlines() for group in self.body.split("User-agent: ")[1:]]
        by_agent = {group[0]: group for group in groups}
        lines = by_agent.get(agent, by_agent.get("*", []))
        return not any(f"Disallow: {path[:n]}" in lines for n in range(1, len(path)))


class HostHistory:
    """What a host has answered in a story, and what follows from that for the crawl."""

    def __init__(self, story: Story, host: str) -> None:
        self.host = host
        self.log = [sent for sent in story.world.log if sent.host == host]
        self.settings = story.world.settings
        overrides = self.settings.get("REP_OVERRIDES", {})
        override = overrides.get(host, overrides.get("*", "obey"))
        is_obeyed = override == "obey" or isinstance(override, dict)
        self.override = None if is_obeyed else override
        """The text in place of its robots.txt, or ``ignore``."""

    def robots_texts(
        self, *, until: float, process: int | None = None
    ) -> list[RobotsText]:
        """Return each robots.txt that has come, in order; for one *process*, if that is given."""
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
        stated = answer.headers.get("Cache-Control", "max-age=inf")
        seconds = max(float(stated.removeprefix("max-age=")), _MIN_LIFETIME)
        return min(seconds, float(self.settings["REP_MAX_AGE"]))

    def has_failed(self, *, until: float, waits: bool) -> bool:
        """Whether the robots.txt could not be fetched, and for long enough if a request *waits* for it."""
        last = max((text.at for text in self.robots_texts(until=until)), default=-inf)
        tries = [
            s
            for s in self.log
            if s.is_robots and last < (s.received_at or inf) <= until
        ]
        if not tries:
            return False
        if any(sent.raised_driver_error for sent in tries):
            return True  # For the crawl, a component has failed: requests do not wait for that.
        wait = float(self.settings["REP_WAIT_TIMEOUT"])
        first = tries[0].received_at or 0.0
        # A host that seems to have no server is asked once more, and then refused until it answers.
        early = [
            s
            for s in tries
            if (s.received_at or 0.0) < first + _NO_SERVER_TIMEOUT + 5.0
        ]
        if all(sent.answer.error or 300 <= sent.answer.status < 400 for sent in early):
            wait = min(wait, _NO_SERVER_TIMEOUT)
        waited = until - first
        # The pause before the next try doubles, also if the host asks for a short one.
        doubled = 2.0 ** min(len(tries), 12)
        will_wait = waited + max(doubled, *(requested_pause(sent) for sent in tries))
        return not waits or max(waited, will_wait) >= wait - 1.0

    def longest_pause(self, *, until: float, process: int | None = None) -> float:
        """Return the longest time in which the host answered with 429 or 503 only, or not at all, pauses
        included. If *process* is given, only answers to that process count.
        """
        longest, begins, last = 0.0, None, -inf
        # No pause is shorter than the delay of the host.
        least = max(
            (text.delay for text in self.robots_texts(until=until)), default=0.0
        )
        log = [
            s for s in self.log if s.received_at is not None and s.received_at <= until
        ]
        log = [s for s in log if process in {None, s.process}]
        for sent in sorted(log, key=lambda sent: sent.received_at or 0.0):
            ended = sent.received_at or 0.0
            if sent.answer.status in {0, 429, 503}:
                begins, last = ended if begins is None else begins, ended
                pause = max(
                    requested_pause(sent) or self.settings["REP_BACKOFF_MAX"], least
                )
                longest = max(longest, ended + pause - begins)
            elif sent.at >= last:  # Else it was on its way when the host failed.
                begins = None
        return longest


def requested_pause(sent: SentRequest) -> float:
    """Return for how many seconds of pause the answer asks."""
    return float(sent.answer.headers.get("Retry-After", 0))


# For how many requests that wait a robots.txt holds when it comes, whatever its lifetime.
_DECIDED_ON_ARRIVAL = 3


def politeness_violations(story: Story) -> list[Violation]:
    """Return what was sent that should not have been, or not then."""
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
    """No page is sent before a robots.txt allows it, nor by a robots.txt that is stale."""
    # With a delay, a request waits in its slot after it was allowed.
    settings = story.world.settings
    in_slot = float(settings["DOWNLOAD_DELAY"])
    in_slot *= max(2, settings["CONCURRENT_REQUESTS_PER_DOMAIN"])
    in_slot += 1.0
    in_downloader = in_slot
    for sent in log if history.override != "ignore" else ():
        if sent.is_robots:
            continue
        # Its robots.txt may become stale while a component holds it back.
        held_since = sent.at if sent.held_since is None else sent.held_since
        in_slot = in_downloader + sent.at - held_since
        # Each worker fetches its own copy; the next process of a JOBDIR has the copy of the last one.
        process = sent.process if story.world.kind == "workers" else None
        robots_texts = history.robots_texts(until=sent.at, process=process)
        if not robots_texts:
            yield sent, "sent before its robots.txt"
            continue
        last = robots_texts[-1]
        # A request may have been let through just before the last answer came.
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
        # With a delay longer than its lifetime, a robots.txt serves for one request.
        until = last.at + last.lifetime
        if failures:
            until = max(
                until, (failures[-1].received_at or 0.0) + _lifetime_after(failures)
            )
        # In a pause that is too long to wait for, no robots.txt is fetched: it counts as unreachable,
        # and the last good copy is used.
        wait = settings["REP_WAIT_TIMEOUT"]
        for other in history.log:
            ends = (other.received_at or -inf) + requested_pause(other)
            if (
                requested_pause(other) > wait
                and ends - requested_pause(other) <= sent.at
                and until <= ends
            ):
                until = ends + _MIN_LIFETIME
        # If the clock is set back, a robots.txt seems to be younger than it is.
        set_back = max((-by for _, by in story.world.clock_changes), default=0.0)
        late = sent.at - until - last.delay - in_slot - max(set_back, 0.0)
        is_gone = any(a <= sent.at < b for a, b in story.world.outages)
        # What it says holds for the next request, however long that waits for its turn: for one of the
        # scheduler, and for those that have come past it and waited for it.
        known_at = failures[-1].at if failures else last.at
        since = [
            s
            for s in log
            if not s.is_robots
            and known_at < s.at < sent.at
            and s.process == sent.process
        ]
        if len(since) < _DECIDED_ON_ARRIVAL:
            continue
        if late > 0 and not is_gone and late > _waited_in_slot(story, sent):
            yield sent, f"sent {late:.1f} s after its robots.txt was stale"


def _decided_at(story: Story, sent: SentRequest) -> float:
    """Return when the crawl has decided for the last time about a request: from then on, only components of the
    project have held it back.
    """
    hold = story.world.hold
    held_since = sent.at if sent.held_since is None else sent.held_since
    if sent.is_by_driver:
        return held_since - _SLACK
    return held_since if hold is not None and hold.order > WIRE_ORDER else sent.at


def _has_unknown_send_time(sent: SentRequest) -> bool:
    """Whether the crawl could not know when this request would be sent: a middleware has fetched it by itself,
    and it did not come from the scheduler, or was held back.
    """
    is_planned = (
        not (sent.is_robots or sent.bypasses_scheduler) and sent.held_since is None
    )
    return sent.is_by_driver and not is_planned


def _waited_in_slot(story: Story, sent: SentRequest) -> float:
    """Return how long a request may have waited in its download slot for a request to another host. Scrapy has
    that one in the same slot because the host of the slot has redirected it.
    """
    ended = [
        other
        for other in story.world.log
        if other.slot == sent.slot and other.host != sent.host
        if other.at < sent.at and abs(_end_of(other, story) - sent.at) < _SLACK
    ]
    return max((sent.at - other.at for other in ended), default=0.0)


def _lifetime_after(failures: list[SentRequest]) -> float:
    """Return for how long the last good copy is used before robots.txt is fetched again."""
    doubled = 45.0 * 2 ** min(len(failures) - 1, 7)
    return max(_MIN_LIFETIME, requested_pause(failures[-1]), doubled)


def _check_delays(
    story: Story, history: HostHistory, log: list[SentRequest]
) -> Iterator[tuple[SentRequest, str]]:
    """From the end of each request to the start of the next, at least the Crawl-delay passes."""
    delay = 0.0
    answered_at: list[SentRequest] = []
    if history.override is not None:
        delay = max(
            (text.delay for text in history.robots_texts(until=inf)), default=0.0
        )
    is_forgotten = False
    # What is sent into an outage reaches no host.
    for sent, after in pairwise(s for s in log if s.answer.error != "unresolved"):
        if sent.answer.status == 200 and sent.is_robots and history.override is None:
            delay = RobotsText(0.0, 0, sent.answer.body, 0.0).delay
        if sent.answered_at is not None:
            answered_at.append(sent)
        known_ends = [
            s.answered_at or inf
            for s in answered_at
            if _may_know(story, s, after)
            and not _is_beside_driver(s, after)
            and not (_has_unknown_send_time(s) and (s.answered_at or inf) > after.at)
        ]
        gap = after.at - max(known_ends, default=-inf)
        # A new process does not know the delay before it has the robots.txt; nor does one that has
        # forgotten the host.
        is_forgotten = (
            is_forgotten and sent.is_robots
        ) or gap > delay + _HOST_FORGOTTEN_AFTER
        is_new = not history.robots_texts(until=after.at, process=after.process)
        is_known = not (after.is_robots and (is_forgotten or is_new))
        # With an override, robots.txt is only fetched to see whether the network is back.
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
    """Whether a middleware that fetches by itself has sent one of the two requests, while the other one was sent
    past the scheduler: the wire does not know of the first one before it has ended.
    """
    # A middleware that blocks the event loop lets the other request go when it ends.
    if not sent.at <= after.at <= (sent.answered_at or inf) + _SLACK:
        return False
    return any(
        request.is_by_driver and (other.is_leaf or other.is_robots)
        for request, other in ((sent, after), (after, sent))
    )


def _may_know(story: Story, sent: SentRequest, after: SentRequest) -> bool:
    """Whether the process that sends *after* may know that *sent* was sent. Another worker does not know it if the
    server was gone when one of the two was sent past the queue, or has lost its data since *sent*. Nor
    does it if the lease of the worker of *sent* has ended while *sent* was in flight (the server was
    gone, or the worker stood still), or if *sent* is the robots.txt from which its worker learned of the delay.
    """
    if story.world.kind != "workers" or sent.process == after.process:
        return True
    robots_texts = HostHistory(story, sent.host).robots_texts(
        until=sent.at, process=sent.process
    )
    if sent.is_robots and not robots_texts:
        return False
    if any(sent.at <= data_losses < after.at for data_losses in story.data_losses):
        return False
    least = _min_lease(story)
    for begins, ends, process in story.disturbances:
        is_server = process is None
        for request in (sent, after) if is_server else ():
            if (request.is_leaf or request.is_robots) and begins <= request.at < ends:
                return False
        is_on_its_way = sent.at < ends and begins < _end_of(sent, story)
        is_of_it = is_server or process == sent.process
        if is_on_its_way and is_of_it and ends - begins > least:
            return False
    return True


def _min_lease(story: Story) -> float:
    """Return for how many seconds the lease of a worker lasts at least, from any moment on."""
    return float(story.world.settings["REP_QUEUE_LEASE"]) - _LEASE_RENEWED_WITHIN


def lease_may_end(story: Story) -> bool:
    """Whether the lease of a worker may have ended that went on afterwards."""
    least = _min_lease(story)
    return any(ends - begins > least for begins, ends, _ in story.disturbances)


def _check_pauses(
    story: Story, history: HostHistory, log: list[SentRequest]
) -> Iterator[tuple[SentRequest, str]]:
    """After a 429 or 503, neither a page nor a robots.txt is fetched for as long as the host asks for, or a
    second; then one at a time, and one more after each success. A 503 without Retry-After counts
    only if the answer before it was a 503 too.
    """
    asked: list[tuple[SentRequest, float]] = []
    """The requests whose answers asked for a pause, and the end of the pause."""
    in_flight: dict[int, SentRequest] = {}
    concurrency, process = inf, 0
    single = _single_503s(story, log)
    events = [(sent.at, 1, sent) for sent in log if not _has_unknown_send_time(sent)]
    events += [(_end_of(sent, story), 0, sent) for sent in log]
    for at, is_start, sent in sorted(events, key=lambda event: event[:2]):
        is_page, status = not sent.is_robots, sent.answer.status
        if story.world.kind == "job" and sent.process != process:
            process, in_flight = sent.process, {}
            if not any(at < until for _, until in asked) or _is_pause_unsaved(
                story, asked[-1][0]
            ):
                asked, concurrency = [], inf
        if is_start:
            if _end_of(sent, story) > at:  # Else it was cancelled at once.
                in_flight[sent.number] = sent
            heard = [
                end
                for busy, end in asked
                if _knows_pause(story, sent, busy)
                and not _is_learned_while_blocked(story, busy, at)
            ]
            until = max(heard, default=-inf)
            if at < until - _SLACK:
                yield sent, f"sent {until - at:.2f} s before the end of a pause"
            last = asked[-1][0] if asked else None
            # A worker learns of a pause of others when it asks for its first turn within that.
            is_new = sent.is_robots and not history.robots_texts(
                until=at, process=sent.process
            )
            is_new = is_new and last is not None and last.process != sent.process
            # What is sent past the scheduler cannot know of a page that does not come to the wire.
            is_new |= story.world.driver is not None and sent.bypasses_scheduler
            if last is not None and not is_new and _knows_pause(story, sent, last):
                other_hosts = in_flight.values()
                in_process = sum(other.process == sent.process for other in other_hosts)
                count = sum(
                    _counts_in_flight(story, other, sent, last) for other in other_hosts
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
            asked.append((sent, at + max(requested_pause(sent), 1.0)))
            concurrency = 1
        elif status and asked and sent.at >= asked[-1][1] - _SLACK:
            concurrency += 1
            # At the limit of its slot, a host has recovered.
            if concurrency >= story.world.settings["CONCURRENT_REQUESTS_PER_DOMAIN"]:
                concurrency = inf


def _is_learned_while_blocked(story: Story, busy: SentRequest, at: float) -> bool:
    """Whether the process only hears what *busy* asks for at that time: its driver has blocked the loop, in which
    the next request has begun to wait for its download slot before.
    """
    driver = story.world.driver
    is_blocking = driver is not None and driver.is_blocking and busy.is_by_driver
    return is_blocking and at <= _end_of(busy, story) + _SLACK


def _single_503s(story: Story, log: list[SentRequest]) -> set[int]:
    """Return the numbers of the requests whose 503 asks for no pause: it has no Retry-After, and the last answer
    of the host to that process was no 503, or is forgotten.
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


def _knows_pause(story: Story, sent: SentRequest, asked: SentRequest) -> bool:
    """Whether the process that sends *sent* knows that the host has *asked* for a pause. While the server is
    gone, a worker cannot tell the others.
    """
    assert asked.received_at is not None
    heard = asked.received_at
    if story.world.kind == "workers" and sent.process != asked.process:
        if any(asked.at < data_losses < sent.at for data_losses in story.data_losses):
            return False
        gone = [b for a, b, of in story.disturbances if of is None and a <= heard < b]
        # Each of the two may wait for the answer to its last call before it makes the next one.
        heard = max([heard + _PAUSE_SHARED_AFTER + 4 * story.world.lag, *gone])
    return _decided_at(story, sent) >= heard


def _is_pause_unsaved(story: Story, asked: SentRequest) -> bool:
    """Whether a JOBDIR has not noted a pause: the process was killed at once, or the disk was full."""
    at = asked.answered_at or inf
    is_killed = any(
        at <= killed < at + _PAUSE_SAVED_AFTER for killed in story.kill_times
    )
    return is_killed or any(a <= at <= b for a, b, _ in story.disturbances)


def _counts_in_flight(
    story: Story, other: SentRequest, sent: SentRequest, asked: SentRequest
) -> bool:
    """Whether *other* counts as in flight for all workers when *sent* is sent after a pause. A request past the
    queue, and one for robots.txt, do not if their worker did not know of the pause.
    """
    if other is sent or story.world.kind != "workers":
        return True
    if any(other.at < data_losses < sent.at for data_losses in story.data_losses):
        return False
    if other.process != asked.process and any(
        asked.at < data_losses < other.at for data_losses in story.data_losses
    ):
        return False  # The server has lost the pause.
    is_of_queue = not (other.bypasses_scheduler or other.is_robots)
    return is_of_queue or _knows_pause(story, other, asked)


def _check_concurrency(story: Story) -> Iterator[Violation]:
    """No more requests are in flight than the settings allow."""
    settings = story.world.settings
    # All requests count for their host, but the owner of a host does not count requests that other workers send
    # past the queue. Requests that a callback or a pipeline downloads itself do not count for CONCURRENT_REQUESTS.
    pages = [
        s
        for s in story.world.log
        if not _has_unknown_send_time(s) or not (s.is_robots or s.is_leaf)
    ]
    events = [(sent.at, 1, sent) for sent in pages]
    events += [(_end_of(sent, story), 0, sent) for sent in pages]
    by_host: Counter[tuple[str, int | None]] = Counter()
    by_process: Counter[int] = Counter()
    at_wire: Counter[str] = Counter()
    """How many requests are in flight to each host that have waited for their turn at the wire."""
    for at, change, sent in sorted(events, key=lambda event: event[:2]):
        # A server that loses what it had no longer knows who owns a host.
        is_shared = story.world.kind == "workers" and not story.data_losses
        is_shared = is_shared and not (sent.is_robots or sent.is_leaf)
        sharers = (None, sent.process) if is_shared else (sent.process,)
        for process in sharers:
            by_host[sent.host, process] += 1 if change else -1
        at_wire[sent.host] += _may_wait_at_wire(sent) * (1 if change else -1)
        if not (sent.is_robots or sent.is_leaf):
            by_process[sent.process] += 1 if change else -1
        # The wire does not know of a page that a driver fetches, or is about to fetch, beside those.
        is_excused = story.world.driver is not None and at_wire[sent.host] > 0
        most = settings["CONCURRENT_REQUESTS_PER_DOMAIN"] + is_excused
        at_host = max(by_host[sent.host, process] for process in sharers)
        if change and at_host > most:
            yield Violation(at, sent.host, f"too many requests to one host: {sent}")
        # While a robots.txt is fetched, Scrapy's own queue lets one more into the downloader.
        is_strict = "SCHEDULER_PRIORITY_QUEUE" not in settings
        at_once = by_process[sent.process]
        is_strict = is_strict and not (sent.is_robots or sent.is_leaf)
        if change and is_strict and at_once > settings["CONCURRENT_REQUESTS"]:
            yield Violation(at, sent.host, f"too many requests in flight: {sent}")


def _may_wait_at_wire(sent: SentRequest) -> bool:
    """Whether the request has its turn only at the wire: it is past the scheduler, or was held back or redirected."""
    is_late = sent.is_robots or sent.is_leaf or sent.held_since is not None
    return is_late and not sent.is_by_driver


def _check_addresses(story: Story) -> Iterator[Violation]:
    """No more requests are in flight to an address than the settings allow, once the address is known. A host
    is forgotten after half a minute in which no request to it was in flight.
    """
    world = story.world
    most = world.settings.get("REP_CONCURRENCY_PER_ADDRESS", 0)
    events = [(sent.at, 1, sent) for sent in world.log]
    events += [(_end_of(sent, story), 0, sent) for sent in world.log]
    # Nearest to the network, a component hides answers.
    hides = world.replacement is not None and world.replacement.order > WIRE_ORDER
    in_flight: dict[tuple[int, str], set[int]] = defaultdict(set)
    last_in_flight: dict[tuple[int, str], float] = {}
    """The hosts whose address a process knows, and when a request to each was last in flight."""
    known_at: dict[tuple[int, str], float] = {}
    # A request may wait in its download slot for so long after the wire has let it go.
    in_slot = float(world.settings["DOWNLOAD_DELAY"])
    for at, begins, sent in sorted(events, key=lambda event: event[:2]) if most else ():
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
        is_told = sent.answer.status > 0 and sent.received_at is not None
        is_told = is_told and not sent.is_by_driver and (sent.is_robots or not hides)
        if key in last_in_flight or (not begins and is_told):
            last_in_flight[key] = at
            known_at.setdefault(key, at)
        address = world.addresses[sent.host]
        known = [
            other
            for other, since in known_at.items()
            if other[0] == sent.process and world.addresses[other[1]] == address
            if since <= at - in_slot
        ]
        at_once = sum(len(in_flight[other]) for other in known)
        # Beside these, too, the wire does not know of a page that a driver fetches.
        is_excused = world.driver is not None and _may_wait_at_wire(sent)
        if begins and key in known and at_once > most + is_excused:
            yield Violation(at, sent.host, f"too many requests to {address}: {sent}")


def _check_pages(story: Story) -> Iterator[Violation]:
    """No more pages of a host are fetched than it may have, over all processes."""
    if story.disturbances:
        return  # While the file of the JOBDIR cannot be written, pages go on.
    pages: dict[str, set[str]] = defaultdict(set)
    for sent in story.world.log:
        if sent.is_page_of_host:
            pages[sent.host].add(sent.path)
            if len(pages[sent.host]) > story.world.page_limit(sent.host):
                yield Violation(sent.at, sent.host, f"one page too many: {sent}")


def _end_of(sent: SentRequest, story: Story) -> float:
    """Return when a request was over: answered, cancelled at once, or killed."""
    killed = story.processes[sent.process].killed_at
    return sent.answered_at or killed or sent.at


def _check_outages(story: Story) -> Iterator[Violation]:
    """When enough hosts have failed in a row, the network of the crawler counts as gone. From then on, requests
    for robots.txt are sent a second or more apart, and no page is sent or given up. If no
    host has ever answered a process, that ends after REP_WAIT_TIMEOUT. A ban by all hosts looks the same.
    """
    processes = range(len(story.processes))
    gone = [*story.world.outages]
    if story.world.is_all_banned:
        gone.append((min(story.world.bans.values()), inf))
    for (begins, ends), process in product(gone, processes):
        log = [s for s in story.world.log if s.process == process]
        failed = [s for s in log if begins <= s.at < ends and s.says_no_connection]
        last = noticed = _network_gone_at(failed, log)
        until = ends
        has_worked = any(
            s.answer.status and s.received_at is not None and s.received_at < noticed
            for s in story.world.log
        )
        if not has_worked:
            continue  # All hosts may be without a server: each is judged by itself.
        if noticed < inf and not any(s.answer.status and s.at < ends for s in log):
            until = failed[0].at + story.world.settings["REP_WAIT_TIMEOUT"]
        for sent in log:
            if noticed + _SLACK < sent.at < min(
                until, ends
            ) and not _has_unknown_send_time(sent):
                if sent.is_robots and sent.held_since is not None:
                    continue  # It was sent when the component let it go.
                if not sent.is_robots and _decided_at(story, sent) <= noticed + _SLACK:
                    continue
                if not sent.is_robots:
                    text = f"a page is sent without a network: {sent}"
                    yield Violation(sent.at, sent.host, text)
                elif sent.at - last < 1.0 - _SLACK:
                    text = f"sent {sent.at - last:.2f} s after the last one without a network: {sent}"
                    yield Violation(sent.at, sent.host, text)
                last = sent.at
        # Then the crawl closes, or all hosts are taken for unreachable.
        closes = noticed + story.world.settings["REP_WAIT_TIMEOUT"] - 1.0
        for outcome in story.outcomes if story.world.kind == "plain" else ():
            is_lost = outcome.exception == "CannotResolveHostError"
            if is_lost and noticed + _SLACK < outcome.at < closes:
                text = f"given up without a network: {outcome.url}"
                yield Violation(outcome.at, "", text)


def _network_gone_at(failed: list[SentRequest], log: list[SentRequest]) -> float:
    """Return when it must be clear that the network is gone."""
    for number, sent in enumerate(failed, 1):
        hosts = {failure.host for failure in failed[:number]}
        if len(hosts) < _MIN_FAILED_HOSTS or number < _MIN_FAILED_REQUESTS:
            continue
        # Requests that were in flight when the first host failed may be answered. A page that a driver has fetched
        # counts as sent when it is answered: only the driver knows when it was sent.
        first = failed[0].received_at or inf
        is_answered = any(
            s.received_at
            and first <= (s.received_at if s.is_by_driver else s.at)
            and s.received_at <= sent.at
            and s.answer.status
            for s in log
        )
        if not is_answered:
            return sent.received_at or inf
    return inf
