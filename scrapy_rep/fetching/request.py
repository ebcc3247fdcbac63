"""The request for a robots.txt."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from scrapy import Request
from scrapy.exceptions import StopDownload
from scrapy.http.request import NO_CALLBACK

from scrapy_rep import meta
from scrapy_rep.fetching.wholeness import check_whole

if TYPE_CHECKING:
    from scrapy.http import Response
    from typing_extensions import Self

# What a robots.txt may come to when it is decompressed. It is not asked for compressed,
# and read only as far as the dialect says; this is the bound for the server that
# compresses all the same, and means harm.
_MAX_DECOMPRESSED = 16 * 1024 * 1024


class RobotsTxtRequest(Request):
    """A request for robots.txt that this package makes itself.

    Such requests alone pass the gate unseen. They are known by their class, which
    ``replace()`` keeps and no meta that is copied to another request carries.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._bytes = 0
        self._since = 0.0

    @classmethod
    def of(cls, url: str, cause: Request, timeout: float) -> Self:
        """A request for *url* like *cause*, which waits for it, in that what decides about
        proxies, TLS and connections does with it as with that.
        """
        return cls(
            url,
            headers={**cause.headers, "Accept-Encoding": "identity"},
            callback=NO_CALLBACK,
            dont_filter=True,
            meta={
                **cause.meta,
                meta.DONT_OBEY_ROBOTSTXT: True,
                "allow_offsite": True,
                "autothrottle_dont_adjust_delay": True,
                "dont_cache": True,
                "dont_merge_cookies": True,
                "dont_redirect": True,
                "dont_retry": True,
                "download_fail_on_dataloss": True,
                # Cut when enough is there, never failed for its size.
                "download_maxsize": 0,
                "download_timeout": timeout,
                "download_warnsize": 0,
                "handle_httpstatus_all": True,
            },
        )

    def received(self, size: int, limit: int, timeout: float) -> None:
        """So many bytes more have come in. Raises StopDownload where these are more than
        *limit*, or have taken longer than *timeout* seconds.
        """
        now = time.monotonic()
        if not self._bytes:
            self._since = now
        self._bytes += size
        # One byte more than is read, so that the reader knows that it was cut.
        if self._bytes > limit:
            raise StopDownload(fail=False)
        # For handlers whose time-out is that of each read: one byte at a time could take
        # for ever.
        if now - self._since > timeout:
            raise StopDownload(fail=True)


def before_decompression(request: Request, response: Response) -> None:
    """Let a robots.txt that comes compressed be decompressed only so far, and only where
    all of it is there. Raises IncompleteBody otherwise.

    To be called between download and decompression: as a bound of the download it would
    fail long files rather than cut them.
    """
    check_whole(response, _MAX_DECOMPRESSED)
    request.meta["download_maxsize"] = _MAX_DECOMPRESSED
