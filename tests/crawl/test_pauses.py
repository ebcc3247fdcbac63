"""The judge of back-off finds what is sent within a pause, in access logs made by hand."""

from __future__ import annotations

import pytest

from tests.crawl.answers import Answer, Busy, busy
from tests.crawl.pauses import pauses_of, sent_within, too_many_after
from tests.crawl.server import Hit

pytestmark = pytest.mark.newest

PAGE = Answer(b"page")
PLACES = 4


def log(*lines: tuple[float, float, Answer]) -> list[Hit]:
    """Return an access log of requests, each with the time when it came, and the time and the
    kind of its answer.
    """
    return [
        Hit(came, None, "GET", f"/{came}", {}, answer=answer, answered=answered)
        for came, answered, answer in sorted(lines, key=lambda line: line[0])
    ]


def ends(*lines: tuple[float, float, Answer], delay: float = 0) -> list[float]:
    return [pause.end for pause in pauses_of(log(*lines), delay=delay)]


def wrong(*lines: tuple[float, float, Answer]) -> list[float]:
    """Return when the requests came that were sent within pauses."""
    hits = log(*lines)
    return [hit.time for hit in sent_within(pauses_of(hits), hits, PLACES)]


def too_many(*lines: tuple[float, float, Answer]) -> list[float]:
    hits = log(*lines)
    return [hit.time for hit in too_many_after(pauses_of(hits), hits)]


def test_what_was_in_flight_is_allowed() -> None:
    """Requests that came before the answer, or just after it, were in flight."""
    flight = [(0.9, 1.5, PAGE), (1.01, 1.2, PAGE), (1.02, 1.2, PAGE)]
    assert wrong((0.5, 1.0, busy(429, "2")), *flight, (3.0, 3.1, PAGE)) == []


def test_more_than_can_have_been_in_flight() -> None:
    """A crawl with four places has three others in flight at most, those included whose answers
    come too late to make room for another.
    """
    asking = (0.5, 1.0, busy(429, "2"))
    soon = [(1 + number / 100, 2.9, PAGE) for number in range(1, 7)]
    assert wrong(asking, *soon) == [1.04, 1.05, 1.06]
    assert wrong(asking, (0.9, 1.05, PAGE), *soon) == [1.04, 1.05, 1.06]
    assert wrong(asking, (0.9, 1.2, PAGE), *soon) == [1.03, 1.04, 1.05, 1.06]
    flight = [(0.7, 1.2, PAGE), (0.8, 1.2, PAGE), (0.9, 1.2, PAGE)]
    assert wrong(asking, *flight, *soon[:1]) == [1.01]


def test_a_retry_was_not_in_flight() -> None:
    """A request for the page that got the answer was sent after it, however soon it comes."""
    asking, again, other = log(
        (0.5, 1.0, busy(429, "2")), (1.01, 1.2, PAGE), (1.02, 1.2, PAGE)
    )
    again.target = asking.target
    hits = [asking, again, other]
    assert sent_within(pauses_of(hits), hits, PLACES) == [again]
    again.time, other.time = 3.02, 3.01
    other.answer, other.answered = busy(429, "2"), 3.015
    hits = [asking, other, again]
    assert sent_within(pauses_of(hits), hits, PLACES) == []


@pytest.mark.parametrize("came", [1.6, 2.0, 2.98])
def test_within_the_pause(came: float) -> None:
    assert wrong((0.5, 1.0, busy(429, "2")), (came, came + 1, PAGE)) == [came]
    assert wrong((0.5, 1.0, busy(503, pause=2)), (came, came + 1, PAGE)) == [came]


def test_without_a_number() -> None:
    """A host that does not say how long gets a second, and twice as long each time that the
    next request gets the same answer.
    """
    asking = [(came, came + 0.1, busy(503)) for came in (0.0, 1.2, 3.4, 7.6)]
    assert ends(*asking) == pytest.approx([1.1, 3.3, 7.5, 15.7])
    assert wrong(*asking) == []
    assert wrong(asking[0], asking[1], (2.5, 2.6, PAGE)) == [2.5]
    late = [(came, came, busy(503)) for came in (0, 2, 5, 10, 20, 40, 80, 150, 220)]
    assert ends(*late)[-3:] == [80 + 60, 150 + 60, 220 + 60]


def test_a_success_begins_anew() -> None:
    answers = [(0.0, 0.1, busy(503)), (1.2, 1.3, PAGE), (1.4, 1.5, busy(503))]
    assert ends(*answers) == pytest.approx([1.1, 2.5])


def test_what_was_in_flight_begins_nothing_anew() -> None:
    """A page that was in flight when the pause began is no success after it."""
    answers = [(0.0, 0.1, busy(503)), (0.05, 0.3, PAGE), (1.2, 1.3, busy(503))]
    assert ends(*answers) == pytest.approx([1.1, 3.3])


def test_a_burst_is_one_pause() -> None:
    """Answers to what was in flight ask for nothing more, unless they say how long."""
    burst = [(number / 100, 0.5 + number / 100, busy(503)) for number in range(8)]
    assert ends(*burst) == [1.5]
    assert ends(*burst, (0.1, 0.6, busy(503, "5")))[-1] == 5.6
    assert wrong(burst[0], (0.1, 0.6, busy(503, "5")), (2.0, 2.1, PAGE)) == [2.0]


def test_not_shorter_than_a_delay() -> None:
    assert ends((0.0, 0.1, busy(503)), delay=3) == [3.1]
    assert ends((0.0, 0.1, busy(503, "5")), delay=3) == [5.1]


def test_one_more_for_each_success() -> None:
    """After a pause, one request may be in flight, then two, then three."""
    asking = (0.0, 0.1, busy(429, "1"))
    grows = [(1.1, 1.2, PAGE), (1.21, 1.4, PAGE), (1.22, 1.4, PAGE), (1.41, 1.5, PAGE)]
    assert too_many(asking, *grows) == []
    assert too_many(asking, (1.1, 1.2, PAGE), (1.15, 1.4, PAGE)) == [1.15]
    assert too_many(asking, *grows[:3], (1.3, 1.5, PAGE)) == [1.3]


def test_after_another_pause() -> None:
    """Successes before a pause, or of what was in flight in it, count for nothing after it."""
    first, flight = (0.0, 0.1, busy(429, "1")), (0.05, 0.9, PAGE)
    assert too_many(first, flight, (1.1, 1.3, PAGE), (1.2, 1.3, PAGE)) == [1.2]
    between = [(1.1, 1.2, PAGE), (1.21, 1.3, busy(429, "1"))]
    assert too_many(first, *between, (2.3, 2.6, PAGE), (2.4, 2.6, PAGE)) == [2.4]


def test_no_pause() -> None:
    hits = [(number / 100, 1.0, PAGE) for number in range(20)]
    assert ends(*hits) == wrong(*hits) == too_many(*hits) == []


def test_what_an_answer_asks_for() -> None:
    assert isinstance(busy(503), Busy)
    assert busy(503).pause is busy(429, "soon").pause is busy(429, "-5").pause is None
    assert busy(429, "7").pause == 7
    assert busy(429, "a date", 3).pause == 3
