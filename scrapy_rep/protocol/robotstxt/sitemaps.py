"""Reads the sitemap lines of a robots.txt."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy_rep.protocol.robotstxt.lines import Line


def sitemap_urls(lines: Iterable[Line], url: str | None) -> Iterator[str]:
    """Yield the absolute http, https and ftp URLs of sitemap lines, without duplicates.

    *url* is the base for relative URLs; without it, these are ignored.
    """
    seen = set()
    for line in lines:
        found = line.value.decode("utf-8", "replace")
        try:
            absolute = urljoin(url, found) if url else found
            parts = urlsplit(absolute)
        except ValueError:  # "http://["
            continue
        is_of_the_web = parts.scheme in {"http", "https", "ftp"} and parts.netloc
        if found and is_of_the_web and absolute not in seen:
            seen.add(absolute)
            yield absolute
