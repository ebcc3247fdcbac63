"""Finds out, in a dry run, which requests a real run would come to make."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakSet

from scrapy import signals

from scrapy_rep import stats
from scrapy_rep.compat.versions import shared_component

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from scrapy import Request
    from scrapy.crawler import Crawler

    Call: TypeAlias = Callable[[], object]

MAX_REMEMBERED = 1_000_000
"""The most requests and calls to remember, in a few hundred MB. Of later requests, all count as
reached."""


class _Step:
    """A request that is not open: it is not judged yet, not reached, or would be refused."""

    __slots__ = ("is_allowed", "is_reached", "when_open", "when_reached")

    def __init__(self, *, is_reached: bool) -> None:
        self.is_reached = is_reached
        self.is_allowed: bool | None = None
        """None while it is not judged."""
        self.when_reached: list[Call] = []
        self.when_open: list[Call] = []


class Reach:
    """Which requests of a dry run a real run would make as well.

    A dry run also fetches the pages behind a request that would be refused, and behind a link that
    would not be followed. A real run does not see these pages, unless another way leads there: so
    what is decided about them is held here, until such a way is found. What is held at the end is
    never reported.

    A request is *reached* if a real run makes it: it is a start request, or an open page leads
    to it by a link that may be followed. It is *open* if it is reached and would not be refused.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._stats = crawler.stats
        self._fingerprinter = crawler.request_fingerprinter
        self.has_judge = False
        """Whether each request is judged. Without RobotsTxtMiddleware, none would be refused."""

        self._reached: set[bytes] = set()
        self._steps: dict[bytes, _Step] = {}
        self._linked: WeakSet[Request] = WeakSet()
        """Those that look as if they were redirected, since the spider copied the meta of a page."""

        self._held = 0
        """The number of calls that wait."""

        self._due: deque[Call] = deque()
        self._is_running = False
        crawler.signals.connect(self._scheduled, signals.request_scheduled)

    @classmethod
    def of(cls, crawler: Crawler) -> Reach:
        """Return the instance that the components of a crawl share."""
        return shared_component(crawler, cls)

    # What happens in the crawl.

    def led(self, page: Request | None, request: Request, *, follows: bool) -> None:
        """Note that the response to *page* leads to *request*, and whether a real run *follows*."""
        if "redirect_urls" in request.meta:
            self._linked.add(request)
        found = self._fingerprint(request)
        if found in self._reached:
            return
        before = self._step(page)
        if follows and before is None:
            self._reach(found)
        elif found in self._steps or self._has_room:
            self._steps.setdefault(found, _Step(is_reached=False))
            if follows and before is not None and before.is_allowed is not False:
                self._hold(before.when_open, partial(self._reach, found))

    def sent(self, request: Request) -> None:
        """Note that *request* is sent; it will be judged."""
        found = self._fingerprint(request)
        if "redirect_urls" in request.meta:
            self._scheduled(request)
        elif request.meta.get("is_start_request") and not request.meta.get("depth"):
            # Spiders that copy the meta of a page to its links copy this mark, too.
            self._reach(found)
        if found not in self._steps:
            # Nothing is known of how the spider came to it, as for a request of a pipeline.
            self._steps[found] = _Step(is_reached=True)
            if self._has_room:
                self._reached.add(found)

    def _scheduled(self, request: Request) -> None:
        """Note where a redirect leads, also if the target was requested before, so that it is not
        sent again.
        """
        redirected_from = request.meta.get("redirect_urls")
        if redirected_from and request not in self._linked:
            self.led(request.replace(url=redirected_from[-1]), request, follows=True)

    def judged(self, request: Request, *, is_allowed: bool) -> None:
        """Note the verdict on a *request* that was sent."""
        found = self._fingerprint(request)
        step = self._steps.get(found)
        if step is None:
            return
        if step.is_allowed is None and not step.is_reached:
            self._stats.inc_value(stats.DRY_RUN_NOT_MET)
        step.is_allowed = is_allowed
        if not is_allowed:
            self._held -= len(step.when_open)
            step.when_open.clear()
            if not self._has_room:
                self._reach(found)
                del self._steps[found]
        elif step.is_reached:
            self._open(found, step)

    # What depends on it.

    def is_pending(self, request: Request | None) -> bool:
        """Whether *request* was sent, and is not judged yet."""
        step = self._step(request)
        return step is not None and step.is_allowed is None

    def is_refused(self, request: Request) -> bool:
        """Whether *request* was sent before, and would be refused."""
        step = self._step(request)
        return step is not None and step.is_allowed is False

    def when_reached(self, request: Request | None, call: Call) -> None:
        """Call *call* once a real run would make *request*, now or later or never."""
        step = self._step(request)
        if step is None or step.is_reached:
            call()
        else:
            self._hold(step.when_reached, call)

    def when_open(self, request: Request | None, call: Call) -> None:
        """Call *call* once a real run would get the response to *request*."""
        step = self._step(request)
        if step is None:
            call()
        elif step.is_allowed is not False:
            self._hold(step.when_open, call)

    # The steps.

    @property
    def _has_room(self) -> bool:
        count = len(self._reached) + len(self._steps) + self._held
        return count < MAX_REMEMBERED

    def _hold(self, calls: list[Call], call: Call) -> None:
        calls.append(call)
        self._held += 1

    def _fingerprint(self, request: Request) -> bytes:
        found: bytes = self._fingerprinter.fingerprint(request)
        return found

    def _step(self, request: Request | None) -> _Step | None:
        return None if request is None else self._steps.get(self._fingerprint(request))

    def _reach(self, found: bytes) -> None:
        if self._has_room:
            self._reached.add(found)
        step = self._steps.get(found)
        if step is None or step.is_reached:
            return
        step.is_reached = True
        if step.is_allowed is not None:
            self._stats.inc_value(stats.DRY_RUN_NOT_MET, -1)
        self._release(step.when_reached)
        if step.is_allowed or not self.has_judge:
            self._open(found, step)
        self._run()

    def _open(self, found: bytes, step: _Step) -> None:
        del self._steps[found]
        self._release(step.when_open)
        self._run()

    def _release(self, calls: list[Call]) -> None:
        self._held -= len(calls)
        self._due.extend(calls)
        calls.clear()

    def _run(self) -> None:
        """Call what is due. Calls may open further requests: not one inside another."""
        if self._is_running:
            return
        self._is_running = True
        try:
            while self._due:
                self._due.popleft()()
        finally:
            self._is_running = False
