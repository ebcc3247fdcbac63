"""What a downloader middleware does for the requests of this package, in crawls and commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy import signals

from scrapy_rep.base.settings import RepSettings
from scrapy_rep.crawl.fetching.decompression import decoded
from scrapy_rep.crawl.fetching.request import RobotsTxtRequest

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response


class FetchMiddleware:
    """Asks for robots.txt unencoded, at the right virtual host and with a time-out of its own,
    decodes it if it is encoded nevertheless, and notes with which error its download has failed.
    RobotsTxtMiddleware calls it in a crawl.
    """

    ORDER = 595
    """Between HttpCompressionMiddleware (590), which then finds nothing to decode, and
    RedirectMiddleware (600)."""

    def __init__(self, crawler: Crawler) -> None:
        # One byte more tells the parser that the body was cut.
        self._limit = RepSettings.of(crawler).dialect.size_limit + 1

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> FetchMiddleware:
        """Called in commands. In a crawl, the frontier receives the signal."""
        found = cls(crawler)
        crawler.signals.connect(
            found.reached_downloader, signals.request_reached_downloader
        )
        return found

    @staticmethod
    def reached_downloader(request: Request) -> None:
        """Note that *request* has passed all middlewares."""
        if isinstance(request, RobotsTxtRequest):
            request.fetch.is_sent = True

    def process_request(self, request: Request) -> None:
        if isinstance(request, RobotsTxtRequest):
            # Without the header, a server may use any encoding (RFC 9110, 12.5.3).
            request.headers["Accept-Encoding"] = "identity"
            # That of DEFAULT_REQUEST_HEADERS, or of a middleware, names another site than the
            # one whose file is asked for.
            request.headers.pop("Host", None)
            if request.fetch.virtual_host:
                request.headers["Host"] = request.fetch.virtual_host
            request.meta["download_timeout"] = request.timeout

    def process_response(self, request: Request, response: Response) -> Response:
        is_own = isinstance(request, RobotsTxtRequest)
        return decoded(response, self._limit) if is_own else response

    def process_exception(self, request: Request, exception: Exception) -> None:
        if isinstance(request, RobotsTxtRequest) and request.fetch.is_sent:
            request.fetch.error = exception
