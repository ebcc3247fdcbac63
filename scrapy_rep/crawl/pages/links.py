"""The links of a page."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from scrapy.http import HtmlResponse
from w3lib.html import get_base_url, strip_html5_whitespace
from w3lib.url import canonicalize_url

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.http import Response

_SEPARATORS = re.compile(r"[\s,]+")

# The work for the links of one page is bounded, to about a second. It is counted in characters: those
# of each link and of the base URL, and some for each link. Ordinary pages may have 15,000 links.
_MAX_WORK = 2_000_000
_WORK_OF_LINK = 100
_WORK_OF_NON_ASCII = 4


@dataclass(frozen=True)
class Links:
    """The ``<a>`` and ``<area>`` links of a page, in order."""

    found: tuple[tuple[str, str], ...] = ()
    """The canonical URL (w3lib's ``canonicalize_url``, which Scrapy's fingerprints use too) and the
    ``rel`` of each link, as written."""

    is_whole: bool = True
    """Whether these are all of them. A page may have too many to read them all."""

    @cached_property
    def urls(self) -> frozenset[str]:
        return frozenset(url for url, _ in self.found)

    @classmethod
    def of(cls, response: Response) -> Links:
        """Read the links of *response*. What is not HTML has none."""
        if not isinstance(response, HtmlResponse):
            return cls()
        base, work = get_base_url(response.text[:4096], response.url), 0
        found: list[tuple[str, str]] = []
        for href, rel in _elements(response):
            factor = 1 if href.isascii() else _WORK_OF_NON_ASCII
            work += _WORK_OF_LINK + len(base) + factor * len(href)
            if work > _MAX_WORK:
                return cls(tuple(found), is_whole=False)
            found += [(url, rel) for url in _canonical(href, response)]
        return cls(tuple(found))


def _elements(response: HtmlResponse) -> Iterator[tuple[str, str]]:
    """Yield the ``href`` and the ``rel`` of each link."""
    for element in response.selector.root.iter("a", "area"):
        href = element.get("href")
        if href is not None:
            yield strip_html5_whitespace(href), element.get("rel", "")


def _canonical(href: str, response: HtmlResponse) -> set[str]:
    """Return the canonical URLs of a link: a spider writes what is not ASCII in its query in the
    encoding of the page, or in UTF-8. None for an invalid URL, such as "http://[".
    """
    try:
        url = response.urljoin(href)
        found = {canonicalize_url(url)}
        if not url.isascii():
            found.add(canonicalize_url(url, encoding=response.encoding))
    except ValueError:
        return set()
    return found


def only_marked(response: Response, rels: frozenset[str]) -> dict[str, str]:
    """The canonical URLs for which every link of a page has one of *rels*, given in lower case, with
    the ``rel`` of the first link to the URL, as written.
    """
    if not isinstance(response, HtmlResponse):
        return {}
    body = response.body.lower()
    if not any(rel.encode() in body for rel in rels):
        return {}  # This avoids parsing most pages.
    marked: dict[str, str] = {}
    unmarked: set[str] = set()
    for url, rel in Links.of(response).found:
        if rels.isdisjoint(_SEPARATORS.split(rel.lower())):
            unmarked.add(url)
        else:
            marked.setdefault(url, rel)
    return {url: rel for url, rel in marked.items() if url not in unmarked}
