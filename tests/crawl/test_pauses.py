"""The judge of back-off finds what is sent within a pause, in access logs made by hand."""

from __future__ import annotations

import pytest

from tests.crawl.answers import Answer, Busy, busy
from tests.crawl.pauses import pauses_of, sent_within, too_many_after
from tests.crawl.server import Hit

pytestmark = pytest.mark.newest

PAGE, BUSY = Answer(b"page"), busy(503)
ONE, TWO, FIVE = busy(429, "1"), busy(429, "2"), busy(503, "5")
PLACES = 4
SOON = [(1 + number / 100, 2.9, PAGE) for number in range(1, 7)]
ASKING = [(came, came + 0.1, BUSY) for came in (0.0, 1.2, 3.4, 7.6)]
LATE = [(came, came, BUSY) for came in (0, 2, 5, 10, 20, 40, 80, 150, 220)]
BURST = [(number / 100, 0.5 + number / 100, BUSY) for number in range(8)]
GROWS = [(1.1, 1.2, PAGE), (1.21, 1.4, PAGE), (1.22, 1.4, PAGE), (1.41, 1.5, PAGE)]


def log(*lines: tuple[float, float, Answer]) -> list[Hit]:
    """Return an access log of requests, each with the time when it came, and the time and the
    kind of its answer.
    """
    return [
        Hit(came, None, "GET", f"/{came}", {}, answer=answer, answered=answered)
        for came, answered, answer in sorted(lines, key=lambda line: line[0])
    ]


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        # What came before the answer, or just after it, was in flight.
        ([(0.5, 1, TWO), (0.9, 1.5, PAGE), (1.01, 1.2, PAGE), (1.02, 1.2, PAGE), (3, 3.1, PAGE)], []),
        # With four places, three others are in flight at most, those included whose answers come
        # too late to make room for another.
        ([(0.5, 1, TWO), *SOON], [1.04, 1.05, 1.06]),
        ([(0.5, 1, TWO), (0.9, 1.05, PAGE), *SOON], [1.04, 1.05, 1.06]),
        ([(0.5, 1, TWO), (0.9, 1.2, PAGE), *SOON], [1.03, 1.04, 1.05, 1.06]),
        ([(0.5, 1, TWO), (0.7, 1.2, PAGE), (0.8, 1.2, PAGE), (0.9, 1.2, PAGE), SOON[0]], [1.01]),
        ([(0.5, 1, TWO), (1.6, 2.6, PAGE)], [1.6]),
        ([(0.5, 1, TWO), (2.98, 3.98, PAGE)], [2.98]),
        ([(0.5, 1, busy(503, pause=2)), (2, 3, PAGE)], [2]),
        (ASKING, []),
        ([*ASKING[:2], (2.5, 2.6, PAGE)], [2.5]),
        ([BURST[0], (0.1, 0.6, FIVE), (2.0, 2.1, PAGE)], [2.0]),
        ([(number / 100, 1.0, PAGE) for number in range(20)], []),
    ],
)  # fmt: skip
def test_within_a_pause(
    lines: list[tuple[float, float, Answer]], found: list[float]
) -> None:
    """Requests are found that were sent within a pause, by when they came."""
    hits = log(*lines)
    assert [hit.time for hit in sent_within(pauses_of(hits), hits, PLACES)] == found


@pytest.mark.parametrize(
    ("lines", "ends"),
    [
        # Without a number it is a second, and twice as long each time that the next gets the same.
        (ASKING, [1.1, 3.3, 7.5, 15.7]),
        (LATE, [1, 4, 9, 18, 36, 72, 80 + 60, 150 + 60, 220 + 60]),
        # A success begins anew, but not a page that was in flight when the pause began.
        ([(0.0, 0.1, BUSY), (1.2, 1.3, PAGE), (1.4, 1.5, BUSY)], [1.1, 2.5]),
        ([(0.0, 0.1, BUSY), (0.05, 0.3, PAGE), (1.2, 1.3, BUSY)], [1.1, 3.3]),
        # Answers to what was in flight ask for nothing more, unless they say how long.
        (BURST, [1.5]),
        ([*BURST, (0.1, 0.6, FIVE)], [1.5, 5.6]),
    ],
)  # fmt: skip
def test_pauses(lines: list[tuple[float, float, Answer]], ends: list[float]) -> None:
    """Each answer that asks for a pause begins one, and it ends when it may."""
    found = pauses_of(log(*lines))
    assert [pause.end for pause in found] == pytest.approx(ends)


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        # After a pause, one request may be in flight, then two, then three.
        ([(0.0, 0.1, ONE), *GROWS], []),
        ([(0.0, 0.1, ONE), (1.1, 1.2, PAGE), (1.15, 1.4, PAGE)], [1.15]),
        ([(0.0, 0.1, ONE), *GROWS[:3], (1.3, 1.5, PAGE)], [1.3]),
        # Successes before a pause, or of what was in flight in it, count for nothing after it.
        ([(0.0, 0.1, ONE), (0.05, 0.9, PAGE), (1.1, 1.3, PAGE), (1.2, 1.3, PAGE)], [1.2]),
        ([(0.0, 0.1, ONE), GROWS[0], (1.21, 1.3, ONE), (2.3, 2.6, PAGE), (2.4, 2.6, PAGE)], [2.4]),
    ],
)  # fmt: skip
def test_too_many(lines: list[tuple[float, float, Answer]], found: list[float]) -> None:
    """After a pause, one more request may be in flight for each success."""
    hits = log(*lines)
    assert [hit.time for hit in too_many_after(pauses_of(hits), hits)] == found


def test_a_retry_was_not_in_flight() -> None:
    """A request for the page that got the answer was sent after it, however soon it comes."""
    asking, again, other = log((0.5, 1.0, TWO), (1.01, 1.2, PAGE), (1.02, 1.2, PAGE))
    again.target = asking.target
    hits = [asking, again, other]
    assert sent_within(pauses_of(hits), hits, PLACES) == [again]
    again.time, other.time = 3.02, 3.01
    other.answer, other.answered = TWO, 3.015
    hits = [asking, other, again]
    assert sent_within(pauses_of(hits), hits, PLACES) == []


def test_what_an_answer_asks_for() -> None:
    assert isinstance(BUSY, Busy)
    assert BUSY.pause is busy(429, "soon").pause is busy(429, "-5").pause is None
    assert busy(429, "7").pause == 7
    assert busy(429, "a date", 3).pause == 3
