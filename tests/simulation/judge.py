"""The judge: compares what a crawl sent with what the hosts said, from the log alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulation.crawl import Story
    from tests.simulation.world import Answer, Sent

_SLACK = 0.01
"""The inaccuracy of sums of floating-point numbers and of an event loop, in seconds."""

_DECIDES = {200, 403, 404}
"""The statuses of a robots.txt that say what is allowed."""

_SHORTEST_LIFETIME = 300.0
"""For so many seconds, a robots.txt is used even if its Cache-Control says less."""

_GONE_HOSTS, _GONE_FAILURES = 5, 20
"""When so many hosts, and so many requests in a row, have failed, the network counts as gone."""


def violations(story: Story) -> list[str]:
    """Return what the crawl did wrong, a line each."""
    found = [*_ends(story), *_outcomes(story), *_places(story), *_stats(story)]
    by_host: dict[str, list[Sent]] = defaultdict(list)
    for sent in story.world.log:
        by_host[sent.host].append(sent)
    for log in by_host.values():
        found += [*_rules(story, log), *_delays(story, log), *_pauses(story, log)]
        found += _refusals(story, log)
    return [*found, *_outages(story)]


def _ends(story: Story) -> Iterator[str]:
    if not story.has_ended:
        yield "the crawl does not end"
        return
    # Start requests were refused, and no page was fetched.
    is_denied = any(outcome.exception == "RobotsDenied" for outcome in story.outcomes)
    is_denied = is_denied and not any(outcome.status for outcome in story.outcomes)
    expected = "robots_denied" if is_denied else "finished"
    if story.stats["finish_reason"] != expected:
        yield f"the crawl ended as {story.stats['finish_reason']}, not as {expected}"


def _outcomes(story: Story) -> Iterator[str]:
    """Each request has one outcome: an answer that was sent, or a refusal with a reason."""
    asked = Counter(url.removeprefix("http://") for url in story.asked)
    got = Counter(outcome.host + outcome.path for outcome in story.outcomes)
    for url in (asked - got) if story.has_ended else ():
        yield f"{url} has neither an answer nor a refusal"
    for url in got - asked:
        yield f"{url} has more outcomes than requests"
    sent = {each.host + each.path for each in story.world.log}
    for outcome in story.outcomes:
        url = outcome.host + outcome.path
        is_refused = outcome.exception in {"RobotsDenied", "BackingOff"}
        if not is_refused and url not in sent:
            yield f"{url} was never sent, but its outcome is {outcome.exception or outcome.status}"


def _refusals(story: Story, log: list[Sent]) -> Iterator[str]:
    """Each refusal has a cause: what the host has said or failed to say before."""
    settings = story.world.settings
    for outcome in story.outcomes:
        if not log or outcome.host != log[0].host:
            continue
        before = [s for s in log if s.ended is not None and s.ended <= outcome.at]
        said = [s for s in before if s.is_robots and s.answer.status in _DECIDES]
        match outcome.exception, outcome.reason:
            case "RobotsDenied", "rule":
                is_caused = any(not _allows(s.answer, outcome.path) for s in said)
            case "RobotsDenied", "crawl-delay":
                most = settings["REP_CRAWL_DELAY_MAX"]
                is_caused = any(_delay(s.answer) > most for s in said)
            case "RobotsDenied", "unreachable":
                is_caused = len([s for s in before if s.is_robots]) > len(said)
            case ("RobotsDenied", "back-off") | ("BackingOff", _):
                is_caused = _longest_pause(story, before) >= settings["REP_WAIT_MAX"]
            case exception, _:
                is_caused = exception != "RobotsDenied"
        if not is_caused:
            got = f"{outcome.exception} {outcome.reason}"
            yield f"refused without a cause: {outcome.host}{outcome.path} -> {got}"


def _longest_pause(story: Story, log: list[Sent]) -> float:
    """The longest time for which the host answered nothing but 429 or 503, pauses included."""
    longest, begins = 0.0, None
    # No pause is shorter than the delay of the host.
    least = max((_delay(sent.answer) for sent in log if sent.is_robots), default=0.0)
    for sent in sorted(log, key=lambda each: each.ended or 0.0):
        ended = sent.ended or 0.0
        if sent.answer.status in {429, 503}:
            begins = ended if begins is None else begins
            asked = float(sent.answer.headers.get("Retry-After", 0))
            pause = max(asked or story.world.settings["REP_BACKOFF_MAX"], least)
            longest = max(longest, ended + pause - begins)
        elif sent.answer.status:
            begins = None
    return longest


def _places(story: Story) -> Iterator[str]:
    """No more pages are on their way than there are places."""
    settings, log = story.world.settings, story.world.log
    pages = [sent for sent in log if not sent.is_robots]
    ends = [(sent.at if sent.ended is None else sent.ended, 0, sent) for sent in pages]
    in_flight: Counter[str] = Counter()
    events = sorted(
        ends + [(sent.at, 1, sent) for sent in pages], key=lambda each: each[:2]
    )
    for _, change, sent in events:
        in_flight[sent.host] += 1 if change else -1
        if in_flight[sent.host] > settings["CONCURRENT_REQUESTS_PER_DOMAIN"]:
            yield f"too many requests on their way to one host: {sent}"
        if in_flight.total() > settings["CONCURRENT_REQUESTS"]:
            yield f"too many requests on their way: {sent}"


def _stats(story: Story) -> Iterator[str]:
    """The stats say what the log says."""
    stats = story.stats
    denied = sum(value for key, value in stats.items() if key.startswith("rep/denied/"))
    refused = sum(o.exception in {"RobotsDenied", "BackingOff"} for o in story.outcomes)
    if denied != refused:
        yield f"the stats rep/denied count {denied}, but {refused} requests were refused"


def _rules(story: Story, log: list[Sent]) -> Iterator[str]:
    """No page is sent before a robots.txt allows it, nor by one that is past its age."""
    # Each answer says something from when it comes. A failure leaves the rules before it.
    said = [
        (sent.ended, sent.answer)
        for sent in log
        if sent.is_robots and sent.ended is not None and sent.answer.status in _DECIDES
    ]
    for sent in log:
        if sent.is_robots:
            continue
        before = [each for each in said if each[0] <= sent.at]
        if not before:
            yield f"sent before its robots.txt: {sent}"
            continue
        # A request may have got its place just before the last answer came.
        recent = [each for each in before if each[0] > sent.at - _decided_before(story)]
        if not any(
            _allows(answer, sent.path)
            for _, answer in [before[-1], *recent, *before[-2:]]
        ):
            yield f"forbidden: {sent}"
        last, answer = before[-1]
        tries = [
            s.ended or 0.0 for s in log if s.is_robots and (s.ended or inf) <= sent.at
        ]
        failures = [
            s for s in log if s.is_robots and last < (s.ended or 0.0) <= sent.at
        ]
        age = sent.at - max(last, *tries)
        # With a delay longer than its lifetime, a robots.txt serves for one request.
        lifetime = _lifetime_after(failures) if failures else _lifetime(story, answer)
        allowed = lifetime + _delay(answer) + _decided_before(story)
        is_gone = any(a <= sent.at < b for a, b in story.world.outages)
        if age > allowed and not is_gone:
            yield f"sent by a robots.txt that was {age:.1f} s old: {sent}"


def _decided_before(story: Story) -> float:
    """For how long a request may wait in the downloader after it was decided."""
    return float(story.world.settings["DOWNLOAD_DELAY"]) * 2 + 1.0


def _lifetime_after(failures: list[Sent]) -> float:
    """For how long the last good copy is used before the robots.txt is asked for again."""
    asked = float(failures[-1].answer.headers.get("Retry-After", 0))
    return max(_SHORTEST_LIFETIME, asked, 45.0 * 2 ** min(len(failures) - 1, 7))


def _lifetime(story: Story, answer: Answer) -> float:
    stated = answer.headers.get("Cache-Control", "max-age=inf").removeprefix("max-age=")
    return min(
        max(float(stated), _SHORTEST_LIFETIME), story.world.settings["REP_MAX_AGE"]
    )


def _delay(answer: Answer) -> float:
    """The Crawl-delay that a robots.txt states; 0 if none."""
    stated = [
        line for line in answer.body.splitlines() if line.startswith("Crawl-delay: ")
    ]
    return float(stated[0].split()[1]) if stated else 0.0


def _allows(answer: Answer, path: str) -> bool:
    lines = answer.body.splitlines()
    return not any(f"Disallow: {path[:n]}" in lines for n in range(1, len(path)))


def _delays(story: Story, log: list[Sent]) -> Iterator[str]:
    """From the end of each request to the start of the next, at least the Crawl-delay passes."""
    delay, busy_until = 0.0, -inf
    for sent, after in pairwise(log):
        if sent.answer.status == 200 and sent.is_robots:
            delay = _delay(sent.answer)
        if sent.ended is not None:
            busy_until = max(busy_until, sent.ended)
        if delay > story.world.settings["REP_CRAWL_DELAY_MAX"]:
            if not after.is_robots:
                yield f"sent although the host's delay is too long: {after}"
        elif delay and after.at - busy_until < delay - _SLACK:
            gap = after.at - busy_until
            yield f"a gap of {gap:.2f} s instead of {delay:g} s: {after}"


def _pauses(story: Story, log: list[Sent]) -> Iterator[str]:
    """After a 429 or 503, nothing is sent to the host for as long as it asks, or a second; then one
    request, and one more after each success.
    """
    until, places, in_flight = -inf, inf, 0
    events = [(sent.at, 1, sent) for sent in log]
    events += [(sent.ended, 0, sent) for sent in log if sent.ended is not None]
    for at, is_start, sent in sorted(events, key=lambda each: each[:2]):
        is_page, status = not sent.is_robots, sent.answer.status
        if is_page:
            in_flight += 1 if is_start else -1
        if is_start and is_page:
            if at < until - _SLACK:
                yield f"sent {until - at:.2f} s before the end of a pause: {sent}"
            if in_flight > places:
                yield f"{in_flight} requests on their way after a pause: {sent}"
        elif not is_start and status in {429, 503} and is_page:
            asked = float(sent.answer.headers.get("Retry-After", 0)) or 1.0
            until, places = max(until, at + asked), 1
        elif not is_start and status:
            places += 1


def _outages(story: Story) -> Iterator[str]:
    """When enough hosts have failed in a row, our own network counts as gone: from then on, one
    request is on its way, and no page is given up.
    """
    log = story.world.log
    for begins, ends in story.world.outages:
        during = [s for s in log if begins <= s.at < ends and s.answer.error]
        noticed = inf
        for number, sent in enumerate(during, 1):
            hosts = {each.host for each in during[:number]}
            # A request that began before the outage may be answered in it.
            is_answered = any(
                s.ended and during[0].at <= s.ended <= sent.at and s.answer.status
                for s in log
            )
            if (
                len(hosts) >= _GONE_HOSTS
                and number >= _GONE_FAILURES
                and not is_answered
            ):
                noticed = sent.ended or inf
                break
        for sent in log:
            on_their_way = [s for s in log if s.at <= sent.at < (s.ended or inf)]
            if noticed + _SLACK < sent.at < ends and len(on_their_way) > 1:
                yield f"{len(on_their_way)} requests on their way without a network: {sent}"
        for outcome in story.outcomes:
            is_lost = outcome.exception == "CannotResolveHostError"
            if is_lost and outcome.at > noticed + _SLACK:
                yield f"given up without a network: {outcome.host}{outcome.path}"
