"""The judge of a crawl: compares the outcome of each request, stats and ledger with what the hosts answered.

The rules, each with the functions that check it, here and in `politeness.py`. The evidence is the log of the
world, the settings, what the spider and its pipeline got, the stats with the reason of the end, and
the ledger.

- Nothing forbidden is sent: no page that the last robots.txt of its host, or an override, disallows, whoever
  sends it; and no page of a host whose delay is over REP_SKIP_DELAY_OVER (`_rules`, `_delays`).
- Nothing is sent to a host before its robots.txt has come, or after that is stale (`_rules`).
- From the end of a request to the start of the next one to a host, its Crawl-delay passes at least
  (`_delays`).
- After a 429 or 503, no page is sent before the pause is over that the host asks for, or a second; then one
  at a time, and one more after each success (`_pauses`).
- No more requests are in flight to a host, to an address, and in all, than the settings allow (`_concurrency`,
  `_addresses`).
- No host is asked for more pages than the settings allow, over kills too (`politeness._pages`).
- Without a network, no page is sent and none is given up; one robots.txt at a time tries it, each a second
  or more after the last one (`_outages`).
- Each request has one outcome: an answer that was sent, or a refusal; after a kill too, nothing is lost, and
  only what was in flight is sent again (`_outcomes`, `_sent_once`). A page whose callback a closing spider has
  interrupted is fetched again (`_interrupted`).
- Workers keep delays, pauses and concurrency together. A worker is excused only if it could not know what another
  one did: a lease has ended, or the server was gone or has lost its data (`politeness._is_known`). Of requests
  past the queue to hosts of others, each worker may have as many in flight as the settings allow
  (`_concurrency`).
- Each refusal has a cause in what the host said, or failed to say, before (`_refusals`). What waits for a host
  that asks for a pause over REP_WAIT_TIMEOUT is refused (`_patience`).
- The crawl ends, and says why. One that no host answers any more ends within REP_WAIT_TIMEOUT and ten
  seconds; only then the reason may be ``network_gone``, and requests may be left (`_ends`, `_network_gone`).
- Items and links are dropped where a page says so, and nowhere else (`_pages`).
- Stats and ledger say what the log says (`_stats`, `_ledger`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from math import inf
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tests.simulation.politeness import (
    WIRE_ORDER,
    HostHistory,
    Violation,
    lease_may_end,
    politeness_violations,
    requested_pause,
)
from tests.simulation.world import FIRST_CHANGED, FIRST_LEAF, OTHER_AGENT, number_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulation.crawl import Outcome, SpiderRequest, Story
    from tests.simulation.world import SentRequest

_REFUSALS = {"RobotsDenied", "BackingOff"}

_EQUAL_WITHIN = 0.05
"""Gaps that differ by so many seconds are the same."""

_MIN_FAILED_HOSTS = 5
"""When so many hosts have failed, and nothing has answered in between, the network counts as gone."""

_CLOSES_WITHIN = 10.0
"""A crawl without a network ends within so many seconds of REP_WAIT_TIMEOUT."""

_MIN_WAIT_FOR_ROBOTSTXT = 100.0
"""What a callback or a pipeline downloads waits for a robots.txt that does not end for at least so many seconds."""

_REFUSED_WITHIN = 30.0
"""So many seconds after it was asked for, what waits for too long a pause was refused."""

_COMMITTED_AFTER = 1.0
"""A request whose callback has ended for so many seconds is not sent again after a kill."""


def find_violations(story: Story) -> list[Violation]:
    """Return what the crawl did wrong."""
    checks = (
        _check_end, _check_network_gone, _check_outcomes, _check_sent_once, _check_interrupted, _check_refusals, _check_wait_timeout,
        _check_pages, _check_stats,
    )  # fmt: skip
    return [
        *politeness_violations(story),
        *(violation for check in checks for violation in check(story)),
    ]


def _check_end(story: Story) -> Iterator[Violation]:
    """The crawl ends, for the right reason."""
    if not story.has_ended:
        yield Violation(story.ended_at, "", "the crawl does not end")
    # Start requests were refused, and no page was fetched, not even one that was retried after that.
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
    if story.world.has_components:  # They may have hidden what came.
        expected |= {"robots_denied", "finished"}
    expected.add("network_gone")  # Whether that is so is another question.
    for stats in story.stats.values():
        if stats["finish_reason"] not in expected:
            text = f"ended as {stats['finish_reason']}, not {' or '.join(expected)}"
            yield Violation(story.ended_at, "", text)


def _check_network_gone(story: Story) -> Iterator[Violation]:
    """A crawl that nothing answers any more ends in time, and none ends for that without a cause."""
    world, timeout = story.world, story.world.settings["REP_WAIT_TIMEOUT"]
    for process, stats in story.stats.items():
        if stats["finish_reason"] == "network_gone":
            ended = story.end_times[process]
            failures = _failures_since_last_answer(story, process, ended)
            began = min((s.received_at or ended for s in failures), default=ended)
            count = len({s.host for s in failures})
            # An answer counts by when the wire has let its request go, which may have waited in its slot since.
            least = (
                timeout - _EQUAL_WITHIN - 2.0 * float(world.settings["DOWNLOAD_DELAY"])
            )
            is_enough = count >= _MIN_FAILED_HOSTS and ended - began >= least
            if world.has_components:
                # Components may have hidden answers to requests in flight when the first host failed.
                first = min(
                    (s.received_at or ended for s in world.log if s.answer.error),
                    default=ended,
                )
                is_enough = ended - first >= timeout - _EQUAL_WITHIN
                is_enough = is_enough and ended - began >= timeout / 2
            if not is_enough:
                text = f"ended as network_gone, {ended - began:.2f} s after {count} hosts had failed"
                yield Violation(ended, "", text)
    if not world.is_all_banned or not story.processes:
        return
    process = story.processes[-1].number
    ended = story.end_times.get(process, story.ended_at)
    failures = _failures_since_last_answer(story, process, ended)
    hosts: set[str] = set()
    for sent in failures:
        if not sent.says_no_connection:
            continue
        hosts.add(sent.host)
        if len(hosts) == _MIN_FAILED_HOSTS:
            latest = (sent.received_at or inf) + timeout + _CLOSES_WITHIN
            if world.hold is not None:
                latest += world.hold.seconds
            if not any(s.answer.status for s in world.log if s.process == process):
                # Each host is given up by itself, when the last request has waited for its delay.
                latest += max(host.crawl_delay or 0.0 for host in world.hosts.values())
            latest = max(
                [latest, *(s.received_at or 0.0 for s in failures if s.at < latest)]
            )
            if ended > latest:
                text = f"ended {ended - (sent.received_at or 0.0):.0f} s after {_MIN_FAILED_HOSTS} hosts had failed"
                yield Violation(ended, "", text)
            return


def _failures_since_last_answer(
    story: Story, process: int, until: float
) -> list[SentRequest]:
    """Return the requests of a process that have failed since its last answer, in the order in which they ended.
    An answer to a request that was in flight when one failed does not count for that one, unless a driver has fetched
    it: only the driver knows when it was sent.
    """
    log = [
        sent for sent in story.world.log
        if sent.process == process and sent.received_at is not None and sent.received_at <= until
    ]  # fmt: skip
    failed: list[SentRequest] = []
    for sent in sorted(log, key=lambda sent: sent.received_at or 0.0):
        if sent.answer.error:
            failed.append(sent)
        elif sent.answer.status:
            sent_at = (sent.received_at or 0.0) if sent.is_by_driver else sent.at
            failed = [
                failure for failure in failed if (failure.received_at or 0.0) > sent_at
            ]
    return failed


def _check_outcomes(story: Story) -> Iterator[Violation]:
    """Each request has one outcome: an answer that was sent, or a refusal with a reason."""
    asked = Counter(request.url for request in story.spider_requests)
    got = Counter(outcome.url for outcome in story.outcomes)
    # Where no process ends or loses its lease, nothing is sent again.
    is_sent_once = story.world.kind != "job" and all(
        fault.kind == "clock" for fault in story.world.faults
    )
    for url in got - asked if is_sent_once else ():
        yield _violation_of(url, story, "has more outcomes than requests")
    is_complete = story.has_ended and not _is_cut_short(story)
    if story.world.kind == "plain":
        missing = asked - got if is_complete else Counter()
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
    """Whether the crawl has ended with requests left, for a reason that says so."""
    reasons = {process: s["finish_reason"] for process, s in story.stats.items()}
    last = story.processes[-1].number
    return "queue_lost" in reasons.values() or reasons.get(last) == "network_gone"


def _lost_urls(story: Story) -> Iterator[str]:
    """Yield each URL that was asked for and has no outcome since, unless a page on the way to it was
    fetched again, and failed then.
    """
    # What a spider that closes has not sent stays in the queue.
    last = {o.url: o.at for o in story.outcomes if o.exception != "SpiderClosing"}
    # A page that asks for itself has an outcome.
    newest = {
        request.url: request
        for request in story.spider_requests
        if request.parent != request.url
    }
    for url, asked in newest.items():
        child: SpiderRequest | None = asked
        # Or it was pushed to a server that has forgotten it.
        moments = [asked.at] + [
            sent.received_at or sent.at  # Scrapy may have repeated it then.
            for sent in story.world.log
            if f"http://{sent.host}{sent.path}" == url
        ]
        is_asked_again = any(
            _pushed_since(story, began) < moment < ended
            for began, ended in story.rollbacks
            for moment in moments
        )
        while child is not None and not is_asked_again:
            is_asked_again = last.get(child.parent, 0.0) > child.at
            child = newest.get(child.parent)
        if not (url in last or is_asked_again or asked.bypasses_scheduler):
            yield url


def _pushed_since(story: Story, moment: float) -> float:
    """Return when the first request was asked for that may have been pushed after that moment: while the server was
    gone before, they had to wait.
    """
    waited = [
        begins for begins, ends, _ in story.disturbances if begins < moment < ends + 5.0
    ]
    return min([moment - 1.0, *waited])


def _violation_of(url: str, story: Story, text: str) -> Violation:
    return Violation(story.ended_at, urlsplit(url).netloc, f"{url} {text}")


def _check_sent_once(story: Story) -> Iterator[Violation]:
    """After a kill, only what was in flight is sent again, or what a worker that was killed had taken."""
    is_shared = story.world.kind == "workers"
    if is_shared:
        # A worker that is killed while the server is gone, or that closes then and tries only twice, has told nothing.
        ends_early = story.kill_times or any(
            fault.kind == "stop" for fault in story.world.faults
        )
        is_untold = bool(story.disturbances and ends_early)
        is_excused = is_untold or bool(story.data_losses) or lease_may_end(story)
    else:
        is_excused = story.world.kind == "plain" or bool(story.disturbances)
    if is_excused:
        return
    again = {
        request.url
        for request in story.spider_requests
        if number_in(request.url) % 20 == 4
    }
    made_by_callback = {
        request.url for request in story.spider_requests if request.bypasses_scheduler
    }
    ends: dict[str, tuple[float, float]] = {}
    """When each request was done, and when a process was killed that may not have told it."""
    for outcome in story.outcomes:
        if is_shared:
            killed = story.processes[outcome.process].killed_at or inf
        else:
            # Of the process that has done it.
            killed = min(
                (at for at in story.kill_times if at >= outcome.at), default=inf
            )
        # What a spider that closes has not sent is sent by another one.
        if outcome.exception != "SpiderClosing":
            ends.setdefault(outcome.url, (outcome.at, killed))
    committed_after = _COMMITTED_AFTER
    if story.world.driver is not None and story.world.driver.is_blocking:
        # Meanwhile the process does nothing else.
        committed_after += max(
            ((s.answered_at or s.at) - s.at for s in story.world.log if s.is_by_driver),
            default=0.0,
        )
    # The callback of these may still wait for a page or a file of its own.
    for sent in story.world.log:
        url = f"http://{sent.host}{sent.path}"
        end, killed = ends.get(url, (inf, inf))
        # A crawl with a JOBDIR sends nothing again but after a kill.
        is_again = sent.at > (end + committed_after if is_shared else killed)
        is_over = end + committed_after < killed and is_again
        if (
            is_over
            and url not in again | made_by_callback
            and not _has_download(story, sent)
        ):
            yield Violation(sent.at, sent.host, f"sent again, though done: {sent}")


def _has_download(story: Story, sent: SentRequest) -> bool:
    """Whether the callback of a page, or its item, needs another download."""
    number = number_in(sent.path)
    page = story.world.hosts[sent.host].page(number)
    return bool(page.file_url or page.callback_page)


def _check_interrupted(story: Story) -> Iterator[Violation]:
    """A page whose callback lost a download of its own because the spider closed is fetched again later."""
    is_excused = bool(story.disturbances or story.data_losses) or not story.has_ended
    if story.world.kind == "plain" or is_excused or _is_cut_short(story):
        return
    last = {outcome.url: outcome.at for outcome in story.outcomes}
    own = {
        request.url: request.parent
        for request in story.spider_requests
        if request.bypasses_scheduler
    }
    for outcome in story.outcomes:
        page = own.get(outcome.url, "")
        is_lost = outcome.exception == "SpiderClosing" and page
        if is_lost and last.get(page, inf) < outcome.at:
            yield _violation_of(
                page, story, "is not fetched again, though it was interrupted"
            )


def _check_refusals(story: Story) -> Iterator[Violation]:
    """Each refusal has a cause: what the host has said or failed to say before."""
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
                most = settings["REP_SKIP_DELAY_OVER"]
                is_caused = any(text.delay > most for text in robots_texts)
            case "unreachable":
                # What a callback or a pipeline downloads itself does not wait, nor does what a component has changed.
                waits = (
                    story.world.kind == "plain" and number_in(outcome.url) < FIRST_LEAF
                )
                is_changed = (
                    number_in(parts.path) >= FIRST_CHANGED
                    or outcome.agent == OTHER_AGENT
                )
                waits = waits and not is_changed
                is_caused = history.has_failed(until=outcome.at, waits=waits)
                # In a pause that is too long to wait for, no robots.txt is fetched.
                is_caused |= is_paused
                # Without the queue's server, a robots.txt has no turn; and a process that stood still has waited, by
                # its clock, when its timers are due, before it gets the answers that came meanwhile.
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
                # Whatever is in the download slot of a host waits for the pauses of that host.
                in_slot_of = HostHistory(story, outcome.slot)
                is_caused = is_paused or _is_paused_for_long(in_slot_of, outcome)
            case _:
                is_caused = False
        if not is_caused:
            text = f"refused without a cause: {outcome.final_url} -> {outcome.exception} {outcome.reason}"
            yield Violation(outcome.at, parts.netloc, text)


def _check_wait_timeout(story: Story) -> Iterator[Violation]:
    """What waits for a host that asks for a pause over REP_WAIT_TIMEOUT is refused, and not sent after the pause."""
    world = story.world
    # With a scheduler of the project, it may wait where nobody asks for it; workers give such a host back. And a
    # request that waits at the wire may take the only place in the downloader, so that none comes to be refused.
    is_excused = (
        "SCHEDULER_PRIORITY_QUEUE" in world.settings
        or bool(story.disturbances)
        or world.settings["CONCURRENT_REQUESTS"] == 1
    )
    if is_excused or world.kind == "workers":
        return
    within = _REFUSED_WITHIN + (world.hold.seconds if world.hold is not None else 0.0)
    asked = defaultdict(list)
    for request in story.spider_requests:
        asked[request.url].append(request.at)
    pauses: dict[str, list[tuple[float, int]]] = defaultdict(list)
    """The ends of the pauses that are too long, by host, and the processes that know of them."""
    for sent in world.log:
        url, seconds = f"http://{sent.host}{sent.path}", requested_pause(sent)
        if (
            sent.received_at is not None
            and seconds > world.settings["REP_WAIT_TIMEOUT"]
        ):
            pauses[sent.host].append((sent.received_at + seconds, sent.process))
        if not (sent.is_robots or sent.is_leaf):
            # Since it was asked for, or its last download has ended.
            since = max((at for at in asked[url] if at <= sent.at), default=sent.at)
            for ends, process in pauses[sent.host]:
                if process == sent.process and since + within < ends <= sent.at:
                    text = f"sent after a pause for which it waited {ends - since:.0f} s: {sent}"
                    yield Violation(sent.at, sent.host, text)
            if sent.received_at is not None:
                asked[url].append(sent.received_at)


def _is_paused_for_long(history: HostHistory, outcome: Outcome) -> bool:
    """Whether a host has kept requests waiting for too long when this *outcome* came. A worker does not know what the
    host has answered others.
    """
    longest = max(
        history.longest_pause(until=outcome.at),
        history.longest_pause(until=outcome.at, process=outcome.process),
    )
    return longest >= history.settings["REP_WAIT_TIMEOUT"]


def _is_used_up(story: Story, host: str) -> bool:
    """Whether all pages that *host* may have were sent, apart from those that were refused, or that a component
    took away before they were sent.
    """
    # With a scheduler of the project, what a callback downloads itself counts, too.
    counts_all = "SCHEDULER_PRIORITY_QUEUE" in story.world.settings
    sent = sum(
        sent.host == host and (sent.is_page_of_host or counts_all)
        for sent in story.world.log
    )
    refused = sum(
        urlsplit(outcome.final_url).netloc == host
        and outcome.exception in {*_REFUSALS, "SpiderClosing"}
        and outcome.reason != "budget"
        for outcome in story.outcomes
    )
    is_interrupted = story.world.has_components or story.world.kind == "job"
    most_in_flight: int = story.world.settings["CONCURRENT_REQUESTS"]
    not_sent = refused + (most_in_flight if is_interrupted else 0)
    return 0 < story.world.page_limit(host) <= sent + not_sent


def _check_pages(story: Story) -> Iterator[Violation]:
    """Items and links are dropped where a page says so, and nowhere else."""
    settings = story.world.settings
    asked = {request.url for request in story.spider_requests}
    for sent in story.world.log:
        url = f"http://{sent.host}{sent.path}"
        if not (sent.is_robots or sent.is_leaf or url in asked):
            text = f"its page says not to follow it: {sent}"
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
                outcome.at, host, f"an item of a page with noindex: {outcome.final_url}"
            )
        is_complete = story.has_ended and not story.kill_times
        if not is_dropped and not scraped[outcome.final_url] and is_complete:
            yield Violation(outcome.at, host, f"no item of {outcome.final_url}")


def _check_stats(story: Story) -> Iterator[Violation]:
    """The stats and the ledger say what the log says."""
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
    # Those that look for the network are not counted.
    is_by_driver = any(sent.is_robots and sent.is_by_driver for sent in log)
    if counted < answers and not (story.world.outages or is_by_driver):
        text = f"robotstxt/request_count is {counted}, but {answers} were answered"
        yield Violation(story.ended_at, "", text)
    if story.world.settings.get("REP_LEDGER"):
        yield from _check_ledger(story, refused)


def _check_ledger(story: Story, refused: list[Outcome]) -> Iterator[Violation]:
    """The ledger has each refusal and the number of pages of each host, and its gaps are gaps between
    requests of the log.
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
        for origin, kind, asked, gap in story.ledger_gaps:
            if origin != f"http://{host}":
                continue
            if story.world.has_components:
                continue  # They add to the time that passes.
            # What waits in its download slot as well, which may be that of the host that has
            # redirected it, is sent later than that.
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
            if not is_real or (kind == "delay" and asked not in delays):
                text = f"the ledger has a {kind} of {asked} s, kept as {gap}"
                yield Violation(story.ended_at, host, text)


def _is_leaf(outcome: Outcome) -> bool:
    return number_in(outcome.url) >= FIRST_LEAF
