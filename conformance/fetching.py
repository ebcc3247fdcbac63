"""A fetcher with prepared responses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

from scrapy_rep.protocol.access.results import AccessResult

if TYPE_CHECKING:
    from collections.abc import Mapping

_REDIRECTS = (301, 302, 303, 307, 308)


class Fetcher:
    """Returns responses by URL: ``{"status": 200, "headers": {...}, "robots": "..."}``.

    A status of null stands for a fetch without a response. Other URLs have status 404.
    """

    def __init__(self, answers: Mapping[str, Mapping[str, Any]]) -> None:
        self._answers = answers

    def fetch(self, url: str, max_redirects: int) -> AccessResult:
        """Fetch *url*, and follow up to *max_redirects* redirects."""
        asked = url
        redirects: list[str] = []
        while True:
            answer = self._answers.get(asked, {"status": 404})
            headers = {k.lower(): v for k, v in answer.get("headers", {}).items()}
            location = headers.get("location")
            is_redirect = answer["status"] in _REDIRECTS and location
            if not is_redirect or len(redirects) >= max_redirects:
                break
            asked = urljoin(asked, str(location))
            redirects.append(asked)
        return AccessResult(
            url=url,
            status=answer["status"],
            headers=tuple(headers.items()),
            body=str(answer.get("robots", "")).encode(),
            redirects=tuple(redirects),
        )
