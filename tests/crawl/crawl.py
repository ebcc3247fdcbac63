"""Runs a crawl in a process of its own, and reads the report that the process writes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from scrapy.settings import default_settings

from tests import forks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

MODES = ("asyncio", "select", "reactorless")
"""The ways in which Scrapy runs: with a Twisted reactor on asyncio or on select(), and without a reactor."""

ADDON = {"ADDONS": {"scrapy_rep.Addon": 500}}
BY_HAND = {
    "ROBOTSTXT_OBEY": True,
    "DOWNLOADER_MIDDLEWARES": {
        "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware": None,
        "scrapy_rep.crawl.gate.RobotsTxtMiddleware": 100,
        "scrapy_rep.crawl.gate.ArrivalMiddleware": 595,
        "scrapy_rep.crawl.wire.WireMiddleware": 950,
    },
}
"""Settings that enable the middlewares one by one, without the add-on."""

QUIET = {
    # Scrapy starts this number of tasks for each response.
    "CONCURRENT_ITEMS": 4,
    "CONCURRENT_REQUESTS": 100,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 100,
    "HTTPERROR_ALLOW_ALL": True,
    "LOG_FORMAT": "%(levelname)s [%(name)s] %(message)s",
    "LOG_VERSIONS": [],
    "LOGSTATS_INTERVAL": 0,
    "MEMUSAGE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False,
    # Most hosts of a test are ports of 127.0.0.1, so a pause would apply to all of them.
    "REP_BACKOFF_MAX": 0,
    "REP_WAIT_TIMEOUT": 0,
    "RETRY_ENABLED": False,
    "TELNETCONSOLE_ENABLED": False,
    "USER_AGENT": "testbot",
}
"""Settings of all crawls, with which a crawl is fast and logs little."""

RETRIED_SOON = {
    "scrapy_rep.protocol.access.freshness._FIRST_RETRY": 0.5,
    "scrapy_rep.protocol.access.freshness._LAST_RETRY": 1.0,
}
"""Constants with which an unreachable robots.txt is fetched again after at most a second."""

ROOT = Path(__file__).parents[2]


def has_reactorless_mode() -> bool:
    return hasattr(default_settings, "TWISTED_REACTOR_ENABLED")


@dataclass(frozen=True)
class CrawlResult:
    """The result of a crawl, as its process has reported it.

    ``responses``: the responses that callbacks got (url, status, flags, body, dont_filter, and the keys of meta).
    ``errors``: the errors that errbacks got (url, error, message). A refused request also has reason, line, rule,
        agent and robotstxt_url.
    ``denied``: the refusals that the signal ``decision_made`` reported.
    ``parsed``: one entry for each signal ``robots_parsed``: the URL of its request (url), whether its parser allows
        this URL (allowed), and whether its parser allows the page ``private`` in the same folder (private).
    ``read``: all responses, including those for robots.txt (url, time by the monotonic clock).
    ``memory``: the peak memory of the process in bytes.
    """

    exit_code: int
    duration: float
    log: str
    stats: dict[str, Any]
    responses: list[dict[str, Any]]
    errors: list[dict[str, Any]]
    items: list[dict[str, Any]]
    denied: list[dict[str, Any]]
    parsed: list[dict[str, Any]]
    read: list[dict[str, Any]]
    memory: int

    def lines(self, level: str, *words: str) -> list[str]:
        """Return the lines that this package logged at *level* and that contain all *words*."""
        start = f"{level} [scrapy_rep"
        return [
            line
            for line in self.log.splitlines()
            if line.startswith(start) and all(word in line for word in words)
        ]

    def error(self, url: str) -> dict[str, Any]:
        """Return the error that the errback of the request for *url* got."""
        (error,) = (error for error in self.errors if error["url"] == url)
        return error

    def fetched(self) -> list[str]:
        """Return the URLs of the responses that callbacks got, sorted."""
        return sorted(response["url"] for response in self.responses)


def run_crawl(*args: Any, timeout: float = 120, **kwargs: Any) -> CrawlResult:
    """Run a crawl with the arguments of :func:`start_crawl`, and return its result.

    After *timeout* seconds, the process is killed and the test fails.
    """
    return start_crawl(*args, **kwargs).result(timeout)


def start_crawl(
    requests: Iterable[str | Mapping[str, Any]] = (),
    *,
    then: Iterable[str | Mapping[str, Any]] = (),
    mode: str = "asyncio",
    spider: str = "PlanSpider",
    settings: Mapping[str, Any] | None = None,
    enable: Mapping[str, Any] = ADDON,
    names: Mapping[str, Sequence[str | None]] | None = None,
    max_files: int = 0,
    constants: Mapping[str, float] | None = None,
    **attributes: Any,
) -> RunningCrawl:
    """Start a process that crawls, and return at once.

    *requests* are sent first, and those of *then* when the spider is idle. A request is a URL, or the keyword arguments
    of a ``Request``.

    *mode*: one of ``MODES``.
    *spider*: a class in ``tests.crawl.spiders``, or an import path.
    *settings*: settings of the test, which take precedence over all others.
    *enable*: the settings that enable this package.
    *names*: the addresses of host names, see :func:`tests.crawl.names.resolve_only`.
    *max_files*: the maximum number of open files of the process; 0 for no change.
    *constants*: new values of constants in modules, by the import paths of the constants.
    *attributes*: attributes of the spider.
    """
    steps = [[_request(request) for request in step] for step in (requests, then)]
    spec = {
        "mode": mode,
        "spider": spider if "." in spider else f"tests.crawl.spiders.{spider}",
        "settings": {**QUIET, **enable, **(settings or {})},
        "names": names or {},
        "max_files": max_files,
        "constants": constants or {},
        "attributes": {**attributes, "steps": steps},
    }
    return RunningCrawl(spec)


class RunningCrawl:
    """The process of a crawl. A test must wait for its end, with :meth:`wait` or :meth:`result`."""

    alive: ClassVar[weakref.WeakSet[RunningCrawl]] = weakref.WeakSet()
    """All crawls that are still referenced, for example by the traceback of a failed test."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        folder = Path(tempfile.mkdtemp())
        # The folder is removed with this object, not in result(): most tests of killed crawls do not call result().
        weakref.finalize(self, shutil.rmtree, folder)
        self._report = folder / "report.json"
        self._log = folder / "log"
        spec_file = folder / "spec.json"
        spec_file.write_text(json.dumps(spec), encoding="utf-8")
        self._started = time.monotonic()
        with spec_file.open() as spec_input, self._log.open("w") as log:
            self.process = forks.Popen(
                ["tests.crawl.runner", str(self._report)],
                cwd=ROOT,
                env=environment(measured=spec["mode"] == "asyncio"),
                stdin=spec_input,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self.alive.add(self)

    @property
    def log(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    def until(self, condition: Callable[[], object]) -> None:
        """Wait until *condition* is true. Fail if the process ends first."""

        def is_true() -> bool:
            has_ended = self.process.poll() is not None
            is_met = bool(condition())
            assert is_met or not has_ended, f"The process has ended:\n{self.log}"
            return is_met

        wait_until(is_true)

    def wait(self, timeout: float = 120) -> int:
        """Wait for the process, and return its exit code. Fail after *timeout* seconds."""
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired as error:
            self.end()
            raise AssertionError(
                f"The crawl has not ended after {timeout} s:\n{self.log}"
            ) from error

    def end(self) -> None:
        """Kill the process, unless a test has waited for its end."""
        if self.process.returncode is None:
            self.process.kill()
            self.process.wait(10)

    def result(self, timeout: float = 120) -> CrawlResult:
        """Wait for the process, and return its report."""
        exit_code = self.wait(timeout)
        duration = time.monotonic() - self._started
        assert self._report.exists(), self.log
        report = json.loads(self._report.read_text(encoding="utf-8"))
        return CrawlResult(exit_code, duration, self.log, **report)


def wait_until(condition: Callable[[], object], seconds: float = 120) -> None:
    """Wait until *condition* is true; fail after *seconds*."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"The condition is still false after {seconds} s"
        time.sleep(0.01)


def _request(request: str | Mapping[str, Any]) -> dict[str, Any]:
    return {"url": request} if isinstance(request, str) else dict(request)


def environment(*, measured: bool) -> dict[str, str]:
    """Return the environment variables without those that change a crawl, such as the addresses of proxies.

    If *measured* is false, the crawl runs without a measurement of coverage, and is faster.
    """
    unwanted = ("SCRAPY_",) if measured else ("SCRAPY_", "COVERAGE_PROCESS_")
    return {
        name: value
        for name, value in os.environ.items()
        if not name.lower().endswith("_proxy") and not name.startswith(unwanted)
    }
