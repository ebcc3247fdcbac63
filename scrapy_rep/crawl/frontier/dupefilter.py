"""The duplicate filter of a crawl with a JOBDIR."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from scrapy.dupefilters import RFPDupeFilter

from scrapy_rep.crawl.frontier.frontier import Frontier
from scrapy_rep.crawl.frontier.jobdir import JobDir

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from typing_extensions import Self

    from scrapy_rep.crawl.frontier.jobdir import JobFile

_BYTES = 8


class DupeFilter(RFPDupeFilter):
    """Scrapy's RFPDupeFilter, with the fingerprints in the file of HostQueue.

    For Scrapy's setting ``DUPEFILTER_CLASS``. A request and its fingerprint are written in one
    transaction. So no request counts as seen that is in no queue. Without a JOBDIR, or with
    another ``SCHEDULER_PRIORITY_QUEUE``, it is the same as Scrapy's.

    With a JOBDIR, it keeps 64 bits of each fingerprint. After a billion requests, the probability
    that a new one is taken for one of them is 5 in 10^11.
    """

    _frontier: Frontier | None = None
    _job: JobDir | None = None
    _file: JobFile | None = None
    _seen: set[int]

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Called by the scheduler."""
        found = super().from_crawler(crawler)
        found._frontier = Frontier.of(crawler)
        found._job = JobDir.of(crawler)
        return found

    def open(self) -> None:
        """Called by the scheduler, after it has opened its queues."""
        if self._job is not None:
            self._file = self._job.file
        if self._file is None or self.file is None:
            return
        path = Path(self.file.name)
        self.file.close()
        self.file = None
        if not path.stat().st_size:
            path.unlink()
        self._seen = self._file.seen()

    def request_seen(self, request: Request) -> bool:
        """Return whether *request* was seen before, and note it."""
        if self._frontier is not None and self._frontier.is_stopped:
            return True  # Nothing is taken any more, and what is not taken must not be noted.
        if self._file is None:
            return super().request_seen(request)
        fingerprint = _short(self.fingerprinter.fingerprint(request))
        if fingerprint in self._seen:
            return True
        self._seen.add(fingerprint)
        self._file.offer(request, fingerprint)
        return False


def _short(fingerprint: bytes) -> int:
    return int.from_bytes(fingerprint[:_BYTES], "big", signed=True)
