"""The judge of a crawl. It compares the outcomes of all requests, the stats and the ledger with what the hosts
answered.

The judge sees only the log of all requests, the settings, what the spider and its pipeline got, the stats, and the
ledger. "The server" is the Redis server, "a component" is a middleware of the project. These are the rules, each with
the function that checks it, here or in `politeness.py`:

- No request for a page is sent that the newest robots.txt of the host, or an override in the settings, disallows. This
  is also true for requests of pipelines, callbacks and components (`_check_rules`).
- No request for a page is sent if the Crawl-delay of the host exceeds REP_SKIP_DELAY_OVER (`_check_delays`).
- No request for a page is sent before the robots.txt of the host has been received, or while that robots.txt is stale
  (`_check_rules`).
- From the end of a request to the start of the next request to the same host, at least the Crawl-delay passes
  (`_check_delays`).
- After a 429 or 503, the host gets no request during the pause in Retry-After, or for one second without Retry-After.
  After the pause, requests are sent one at a time, and each success allows one more at a time (`_check_pauses`).
- The number of requests in flight to a host, to an address, and in all does not exceed the limits in the settings
  (`_check_concurrency`, `_check_addresses`).
- The number of pages of a host does not exceed the limit in the settings, even if processes are killed and resumed
  (`politeness._check_pages`).
- While the network of the crawler is gone, no request for a page is sent or given up. Only requests for robots.txt are
  sent, to test the network, at least a second apart (`_check_outages`).
- Each request has one outcome: an answer of a host, or a refusal. A kill loses no request (`_check_outcomes`).
- After a kill, a request is sent again only if it was in flight, or if the killed worker had taken it from the queue
  (`_check_sent_once`).
- A page whose callback was interrupted by a closing spider is fetched again (`_check_interrupted`).
- All workers together keep delays, pauses and limits, except where a worker could not know what another worker did: a
  lease has ended, the server was unreachable, or the server has lost data (`politeness._must_keep_delay`). Requests
  that bypass the scheduler, to hosts of other workers, are limited for each worker separately (`_check_concurrency`).
- Each refusal has a cause: an earlier answer of the host, or a missing answer (`_check_refusals`).
- If a host asks for a pause longer than REP_WAIT_TIMEOUT, requests that wait for the host are refused
  (`_check_wait_timeout`).
- The crawl ends, with a correct finish reason (`_check_end`).
- If no host answers any more, the crawl ends within REP_WAIT_TIMEOUT and ten seconds. Only in this case, the finish
  reason may be ``network_gone``, and requests may be left without an outcome (`_check_network_gone`).
- Items and links are dropped where a page says so, and nowhere else (`_check_pages`).
- Stats and ledger agree with the log (`_check_stats`, `_check_ledger`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from math import inf
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tests.simulation.politeness import (
    HostHistory,
    Violation,
    lease_may_end,
    politeness_violations,
    requested_pause,
)
from tests.simulation.world import (
    FIRST_CHANGED,
    FIRST_LEAF,
    OTHER_AGENT,
    WIRE_ORDER,
    number_in,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulation.crawl import Outcome, SpiderRequest, Story
    from tests.simulation.world import SentRequest

_REFUSALS = {"RobotsDenied", "BackingOff"}
"""The exceptions with which the add-on refuses requests."""

_EQUAL_WITHIN = 0.05
"""Gaps count as equal if they differ by less than this number of seconds."""

_MIN_FAILED_HOSTS = 5
"""The network counts as gone when this number of hosts has failed, and no host has answered since the first failure."""

_CLOSES_WITHIN = 10.0
"""A crawl without a network ends at most this number of seconds after REP_WAIT_TIMEOUT."""

_MIN_WAIT_FOR_ROBOTSTXT = 100.0
"""A request that bypasses the scheduler waits at least this number of seconds for its robots.txt. If the robots.txt has
not arrived by then, the request can be refused.
"""

_REFUSED_WITHIN = 30.0
"""A request that would wait too long for the end of a pause is refused within this number of seconds."""

_COMMITTED_AFTER = 1.0
"""If the callback of a request ended this number of seconds before a kill, or earlier, the request is not sent again.
"""


def find_violations(story: Story) -> list[Violation]:
    """Return all violations of the rules in the crawl that *story* records."""
    checks = (
        _check_end, _check_network_gone, _check_outcomes, _check_sent_once, _check_interrupted, _check_refusals,
        _check_wait_timeout, _check_pages, _check_stats,
    )  # fmt: skip
    return [
        *politeness_violations(story),
        *(violation for check in checks for violation in check(story)),
    ]


def _check_end(story: Story) -> Iterator[Violation]:
    """The crawl ends, with a correct finish reason."""
    if not story.has_ended:
        yield Violation(story.ended_at, "", "the crawl does not end")
    # The reason is robots_denied if requests were refused and no page was fetched. A 429 or 503 counts as a fetched
    # page, even if the request was retried and then refused.
    is_denied = any(outcome.exception == "RobotsDenied" for outcome in story.outcomes)
    has_page = any(outcome.status for outcome in story.outcomes) or any(
        sent.received_at and sent.answer.status in {429, 503} and not sent.is_robots
        for sent in story.world.log
    )
    is_denied = is_denied and not has_page
    expected = {"robots_denied" if is_denied else "finished"}
    has_pause = any(outcome.reason == "back-off" for outcome in story.outcomes)
    if story.world.kind != "plain" or has_pause:
        expected = {"robots_denied", "finished", "shutdown"}
    if any(fault.kind == "flush" for fault in story.world.faults):
        expected.add("queue_lost")
    if story.world.has_components:  # Components can hide answers from the add-on.
        expected |= {"robots_denied", "finished"}
    expected.add("network_gone")  # _check_network_gone checks this reason.
    for stats in story.stats.values():
        if stats["finish_reason"] not in expected:
            text = f"ended as {stats['finish_reason']}, not {' or '.join(expected)}"
            yield Violation(story.ended_at, "", text)


def _check_network_gone(story: Story) -> Iterator[Violation]:
    """A crawl that no host answers any more ends in time. No other crawl ends as ``network_gone``."""
    world, timeout = story.world, story.world.settings["REP_WAIT_TIMEOUT"]
    for process, stats in story.stats.items():
        if stats["finish_reason"] == "network_gone":
            ended_at = story.end_times[process]
            failures = _failures_since_last_answer(story, process, ended_at)
            failing_since = min(
                (s.received_at or ended_at for s in failures), default=ended_at
            )
            host_count = len({s.host for s in failures})
            # An answer cancels the failures before its request was sent. The crawl notes the time of sending before the
            # request waits in its download slot (DOWNLOAD_DELAY), the log notes it after the wait. So an answer can
            # cancel a failure for the judge, but not for the crawl.
            min_duration = (
                timeout - _EQUAL_WITHIN - 2.0 * float(world.settings["DOWNLOAD_DELAY"])
            )
            is_justified = (
                host_count >= _MIN_FAILED_HOSTS
                and ended_at - failing_since >= min_duration
            )
            if world.has_components:
                # If a component hides an answer, the add-on does not know that the network worked. So for the add-on,
                # the failures can begin earlier than for the judge, but not before the first failure in the log.
                first_failure_at = min(
                    (s.received_at or ended_at for s in world.log if s.answer.error),
                    default=ended_at,
                )
                is_justified = ended_at - first_failure_at >= timeout - _EQUAL_WITHIN
                is_justified = is_justified and ended_at - failing_since >= timeout / 2
            if not is_justified:
                text = f"ended as network_gone, {ended_at - failing_since:.2f} s after {host_count} hosts had failed"
                yield Violation(ended_at, "", text)
    if not world.is_all_banned or not story.processes:
        return
    process = story.processes[-1].number
    ended_at = story.end_times.get(process, story.ended_at)
    failures = _failures_since_last_answer(story, process, ended_at)
    hosts: set[str] = set()
    for sent in failures:
        if not sent.says_no_connection:
            continue
        hosts.add(sent.host)
        if len(hosts) == _MIN_FAILED_HOSTS:
            latest_end = (sent.received_at or inf) + timeout + _CLOSES_WITHIN
            if world.hold is not None:
                latest_end += world.hold.seconds
            if not any(s.answer.status for s in world.log if s.process == process):
                # No host has answered this process. The process gives up each host separately, and may first wait for
                # the Crawl-delay of the host, which it knows from an earlier process.
                latest_end += max(
                    host.crawl_delay or 0.0 for host in world.hosts.values()
                )
            last_failures = [
                s.received_at or 0.0 for s in failures if s.at < latest_end
            ]
            latest_end = max([latest_end, *last_failures])
            if ended_at > latest_end:
                text = f"ended {ended_at - (sent.received_at or 0.0):.0f} s after {_MIN_FAILED_HOSTS} hosts had failed"
                yield Violation(ended_at, "", text)
            return


def _failures_since_last_answer(
    story: Story, process: int, until: float
) -> list[SentRequest]:
    """Return the requests of a process that have failed, sorted by the time of the failure, without the failures that a
    later answer cancels.

    An answer shows that the network worked when the answered request was sent. So it cancels all failures before that
    time.
    """
    log = [
        sent for sent in story.world.log
        if sent.process == process and sent.received_at is not None and sent.received_at <= until
    ]  # fmt: skip
    failures: list[SentRequest] = []
    for sent in sorted(log, key=lambda sent: sent.received_at or 0.0):
        if sent.answer.error:
            failures.append(sent)
        elif sent.answer.status:
            # Only the driver knows when it has sent a request. The crawl uses the time of the answer.
            sent_at = (sent.received_at or 0.0) if sent.is_by_driver else sent.at
            failures = [
                failure
                for failure in failures
                if (failure.received_at or 0.0) > sent_at
            ]
    return failures


def _check_outcomes(story: Story) -> Iterator[Violation]:
    """Each request has one outcome: an answer from a host, or a refusal."""
    request_counts = Counter(request.url for request in story.spider_requests)
    outcome_counts = Counter(outcome.url for outcome in story.outcomes)
    # A request is only sent again if a process ends or loses its lease.
    is_sent_once = story.world.kind != "job" and all(
        fault.kind == "clock" for fault in story.world.faults
    )
    for url in outcome_counts - request_counts if is_sent_once else ():
        yield _violation_of(url, story, "has more outcomes than requests")
    is_complete = story.has_ended and not _is_cut_short(story)
    if story.world.kind == "plain":
        missing = request_counts - outcome_counts if is_complete else Counter()
    else:
        missing = Counter(_lost_urls(story)) if is_complete else Counter()
    for url in missing:
        yield _violation_of(url, story, "has neither an answer nor a refusal")
    sent_urls = {f"http://{sent.host}{sent.path}" for sent in story.world.log}
    for outcome in story.outcomes:
        is_sent = outcome.url in sent_urls or outcome.final_url in sent_urls
        if outcome.exception not in {*_REFUSALS, "SpiderClosing"} and not is_sent:
            text = f"was never sent, but its outcome is {outcome.exception or outcome.status}"
            yield _violation_of(outcome.url, story, text)


def _is_cut_short(story: Story) -> bool:
    """Whether requests may be left without an outcome: the finish reason is ``queue_lost`` or ``network_gone``."""
    reasons = {process: s["finish_reason"] for process, s in story.stats.items()}
    last = story.processes[-1].number
    return "queue_lost" in reasons.values() or reasons.get(last) == "network_gone"


def _lost_urls(story: Story) -> Iterator[str]:
    """Yield each URL that was requested and has no outcome.

    A URL does not count as lost if a page that leads to it, directly or through other pages, was fetched again later
    and failed.
    """
    # The outcome SpiderClosing does not count, because a request that a closing spider has not sent stays in the queue.
    last_outcomes = {
        o.url: o.at for o in story.outcomes if o.exception != "SpiderClosing"
    }
    # If a page requests itself, the request is left out, because the page already has an outcome.
    last_requests = {
        request.url: request
        for request in story.spider_requests
        if request.parent != request.url
    }
    for url, last_request in last_requests.items():
        request: SpiderRequest | None = last_request
        # In a rollback, the server loses the requests that were pushed to it since the older data was saved. A request
        # is pushed when the spider makes it, and Scrapy may push it again, as a retry, after each answer.
        push_times = [last_request.at] + [
            sent.received_at or sent.at
            for sent in story.world.log
            if f"http://{sent.host}{sent.path}" == url
        ]
        is_excused = any(
            _earliest_push(story, saved_at) < push_time < restarted_at
            for saved_at, restarted_at in story.rollbacks
            for push_time in push_times
        )
        while request is not None and not is_excused:
            # The parent is the page whose callback has made the request. If the parent has an outcome after the
            # request, the parent was fetched again. The second fetch has failed, or the callback would have made the
            # request again. A page that failed leads to no requests, so the request is not lost.
            is_excused = last_outcomes.get(request.parent, 0.0) > request.at
            request = last_requests.get(request.parent)
        is_excused = is_excused or last_request.bypasses_scheduler
        if not (url in last_outcomes or is_excused):
            yield url


def _earliest_push(story: Story, time: float) -> float:
    """Return the earliest time at which a worker can have made a request that reached the Redis server after *time*.

    Usually, this is one second before *time*. If the Redis server was unreachable at *time*, it is the start of the
    outage: requests wait in the worker until the Redis server can be reached.
    """
    disturbances = [
        begins for begins, ends, _ in story.disturbances if begins < time < ends + 5.0
    ]
    return min([time - 1.0, *disturbances])


def _violation_of(url: str, story: Story, text: str) -> Violation:
    """Return a violation that concerns *url*. Its time is the end of the crawl."""
    return Violation(story.ended_at, urlsplit(url).netloc, f"{url} {text}")


def _check_sent_once(story: Story) -> Iterator[Violation]:
    """After a kill, a request is sent again only if it was in flight, or if the killed worker had taken it from the
    queue.
    """
    is_shared = story.world.kind == "workers"
    if is_shared:
        # If a worker is killed or stopped while the server is unreachable, it cannot report its finished requests. A
        # stopped worker tries only twice.
        ends_early = story.kill_times or any(
            fault.kind == "stop" for fault in story.world.faults
        )
        is_unreported = bool(story.disturbances and ends_early)
        is_excused = is_unreported or bool(story.data_losses) or lease_may_end(story)
    else:
        is_excused = story.world.kind == "plain" or bool(story.disturbances)
    if is_excused:
        return
    requested_again = {
        request.url
        for request in story.spider_requests
        if number_in(request.url) % 20 == 4
    }
    made_by_callback = {
        request.url for request in story.spider_requests if request.bypasses_scheduler
    }
    # For each URL: the time at which the request was done, and the time at which its process was killed, perhaps before
    # the process had saved that the request was done. The second time is infinity if the process was not killed.
    done_and_killed: dict[str, tuple[float, float]] = {}
    for outcome in story.outcomes:
        if is_shared:
            killed_at = story.processes[outcome.process].killed_at or inf
        else:
            # Only one process runs at a time, so the first kill after the outcome counts.
            killed_at = min(
                (at for at in story.kill_times if at >= outcome.at), default=inf
            )
        # A request that a closing spider has not sent is not done: another process sends it.
        if outcome.exception != "SpiderClosing":
            done_and_killed.setdefault(outcome.url, (outcome.at, killed_at))
    committed_after = _COMMITTED_AFTER
    if story.world.driver is not None and story.world.driver.is_blocking:
        # While the driver blocks the event loop, the process does nothing else.
        committed_after += max(
            ((s.answered_at or s.at) - s.at for s in story.world.log if s.is_by_driver),
            default=0.0,
        )
    for sent in story.world.log:
        url = f"http://{sent.host}{sent.path}"
        done_at, killed_at = done_and_killed.get(url, (inf, inf))
        # With a JOBDIR, a request is only sent again after a kill.
        is_again = sent.at > (done_at + committed_after if is_shared else killed_at)
        is_repeated = done_at + committed_after < killed_at and is_again
        # A page with a file, or with another page that its callback downloads, is excused. The page is done only when
        # that download is over, but the outcome of the page is recorded before the download begins.
        if (
            is_repeated
            and url not in requested_again | made_by_callback
            and not _has_leaf(story, sent)
        ):
            yield Violation(sent.at, sent.host, f"sent again, though done: {sent}")


def _has_leaf(story: Story, sent: SentRequest) -> bool:
    """Whether the page at the URL of *sent* has a file, or a callback that downloads another page."""
    number = number_in(sent.path)
    page = story.world.hosts[sent.host].page(number)
    return bool(page.file_url or page.callback_page)


def _check_interrupted(story: Story) -> Iterator[Violation]:
    """If the callback of a page waits for a download, and the download fails because the spider closes, the page is
    fetched again.
    """
    is_excused = bool(story.disturbances or story.data_losses) or not story.has_ended
    if story.world.kind == "plain" or is_excused or _is_cut_short(story):
        return
    last_outcomes = {outcome.url: outcome.at for outcome in story.outcomes}
    parents = {
        request.url: request.parent
        for request in story.spider_requests
        if request.bypasses_scheduler
    }
    for outcome in story.outcomes:
        page = parents.get(outcome.url, "")
        is_interrupted = outcome.exception == "SpiderClosing" and page
        if is_interrupted and last_outcomes.get(page, inf) < outcome.at:
            yield _violation_of(
                page, story, "is not fetched again, though it was interrupted"
            )


def _check_refusals(story: Story) -> Iterator[Violation]:
    """Each refusal has a cause: an earlier answer of the host, or a missing answer."""
    settings = story.world.settings
    for outcome in story.outcomes:
        if outcome.exception not in _REFUSALS:
            continue
        parts = urlsplit(outcome.final_url)
        history = HostHistory(story, parts.netloc)
        robots_texts = history.robots_texts(until=outcome.at)
        is_paused = _is_paused_for_long(history, outcome)
        match outcome.reason:
            case "rule":
                is_caused = any(
                    not text.allows(parts.path, outcome.agent) for text in robots_texts
                )
            case "crawl-delay":
                max_delay = settings["REP_SKIP_DELAY_OVER"]
                is_caused = any(text.delay > max_delay for text in robots_texts)
            case "unreachable":
                # If the robots.txt cannot be fetched, downloads of callbacks and pipelines are refused without a wait.
                # This is also true for requests that a component has changed.
                waits = (
                    story.world.kind == "plain" and number_in(outcome.url) < FIRST_LEAF
                )
                is_changed = (
                    number_in(parts.path) >= FIRST_CHANGED
                    or outcome.agent == OTHER_AGENT
                )
                waits = waits and not is_changed
                is_caused = history.has_failed(until=outcome.at, waits=waits)
                # During a pause longer than REP_WAIT_TIMEOUT, no robots.txt is fetched.
                is_caused |= is_paused
                # While the Redis server is unreachable, no robots.txt is fetched. When a suspended process resumes, its
                # timers run before it gets the answers that arrived meanwhile, so that a wait can time out.
                is_caused |= (
                    any(
                        begins + _MIN_WAIT_FOR_ROBOTSTXT <= outcome.at <= ends
                        for begins, ends, process in story.disturbances
                        if process in {None, outcome.process}
                    )
                    and number_in(outcome.url) >= FIRST_LEAF
                )
            case "budget":
                is_caused = _is_used_up(story, parts.netloc)
            case "back-off" | "":
                # A replaced request stays in the download slot of its first host, and waits for the pauses of that
                # host.
                slot_history = HostHistory(story, outcome.slot)
                is_caused = is_paused or _is_paused_for_long(slot_history, outcome)
            case _:
                is_caused = False
        if not is_caused:
            text = f"refused without a cause: {outcome.final_url} -> {outcome.exception} {outcome.reason}"
            yield Violation(outcome.at, parts.netloc, text)


def _check_wait_timeout(story: Story) -> Iterator[Violation]:
    """If a host asks for a pause longer than REP_WAIT_TIMEOUT, requests that wait for the host are refused. They are
    not sent after the pause.
    """
    world = story.world
    # These crawls are not checked:
    # - With a priority queue of the project, a request can stay in that queue, where the add-on cannot refuse it.
    # - With CONCURRENT_REQUESTS = 1, a request that waits in WireMiddleware blocks the downloader. Then Scrapy takes no
    #   other request from the scheduler, and the add-on cannot refuse what stays in the scheduler.
    # - A worker can give a paused host back to the Redis server before it refuses the requests to the host. Then these
    #   requests stay in the shared queue, and are sent after the pause.
    is_excused = (
        "SCHEDULER_PRIORITY_QUEUE" in world.settings
        or bool(story.disturbances)
        or world.settings["CONCURRENT_REQUESTS"] == 1
    )
    if is_excused or world.kind == "workers":
        return
    tolerance = _REFUSED_WITHIN
    tolerance += world.hold.seconds if world.hold is not None else 0.0
    # For each URL, the times at which a request can have begun to wait: the spider has made it, or a download of it has
    # ended, and Scrapy retries it.
    wait_starts = defaultdict(list)
    for request in story.spider_requests:
        wait_starts[request.url].append(request.at)
    # For each host and each pause that is too long: the end of the pause, and the process that got the answer.
    pauses: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for sent in world.log:
        url, seconds = f"http://{sent.host}{sent.path}", requested_pause(sent)
        if (
            sent.received_at is not None
            and seconds > world.settings["REP_WAIT_TIMEOUT"]
        ):
            pauses[sent.host].append((sent.received_at + seconds, sent.process))
        if not (sent.is_robots or sent.is_leaf):
            waits_since = max(
                (at for at in wait_starts[url] if at <= sent.at), default=sent.at
            )
            for ends, process in pauses[sent.host]:
                # A component that downloads another page may hold a request back for very long.
                held_since = sent.at if sent.held_since is None else sent.held_since
                is_too_late = waits_since + tolerance < ends <= held_since
                if process == sent.process and is_too_late:
                    text = f"sent after it waited {ends - waits_since:.0f} s for the end of a pause: {sent}"
                    yield Violation(sent.at, sent.host, text)
            if sent.received_at is not None:
                wait_starts[url].append(sent.received_at)


def _is_paused_for_long(history: HostHistory, outcome: Outcome) -> bool:
    """Whether the pauses of a host, until the time of *outcome*, were so long that requests to the host are refused."""
    # A worker may not know about answers to other workers. So the answers to its own requests are also judged alone.
    longest = max(
        history.longest_pause(until=outcome.at),
        history.longest_pause(until=outcome.at, process=outcome.process),
    )
    return longest >= history.settings["REP_WAIT_TIMEOUT"]


def _is_used_up(story: Story, host: str) -> bool:
    """Whether the crawl can have reached the page limit of *host*.

    These requests to *host* count: requests that were sent, requests that were refused for a reason other than the page
    limit, and requests that were dropped because the spider closed. If the world has components or a JOBDIR,
    CONCURRENT_REQUESTS is added: a component or a kill can remove requests that the add-on has counted but not sent.
    """
    # With a priority queue of the project, the add-on does not know which requests were in the scheduler, and can count
    # any of them as a page. So the judge counts all requests.
    counts_all = "SCHEDULER_PRIORITY_QUEUE" in story.world.settings
    sent_count = sum(
        sent.host == host and (sent.is_page_of_host or counts_all)
        for sent in story.world.log
    )
    refused_count = sum(
        urlsplit(outcome.final_url).netloc == host
        and outcome.exception in {*_REFUSALS, "SpiderClosing"}
        and outcome.reason != "budget"
        for outcome in story.outcomes
    )
    is_interrupted = story.world.has_components or story.world.kind == "job"
    max_in_flight: int = story.world.settings["CONCURRENT_REQUESTS"]
    not_sent_count = refused_count + (max_in_flight if is_interrupted else 0)
    return 0 < story.world.page_limit(host) <= sent_count + not_sent_count


def _check_pages(story: Story) -> Iterator[Violation]:
    """Items and links are dropped where a page says so, and nowhere else."""
    settings = story.world.settings
    requested_urls = {request.url for request in story.spider_requests}
    for sent in story.world.log:
        url = f"http://{sent.host}{sent.path}"
        if not (sent.is_robots or sent.is_leaf or url in requested_urls):
            text = f"sent, but the link on its page must not be followed: {sent}"
            yield Violation(sent.at, sent.host, text)
    scraped = Counter(story.items)
    for outcome in story.outcomes:
        if outcome.status != 200 or number_in(outcome.url) >= FIRST_LEAF:
            continue
        host = urlsplit(outcome.final_url).netloc
        page = story.world.hosts[host].page(number_in(outcome.final_url))
        is_dropped = settings["REP_NOINDEX"] == "drop" and "noindex" in page.robots
        if is_dropped and scraped[outcome.final_url]:
            yield Violation(
                outcome.at,
                host,
                f"an item was scraped from a page with noindex: {outcome.final_url}",
            )
        is_complete = story.has_ended and not story.kill_times
        if not is_dropped and not scraped[outcome.final_url] and is_complete:
            yield Violation(
                outcome.at, host, f"no item was scraped from {outcome.final_url}"
            )


def _check_stats(story: Story) -> Iterator[Violation]:
    """The stats and the ledger agree with the log."""
    if story.world.kind != "plain" or not story.stats:
        return
    stats, log = story.stats[0], story.world.log
    refused = [outcome for outcome in story.outcomes if outcome.exception in _REFUSALS]
    by_reason = Counter(
        outcome.reason or "back-off" for outcome in refused if not _is_leaf(outcome)
    )
    for reason in by_reason:
        counted = stats.get(f"rep/denied/{reason}", 0)
        if counted < by_reason[reason]:
            text = f"rep/denied/{reason} is {counted}, but {by_reason[reason]} were refused"
            yield Violation(story.ended_at, "", text)
    counted = stats.get("robotstxt/request_count", 0)
    answers = sum(sent.path == "/robots.txt" and sent.answer.status > 0 for sent in log)
    # The stat does not count requests for robots.txt that test whether the network is back.
    is_by_driver = any(sent.is_robots and sent.is_by_driver for sent in log)
    if counted < answers and not (story.world.outages or is_by_driver):
        text = f"robotstxt/request_count is {counted}, but {answers} were answered"
        yield Violation(story.ended_at, "", text)
    if story.world.settings.get("REP_LEDGER"):
        yield from _check_ledger(story, refused)


def _check_ledger(story: Story, refused: list[Outcome]) -> Iterator[Violation]:
    """The ledger has each refusal, and the number of pages of each host. Each gap between requests that the ledger
    reports is also in the log.
    """
    for outcome in refused:
        if not story.ledger_refusals[outcome.final_url]:
            yield _violation_of(
                outcome.final_url, story, "was refused, and is not in the ledger"
            )
    for host in story.world.hosts:
        log = [sent for sent in story.world.log if sent.host == host]
        pages = sum(
            not s.is_robots and s.answer.status > 0 for s in log if s.received_at
        )
        counted = story.ledger_pages.get(f"http://{host}", 0)
        replacement = story.world.replacement
        is_hidden = replacement is not None and replacement.order > WIRE_ORDER
        if counted != pages and not is_hidden:
            text = f"the ledger counts {counted} pages, but {pages} were answered"
            yield Violation(story.ended_at, host, text)
        delays = {
            text.delay for text in HostHistory(story, host).robots_texts(until=inf)
        }
        for origin, kind, requested_seconds, gap in story.ledger_gaps:
            if origin != f"http://{host}":
                continue
            if story.world.has_components:
                continue  # Components make gaps longer.
            # A request can be sent later than the ledger says, because it can wait in its download slot. After a
            # redirect, this is the slot of the first host.
            has_delay = bool(story.world.settings["DOWNLOAD_DELAY"])
            is_real = gap is None or any(
                -_EQUAL_WITHIN < after.at - before.received_at - gap < _EQUAL_WITHIN
                or (
                    before.received_at + gap < after.at
                    and (has_delay or after.is_redirected)
                )
                for before in log
                for after in log
                if before.received_at is not None
            )
            if not is_real or (kind == "delay" and requested_seconds not in delays):
                text = f"the ledger has a {kind} of {requested_seconds} s with a gap of {gap} s, but the log has not"
                yield Violation(story.ended_at, host, text)


def _is_leaf(outcome: Outcome) -> bool:
    return number_in(outcome.url) >= FIRST_LEAF
