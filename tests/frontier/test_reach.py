"""Reach: which requests of a dry run a real run would make."""

from __future__ import annotations

from itertools import pairwise
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

NODES = range(8)
EDGES = st.lists(
    st.tuples(st.sampled_from(NODES), st.sampled_from(NODES), st.booleans()),
    max_size=30,
)


def request(node: int) -> Request:
    return Request(f"http://example.com/{node}")


class Crawl:
    """A dry run over a graph: pages are requested once, and everything else comes in any order."""

    def __init__(self, edges: list[tuple[int, int, bool]], refused: set[int]) -> None:
        self.stats = _Stats()
        self.crawler: Any = SimpleNamespace(
            stats=self.stats,
            request_fingerprinter=SimpleNamespace(
                fingerprint=lambda request: request.url.encode()
            ),
            signals=SimpleNamespace(connect=lambda *_: None),
        )
        self.reach = Reach(self.crawler)
        self.reach.has_judge = True
        self.edges = edges
        self.refused = refused
        self.seen: set[int] = set()
        self.made: set[int] = set()
        self.opened: set[int] = set()
        self.todo: list[Callable[[], None]] = []

    def schedule(self, node: int) -> None:
        if node not in self.seen:
            self.seen.add(node)
            self.todo.append(lambda: self.send(node))

    def send(self, node: int) -> None:
        self.reach.sent(request(node))
        self.reach.when_reached(request(node), lambda: self.made.add(node))
        self.todo += [lambda: self.judge(node), lambda: self.answer(node)]

    def judge(self, node: int) -> None:
        self.reach.judged(request(node), is_allowed=node not in self.refused)

    def answer(self, node: int) -> None:
        self.reach.when_open(request(node), lambda: self.opened.add(node))
        for page, target, follows in self.edges:
            if page == node:
                self.reach.led(request(page), request(target), follows=follows)
                self.schedule(target)

    def run(self, draw: Any) -> None:
        self.schedule(0)
        while self.todo:
            self.todo.pop(draw(st.integers(0, len(self.todo) - 1)))()


class _Stats:
    def __init__(self) -> None:
        self.found: dict[str, int] = {}

    def inc_value(self, key: str, count: int = 1) -> None:
        self.found[key] = self.found.get(key, 0) + count


def real_run(
    edges: list[tuple[int, int, bool]], refused: set[int]
) -> tuple[set[int], set[int]]:
    """Return the requests that a real run makes, and those that it does not refuse."""
    made, todo = {0}, [0]
    while todo:
        node = todo.pop()
        for page, target, follows in edges:
            if page == node not in refused and follows and target not in made:
                made.add(target)
                todo.append(target)
    return made, made - refused


@given(EDGES, st.sets(st.sampled_from(NODES)), st.data())
def test_any_order(
    edges: list[tuple[int, int, bool]], refused: set[int], data: st.DataObject
) -> None:
    """Whatever the order of requests, verdicts and answers, exactly what a real run would make and
    see is found.
    """
    crawl = Crawl(edges, refused)
    crawl.run(data.draw)
    assert (crawl.made, crawl.opened) == real_run(edges, refused)
    not_met = crawl.stats.found.get("rep/dry_run/not_met", 0)
    assert not_met == len(crawl.seen - crawl.made)


@given(EDGES, st.sets(st.sampled_from(NODES)), st.data())
def test_too_many(
    edges: list[tuple[int, int, bool]], refused: set[int], data: st.DataObject
) -> None:
    """Beyond the limit, everything is found that a real run would make, and perhaps more."""
    crawl = Crawl(edges, refused)
    with patch.object(reach, "MAX_REMEMBERED", 3):
        crawl.run(data.draw)
    made, opened = real_run(edges, refused)
    assert crawl.made >= made
    assert crawl.opened >= opened


def test_a_long_chain() -> None:
    """A verdict that opens a long chain of pages does so without recursion."""
    edges = [(node, node + 1, True) for node in range(5_000)]
    crawl = Crawl(edges, set())
    sent = [request(node) for node in range(5_001)]
    for each in sent:
        crawl.reach.sent(each)
    for page, target in pairwise(sent):
        crawl.reach.led(page, target, follows=True)
    for each in reversed(sent):
        crawl.reach.judged(each, is_allowed=True)
    opened: list[int] = []
    crawl.reach.when_open(sent[-1], lambda: opened.append(1))
    assert opened == [1]


def test_nothing_is_judged() -> None:
    """Without RobotsTxtMiddleware, what is reached is open."""
    crawl = Crawl([], set())
    crawl.reach.has_judge = False
    first, second, third = map(request, range(3))
    opened: list[int] = []
    crawl.reach.led(first, third, follows=False)
    crawl.reach.when_open(third, lambda: opened.append(3))
    assert not opened
    crawl.reach.led(second, third, follows=True)
    assert opened == [3]
