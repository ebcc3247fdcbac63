"""The order in which ready hosts take their turns."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from scrapy_rep.frontier.backqueue import Slot
from scrapy_rep.frontier.ready import ReadyQueues

pytestmark = pytest.mark.newest


def queues(*slots: Slot) -> list[Any]:
    return [SimpleNamespace(slot=slot) for slot in slots]


def test_the_fewest_active_first_and_then_in_turn() -> None:
    """The slot with the fewest requests under way goes first; among equals, the one that
    has waited longest. The back queues of one slot take turns.
    """
    a, b = Slot("a"), Slot("b")
    ready = ReadyQueues()
    a1, b1, a2, b2 = queues(a, b, a, b)
    for queue in (a1, b1, a2, b2):
        ready.add(queue)
    assert len(ready) == 4
    assert [ready.take_first() for _ in range(2)] == [a1, b1]
    a.active = 1
    ready.slot_changed(a)
    ready.add(a1)
    taken = []
    while (queue := ready.first()) is not None:
        assert ready.take_first() is queue
        taken.append(queue)
    assert taken == [b2, a2, a1]
    assert ready.take_first() is None
    assert len(ready) == 0


def test_a_slot_that_changes_while_it_is_elsewhere() -> None:
    """A change in a slot counts also if it comes while none of its queues is ready."""
    a, b = Slot("a"), Slot("b")
    ready = ReadyQueues()
    first, second = queues(a, b)
    ready.add(first)
    assert ready.take_first() is first
    a.active = 3
    ready.slot_changed(a)
    ready.add(first)
    ready.add(second)
    assert ready.take_first() is second


def test_what_counts_no_more_takes_no_memory() -> None:
    """Changes in slots do not use up memory."""
    slots = [Slot(str(number)) for number in range(10)]
    ready = ReadyQueues()
    for queue in queues(*slots):
        ready.add(queue)
    for number in range(10_000):
        slot = slots[number % 10]
        slot.active = number % 7
        ready.slot_changed(slot)
    assert len(ready._heap) <= 2 * 10 + 65
    order = [ready.take_first().slot.active for _ in range(10)]
    assert order == sorted(order)
    assert not ready._by_slot
