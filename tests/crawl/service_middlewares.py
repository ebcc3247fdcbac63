"""Middlewares that send requests to a service which fetches the pages, as plugins do."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from scrapy_rep.fetching.request import RobotsTxtRequest

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from typing_extensions import Self


class Service:
    """Replaces each request by one to a service, in the download slot of the site, and
    gives the response the URL of the site, as scrapy-splash does.
    """

    is_exempt = False

    def __init__(self, url: str) -> None:
        self._url = url

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler.settings["SERVICE_URL"])

    def process_request(self, request: Request) -> Request | None:
        if isinstance(request, RobotsTxtRequest) or "rendered" in request.meta:
            return None
        meta = {
            **request.meta,
            "rendered": request.url,
            "download_slot": urlsplit(request.url).hostname,
        }
        if self.is_exempt:
            meta["dont_obey_robotstxt"] = True
        return request.replace(
            url=f"{self._url}/render?url={quote(request.url, safe='')}",
            method="POST",
            meta=meta,
            dont_filter=True,
            priority=request.priority + 100,
        )

    def process_response(self, request: Request, response: Response) -> Response:
        if "rendered" not in request.meta:
            return response
        landed = response.headers.get("X-Landed", b"").decode()
        return response.replace(url=landed or request.meta["rendered"])


class ExemptService(Service):
    """A Service whose requests have ``dont_obey_robotstxt``, as those of scrapy-splash have."""

    is_exempt = True
