"""An event loop in virtual time. Instead of waiting, the loop sets its clock to the time of the next timer.

Several simulated processes can run on one loop. Each process has its own clock, and can be killed at any time.
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
"""The Unix time, in seconds, at which the monotonic clock of the loop is 0."""

_TICK = 1e-6
"""The seconds by which each iteration of the loop moves the clock."""

_MAX_ITERATIONS = 1_000_000
"""The loop raises :exc:`RanTooLong` after this number of iterations."""

_MAX_BUSY_ITERATIONS = 50_000
"""The loop raises :exc:`RanTooLong` after this number of iterations in a row that did not wait for a timer."""


_IMPORTED_PACKAGES = (
    "scrapy.core",
    "scrapy.downloadermiddlewares",
    "scrapy.spidermiddlewares",
    "scrapy.pipelines",
    "scrapy_redis",
    "scrapy_rep",
)
"""The packages whose modules are all imported before the clocks are replaced.

If a crawl imported a module with ``from time import time``, the module would keep the virtual clock after the crawl.
"""

_PATCHED_PACKAGES = {"scrapy", "scrapy_redis", "scrapy_rep", "twisted"}
"""The packages in which clocks, threads, queues and ``uuid4`` are replaced. Nothing else in these packages is changed.
"""

_PATCHED_NAMES = {
    "time": "monotonic time sleep",
    "threading": "Thread",
    "queue": "SimpleQueue",
    "uuid": "uuid4",
}
"""The names that are replaced in modules of the standard library, separated by spaces."""


@cache
def _import_all() -> None:
    for name in _IMPORTED_PACKAGES:
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            with suppress(ImportError):
                importlib.import_module(module.name)


@dataclass(eq=False)
class Process:
    """A simulated process of a crawl, with its own clock.

    Code that runs in the process finds the process in the context variable :data:`PROCESS`.
    """

    number: int = 0
    clock_offset: float = 0.0
    """The seconds by which the clock of the process is fast. A fast clock changes ``time.time()``, but no timer."""

    lag: float = 0.0
    """The delay, in seconds, before a thread of the process runs a task that it gets from a queue."""

    has_ended: bool = False
    """Whether the process has ended. Its callbacks and timers no longer run."""

    killed_at: float | None = None

    postponed: list[tuple[Callable[[], Any], Context]] | None = None
    """The callbacks that became due while the process was suspended. None if the process is not suspended."""

    kept_objects: list[Any] = field(default_factory=list)
    """The objects that the process had in memory when it was killed. They are kept until the crawl is over: if a
    coroutine were garbage-collected before, Python would run its ``finally`` blocks in the running crawl.
    """

    def resume(self) -> None:
        """End the suspension, and schedule the callbacks that became due meanwhile."""
        postponed, self.postponed = self.postponed, None
        for callback, context in postponed or ():
            asyncio.get_running_loop().call_soon(callback, context=context)


PROCESS: ContextVar[Process] = ContextVar("PROCESS", default=Process())  # noqa: B039  the default process is never changed


class RanTooLong(Exception):
    """The loop has run for too long. The crawl would probably never end."""


class _Selector(selectors.DefaultSelector):
    """A selector that moves the clock of the loop instead of waiting for events."""

    now = 1_000.0
    """The time on the monotonic clock of the loop, in seconds."""

    iterations = 0
    busy_iterations = 0
    """The number of iterations since the loop last waited for a timer."""

    def __init__(self, max_seconds: float) -> None:
        super().__init__()
        self.ends_at = self.now + max_seconds

    def select(self, timeout: float | None = None) -> Any:
        self.iterations += 1
        self.busy_iterations += 1
        is_busy = self.busy_iterations > _MAX_BUSY_ITERATIONS
        if is_busy or self.iterations > _MAX_ITERATIONS or self.now > self.ends_at:
            raise RanTooLong
        events = super().select(0)
        # The clock always moves a little, as a real clock does. Without this, code that is called too early by a
        # rounding error, and sets a timer for the rest, would be called again at the same time, for ever.
        self.now += _TICK
        if not events and timeout is not None:
            self.now += timeout
            self.busy_iterations = 0 if timeout else self.busy_iterations
        return events


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop that never waits. In a ``with`` block of the loop, clocks, threads and queues are virtual, in
    Scrapy, in the add-on and in the standard library.
    """

    def __init__(self, max_seconds: float) -> None:
        """Create a loop that raises :exc:`RanTooLong` after *max_seconds* of virtual time."""
        self._virtual = _Selector(max_seconds)
        self.clock_offset = 0.0
        """The seconds by which the clock of all processes is fast. Negative if the clock was set back."""

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
        """Return the time on the monotonic clock, in seconds. It is the same in all processes."""
        return self._virtual.now

    def time_of_day(self) -> float:
        """Return the Unix time, in seconds, by the clock of the current process."""
        return (
            EPOCH + self._virtual.now + self.clock_offset + PROCESS.get().clock_offset
        )

    def uuid4(self) -> uuid.UUID:
        """Return a UUID. Each run of a seed gets the same UUIDs in the same order."""
        return uuid.UUID(int=self._random.getrandbits(128), version=4)

    def sleep(self, seconds: float) -> None:
        """Move the clock by *seconds*, and run no callbacks. This replaces :func:`time.sleep`, which blocks a real
        loop.
        """
        self._virtual.now += seconds

    def call_soon(
        self, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        if self.is_closed():
            # The objects of a killed process can be garbage-collected after the loop is closed. What they schedule then
            # is never run.
            return asyncio.Handle(callback, args, self, context)
        return super().call_soon(_guarded(callback, context), *args, context=context)

    def call_soon_threadsafe(
        self, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_at(
        self, when: float, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        guarded = _guarded(callback, context)
        return super().call_at(when, guarded, *args, context=context)

    def run_in_executor(
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Call *func* at once, without a thread, and return a future with its result."""
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001  raised where the future is awaited
            future.set_exception(error)
        return future

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
    """A thread has no more work, because its queue is empty."""


class _InlineThread(threading.Thread):
    """A replacement for :class:`threading.Thread`. ``start`` calls the target directly, so that the order of events is
    the same in each run.
    """

    running: _InlineThread | None = None
    """The thread whose target runs now."""

    def start(self) -> None:
        self.resume()

    def is_alive(self) -> bool:
        return False

    def join(self, timeout: float | None = None) -> None:
        """Return at once, because the thread has already done its work."""

    def resume(self) -> None:
        """Call the target. The call ends when the target reads from an empty queue."""
        _InlineThread.running, outer = self, _InlineThread.running
        with suppress(_Idle):
            self._target(*self._args, **self._kwargs)  # type: ignore[attr-defined]
        _InlineThread.running = outer


class _InlineQueue(deque[Any]):
    """A replacement for :class:`queue.SimpleQueue`. ``put`` runs the thread that reads from the queue.

    The thread runs at once, or after :attr:`Process.lag` seconds if the current process has a lag.
    """

    reader: _InlineThread | None = None
    """The thread that reads from the queue. None if no thread has read from the queue yet."""

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
    """Return a function that calls *callback* only if its process runs.

    While the process is suspended, the call is postponed. After the process has ended, *callback* is not called.

    :param context: the context in which *callback* will run, which contains the process. If None, the process is the
        current process
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
    """Replace objects in all modules and classes of the patched packages, and in the standard library.

    *replacements* maps the ``id()`` of an old object, such as :func:`time.sleep`, to the new object.
    """
    # The simulation changes the code under test only here. It recognizes what to replace by the id() of the object, so
    # it depends on no name of a function or class in that code.
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
    """Replace attributes of *owner*, a module or a class. If *names* is given, replace only attributes with these
    names.

    *replacements* maps the ``id()`` of an old value to the new value. Attributes with other values are not changed.
    """
    for name in names or list(vars(owner)):
        value = vars(owner)[name]
        is_static = isinstance(value, staticmethod)
        new = replacements.get(id(value.__func__ if is_static else value))
        if new is not None:
            setattr(owner, name, staticmethod(new) if is_static else new)
