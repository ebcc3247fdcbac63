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
import uuid
from collections import deque
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from functools import cache, partial
from random import Random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import types
    from collections.abc import Callable

    from typing_extensions import Self

EPOCH = 1_800_000_000.0
"""The time of day when each crawl begins."""

_TICK = 1e-6
"""The seconds that each turn of the loop takes."""

_MAX_ITERATIONS = 1_000_000
"""A crawl that takes more turns of the loop never ends."""

_MAX_BUSY_ITERATIONS = 50_000
"""A crawl never ends if it takes so many turns in a row in which no time passes."""


_IMPORTED_PACKAGES = (
    "scrapy.core",
    "scrapy.downloadermiddlewares",
    "scrapy.spidermiddlewares",
    "scrapy.pipelines",
    "scrapy_redis",
    "scrapy_rep",
)
"""The packages whose modules a crawl may import late. All are imported before the clocks are replaced:
a module that copies a function of :mod:`time` while a virtual loop runs would keep it afterwards.
"""

_PATCHED_PACKAGES = {"scrapy", "scrapy_redis", "scrapy_rep", "twisted"}
"""The packages in which clocks, threads and queues are replaced, wherever a module or a class has a
reference to them. Nothing else of these packages is touched.
"""

_PATCHED_NAMES = {
    "time": "monotonic time sleep",
    "threading": "Thread",
    "queue": "SimpleQueue",
    "uuid": "uuid4",
}
"""The modules of the standard library in which they are replaced, and their names there."""


@cache
def _import_all() -> None:
    for name in _IMPORTED_PACKAGES:
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            with suppress(ImportError):
                importlib.import_module(module.name)


@dataclass(eq=False)
class Process:
    """A process of a crawl, with a clock of its own. Everything that it runs has it in its context."""

    number: int = 0
    clock_offset: float = 0.0
    """The seconds by which its time of day is ahead."""

    lag: float = 0.0
    """The seconds after which its threads do what they are asked for."""

    has_ended: bool = False
    """Whether the process has ended, so that no callback and no timer of it runs any more."""

    killed_at: float | None = None

    postponed: list[tuple[Callable[[], Any], Context]] | None = None
    """The callbacks that are due while it stands still; None while it does not."""

    kept_objects: list[Any] = field(default_factory=list)
    """The objects that it had in memory when it was killed."""

    def resume(self) -> None:
        """Continue after it stood still."""
        postponed, self.postponed = self.postponed, None
        for callback, context in postponed or ():
            asyncio.get_running_loop().call_soon(callback, context=context)


PROCESS: ContextVar[Process] = ContextVar("PROCESS", default=Process())  # noqa: B039  none is changed


class RanTooLong(Exception):
    """The loop has run for too long."""


