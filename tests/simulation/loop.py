"""An event loop in virtual time: instead of waiting, it moves the clock to the next timer.

Several processes may run on it, each with a clock of its own, and be killed at any moment.
"""

from __future__ import annotations

import asyncio
import importlib
import pkgutil
import queue
import selectors
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from scrapy_rep.base.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Self

EPOCH = 1_800_000_000.0
"""The time of day when each crawl begins."""

_TICK = 1e-6
"""The seconds that each turn of the loop takes."""

_MOST_TURNS = 1_000_000
"""A crawl that takes more turns of the loop never ends."""


_PACKAGES = (
    "scrapy.core",
    "scrapy.downloadermiddlewares",
    "scrapy.spidermiddlewares",
    "scrapy.pipelines",
    "scrapy_redis",
    "scrapy_rep.base",
    "scrapy_rep.crawl",
    "scrapy_rep.redis",
)
"""What a crawl imports, some of it late: after the clocks were replaced it would have real ones."""


@cache
def _import_all() -> None:
    for name in _PACKAGES:
        package = importlib.import_module(name)
        for found in pkgutil.walk_packages(package.__path__, f"{name}."):
            with suppress(ImportError):
                importlib.import_module(found.name)


@dataclass(eq=False)
class Process:
    """What one process of a crawl has for itself. All that it runs is in a context with it."""

    number: int = 0
    ahead: float = 0.0
    """The seconds by which its time of day is ahead."""

    is_over: bool = False
    """Whether nothing of it runs any more, no callback and no timer."""

    killed_at: float | None = None

    held: list[tuple[Callable[[], Any], Context]] | None = None
    """The callbacks that are due while it stands still; None while it does not."""

    remains: list[Any] = field(default_factory=list)
    """What it had in memory."""

    def go_on(self) -> None:
        """Continue after it stood still."""
        held, self.held = self.held, None
        for callback, context in held or ():
            asyncio.get_running_loop().call_soon(callback, context=context)


PROCESS: ContextVar[Process] = ContextVar("PROCESS", default=Process())  # noqa: B039  none is changed


class Endless(Exception):
    """The loop has run for too long."""


class _Selector(selectors.DefaultSelector):
    now = 1_000.0
    turns = 0

    def __init__(self, longest: float) -> None:
        super().__init__()
        self.ends_at = self.now + longest

    def select(self, timeout: float | None = None) -> Any:
        self.turns += 1
        if self.turns > _MOST_TURNS or self.now > self.ends_at:
            raise Endless
        events = super().select(0)
        # As a real clock, this one never stands still: code that is called a little early, and
        # waits for the rest, would be called at the same time forever.
        self.now += _TICK
        if not events and timeout is not None:
            self.now += timeout
        return events


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop that never waits. Its clock is that of the whole process while it runs."""

    def __init__(self, longest: float) -> None:
        """Run for so many seconds at the longest."""
        self._virtual = _Selector(longest)
        self.was_set_by = 0.0
        """The seconds by which the time of day was set forward since the beginning."""

        self._replaced = {
            "monotonic": (time.monotonic, self.time),
            "time": (time.time, self.time_of_day),
            "sleep": (time.sleep, self.sleep),
            "Thread": (threading.Thread, _Inline),
            "SimpleQueue": (queue.SimpleQueue, _Queue),
        }
        super().__init__(self._virtual)

    def time(self) -> float:
        """Return the seconds on the monotonic clock."""
        return self._virtual.now

    def time_of_day(self) -> float:
        """Return the seconds since the epoch, by the clock of the process that asks."""
        return EPOCH + self._virtual.now + self.was_set_by + PROCESS.get().ahead

    def sleep(self, seconds: float) -> None:
        """Block the loop."""
        self._virtual.now += seconds

    def call_soon(
        self, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        if self.is_closed():
            # What a killed crawl leaves behind may be collected only now.
            return asyncio.Handle(callback, args, self, context)
        return super().call_soon(_living(callback, context), *args, context=context)

    def call_soon_threadsafe(
        self, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_at(
        self, when: float, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        called = _living(callback, context)
        return super().call_at(when, called, *args, context=context)

    def run_in_executor(
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Call *func* at once, so that each run is the same."""
        called = self.create_future()
        try:
            called.set_result(func(*args))
        except Exception as error:  # noqa: BLE001  raised where the call is awaited
            called.set_exception(error)
        return called

    def __enter__(self) -> Self:
        _import_all()
        asyncio.set_event_loop(self)
        for name, (real, virtual) in self._replaced.items():
            _replace(name, real, virtual)
        return self

    def __exit__(self, *args: object) -> None:
        for name, (real, virtual) in self._replaced.items():
            _replace(name, virtual, real)
        asyncio.set_event_loop(None)
        self.close()


class _Idle(Exception):
    """A thread waits for work."""


class _Inline(threading.Thread):
    """A thread whose work is done before the next callback, so that each run is the same. The thread
    of a ledger, which only writes what it gets, is a real one.
    """

    running: _Inline | None = None

    def start(self) -> None:
        if self.name == "ledger":
            super().start()
        else:
            self.go_on()

    def go_on(self) -> None:
        _Inline.running, before = self, _Inline.running
        with suppress(_Idle):
            self._target(*self._args, **self._kwargs)  # type: ignore[attr-defined]
        _Inline.running = before


class _Queue(deque[Any]):
    """What such a thread gets its work from."""

    reader: _Inline | None = None

    def get(self) -> Any:
        self.reader = _Inline.running
        if not self:
            raise _Idle
        return self.popleft()

    def put(self, item: Any) -> None:
        self.append(item)
        if self.reader is not None:
            self.reader.go_on()


def _living(callback: Callable[..., Any], context: Context | None) -> Any:
    """Return *callback* as its process runs it: not at all once that is dead, and later if that
    stands still.
    """
    process = PROCESS.get() if context is None else context.get(PROCESS)
    if process is None:
        return callback

    def run(*args: Any) -> None:
        if process.held is not None:
            process.held.append((partial(run, *args), copy_context()))
        elif not process.is_over:
            callback(*args)

    return run


def _replace(name: str, old: Any, new: Any) -> None:
    """Put *new* in the place of *old*, also where a module or class has it by its *name*."""
    for module_name, module in list(sys.modules.items()):
        is_time = module_name == "time" and name in {"time", "monotonic", "sleep"}
        is_used = module_name.split(".")[0] in {"scrapy", "scrapy_rep", "twisted"}
        # Compare with ==: bound methods are made anew each time.
        if (is_time or is_used) and vars(module).get(name) == old:
            setattr(module, name, new)
    if getattr(Clock, name, None) == old:
        setattr(Clock, name, staticmethod(new))
