"""Reach: which requests of a dry run a real run would make."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st
from scrapy import Request

from scrapy_rep.frontier import reach
from scrapy_rep.frontier.reach import Reach

if TYPE_CHECKING:
    from collections.abc import Callable

NODES = st.integers(0, 7)


def request(node: int) -> Request:
    return Request(f"http://example.com/{node}")


def new_reach(stats: dict[str, int]) -> Reach:
    def count(key: str, number: int = 1) -> None:
        stats[key] = stats.get(key, 0) + number

    crawler: Any = SimpleNamespace(
        stats=SimpleNamespace(inc_value=count),
        request_fingerprinter=SimpleNamespace(fingerprint=lambda one: one.url.encode()),
        signals=SimpleNamespace(connect=lambda *_: None),
    )
    found = Reach(crawler)
    found.has_judge = True
    return found


@given(
    most=st.sampled_from([reach.MAX_REMEMBERED, 3]),
    edges=st.lists(st.tuples(NODES, NODES, st.booleans()), max_size=30),
    refused=st.sets(NODES),
    data=st.data(),
)
def test_any_order(
    most: int,
    edges: list[tuple[int, int, bool]],
    refused: set[int],
    data: st.DataObject,
) -> None:
    """Whatever the order of requests, verdicts and answers, exactly what a real run would make and
    see is found. Beyond the limit, that is found, and perhaps more.
    """
    stats: dict[str, int] = {}
    dry, seen, made, opened = new_reach(stats), {0}, set[int](), set[int]()

    def send(node: int) -> None:
        dry.sent(request(node))
        dry.when_reached(request(node), lambda: made.add(node))
        todo.extend([lambda: judge(node), lambda: answer(node)])

    def judge(node: int) -> None:
        dry.judged(request(node), is_allowed=node not in refused)

    def answer(node: int) -> None:
        dry.when_open(request(node), lambda: opened.add(node))
        for page, target, follows in edges:
            if page == node:
                dry.led(request(page), request(target), follows=follows)
                if target not in seen:
                    seen.add(target)
                    todo.append(lambda target=target: send(target))

    todo: list[Callable[[], None]] = [lambda: send(0)]
    with patch.object(reach, "MAX_REMEMBERED", most):
        while todo:
            todo.pop(data.draw(st.integers(0, len(todo) - 1)))()

    real = {0}
    for _ in range(8):
        real |= {
            target
            for page, target, follows in edges
            if page in real - refused and follows
        }
    if most == 3:
        assert (made >= real, opened >= real - refused) == (True, True)
    else:
        assert (made, opened) == (real, real - refused)
        assert stats.get("rep/dry_run/not_met", 0) == len(seen - made)


def test_a_long_chain() -> None:
    """A verdict that opens a long chain of pages does so without recursion."""
    dry, opened = new_reach({}), list[int]()
    sent = [request(node) for node in range(5_001)]
    for each in sent:
        dry.sent(each)
    for number in range(5_000):
        dry.led(sent[number], sent[number + 1], follows=True)
    for each in reversed(sent):
        dry.judged(each, is_allowed=True)
    dry.when_open(sent[-1], lambda: opened.append(1))
    assert opened == [1]


def test_nothing_is_judged() -> None:
    """Without RobotsTxtMiddleware, what is reached is open."""
    dry, opened = new_reach({}), list[int]()
    dry.has_judge = False
    first, second, third = map(request, range(3))
    dry.led(first, third, follows=False)
    dry.when_open(third, lambda: opened.append(3))
    assert not opened
    dry.led(second, third, follows=True)
    assert opened == [3]