class _Selector(selectors.DefaultSelector):
    now = 1_000.0
    iterations = 0
    busy_iterations = 0

    def __init__(self, longest: float) -> None:
        super().__init__()
        self.ends_at = self.now + longest

    def select(self, timeout: float | None = None) -> Any:
        self.iterations += 1
        self.busy_iterations += 1
        is_busy = self.busy_iterations > _MAX_BUSY_ITERATIONS
        if is_busy or self.iterations > _MAX_ITERATIONS or self.now > self.ends_at:
            raise RanTooLong
        events = super().select(0)
        # As a real clock, this one never stands still: code that is called a little early, and
        # waits for the rest, would be called at the same time forever.
        self.now += _TICK
        if not events and timeout is not None:
            self.now += timeout
            self.busy_iterations = 0 if timeout else self.busy_iterations
        return events


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop that never waits. Its clock is that of the whole process while it runs."""

    def __init__(self, longest: float) -> None:
        """Run for so many seconds at the longest."""
        self._virtual = _Selector(longest)
        self.clock_offset = 0.0
        """The seconds by which the time of day was set forward since the beginning."""

        self._replaced: list[tuple[Any, Any]] = [
            (time.monotonic, self.time),
            (time.time, self.time_of_day),
            (time.sleep, self.sleep),
            (threading.Thread, _InlineThread),
            (queue.SimpleQueue, _InlineQueue),
            (uuid.uuid4, self.uuid4),
        ]
        self._random = Random(0)
        super().__init__(self._virtual)

    def time(self) -> float:
        """Return the seconds on the monotonic clock."""
        return self._virtual.now

    def time_of_day(self) -> float:
        """Return the seconds since the epoch, by the clock of the process that asks."""
        return (
            EPOCH + self._virtual.now + self.clock_offset + PROCESS.get().clock_offset
        )

    def uuid4(self) -> uuid.UUID:
        """Return the next one of always the same sequence."""
        return uuid.UUID(int=self._random.getrandbits(128), version=4)

    def sleep(self, seconds: float) -> None:
        """Block the loop."""
        self._virtual.now += seconds

    def call_soon(
        self, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        if self.is_closed():
            # Objects of a killed crawl may be garbage-collected only now.
            return asyncio.Handle(callback, args, self, context)
        return super().call_soon(_guarded(callback, context), *args, context=context)

    def call_soon_threadsafe(
        self, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_at(
        self, when: float, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        called = _guarded(callback, context)
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
        _replace({id(real): virtual for real, virtual in self._replaced})
        return self

    def __exit__(self, *args: object) -> None:
        _replace({id(virtual): real for real, virtual in self._replaced})
        asyncio.set_event_loop(None)
        self.close()


class _Idle(Exception):
    """A thread waits for work."""


class _InlineThread(threading.Thread):
    """A thread whose work is done before the next callback, so that each run is the same."""

    running: _InlineThread | None = None

    def start(self) -> None:
        self.resume()

    def is_alive(self) -> bool:
        return False

    def join(self, timeout: float | None = None) -> None:
        """Return at once: it has done all that it can do."""

    def resume(self) -> None:
        _InlineThread.running, before = self, _InlineThread.running
        with suppress(_Idle):
            self._target(*self._args, **self._kwargs)  # type: ignore[attr-defined]
        _InlineThread.running = before


class _InlineQueue(deque[Any]):
    """The queue from which such a thread gets its work."""

    reader: _InlineThread | None = None

    def get(self) -> Any:
        self.reader = _InlineThread.running
        if not self:
            raise _Idle
        return self.popleft()

    def put(self, item: Any) -> None:
        self.append(item)
        lag = PROCESS.get().lag
        if self.reader is not None and lag:
            asyncio.get_running_loop().call_later(lag, self.reader.resume)
        elif self.reader is not None:
            self.reader.resume()


def _guarded(callback: Callable[..., Any], context: Context | None) -> Any:
    """Return *callback* as its process runs it: not at all once the process is dead, and later while the
    process stands still.
    """
    process = PROCESS.get() if context is None else context.get(PROCESS)
    if process is None:
        return callback

    def run(*args: Any) -> None:
        if process.postponed is not None:
            process.postponed.append((partial(run, *args), copy_context()))
        elif not process.has_ended:
            callback(*args)

    return run


def _replace(replacements: dict[int, Any]) -> None:
    """Replace objects, by their identity, wherever a module or a class of a package refers to them.

    This is the only seam between the simulation and what it runs: no class, function or attribute is
    known here by its name.
    """
    for name, module in list(sys.modules.items()):
        if name in _PATCHED_NAMES:
            _replace_in(module, replacements, _PATCHED_NAMES[name].split())
        elif name.partition(".")[0] in _PATCHED_PACKAGES:
            _replace_in(module, replacements)
            for value in list(vars(module).values()):
                if isinstance(value, type) and value.__module__ == name:
                    _replace_in(value, replacements)


def _replace_in(
    owner: types.ModuleType | type,
    replacements: dict[int, Any],
    names: list[str] | None = None,
) -> None:
    for name in names or list(vars(owner)):
        value = vars(owner)[name]
        is_static = isinstance(value, staticmethod)
        new = replacements.get(id(value.__func__ if is_static else value))
        if new is not None:
            setattr(owner, name, staticmethod(new) if is_static else new)
