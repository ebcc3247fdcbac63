"""Simulates fetches of robots.txt, with responses that a test case contains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

from scrapy_rep.protocol.access.results import AccessResult

if TYPE_CHECKING:
    from collections.abc import Mapping

_REDIRECTS = (301, 302, 303, 307, 308)


class Fetcher:
    """Simulates fetches. *answers* contains the response for each URL, such as
    ``{"status": 200, "headers": {...}, "robots": "..."}``.

    A status of None means that the server does not respond. The response for a URL that is not in *answers* has
    the status 404.
    """

    def __init__(self, answers: Mapping[str, Mapping[str, Any]]) -> None:
        self._answers = answers

    def fetch(self, url: str, max_redirects: int) -> AccessResult:
        """Return the result of a fetch of *url* that follows up to *max_redirects* redirects."""
        current_url = url
        redirects: list[str] = []
        while True:
            answer = self._answers.get(current_url, {"status": 404})
            headers = {k.lower(): v for k, v in answer.get("headers", {}).items()}
            location = headers.get("location")
            is_redirect = answer["status"] in _REDIRECTS and location
            if not is_redirect or len(redirects) >= max_redirects:
                break
            current_url = urljoin(current_url, str(location))
            redirects.append(current_url)
        return AccessResult(
            url=url,
            status=answer["status"],
            headers=tuple(headers.items()),
            body=str(answer.get("robots", "")).encode(),
            redirects=tuple(redirects),
        )
