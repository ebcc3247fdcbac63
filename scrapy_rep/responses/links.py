"""Finds the links of a page that are marked with ``rel``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from scrapy.http import HtmlResponse
from w3lib.url import canonicalize_url

if TYPE_CHECKING:
    from scrapy.http import Response

_SEPARATORS = re.compile(r"[\s,]+")


def only_marked(response: Response, rels: frozenset[str]) -> dict[str, str]:
    """The URLs for which every ``<a>`` or ``<area>`` link of a page has one of *rels*, given in
    lower case.

    The keys are canonical URLs (w3lib's ``canonicalize_url``), the values the ``rel`` of the first
    link to the URL, as written.
    """
    if not isinstance(response, HtmlResponse):
        return {}
    body = response.body.lower()
    if not any(rel.encode() in body for rel in rels):
        return {}  # This avoids parsing most pages.
    marked: dict[str, str] = {}
    unmarked: set[str] = set()
    for link in response.xpath("//a[@href] | //area[@href]"):
        try:
            url = canonicalize_url(response.urljoin(link.attrib["href"].strip()))
        except ValueError:  # An invalid URL, such as "http://[".
            continue
        rel = link.attrib.get("rel", "")
        if rels.isdisjoint(_SEPARATORS.split(rel.lower())):
            unmarked.add(url)
        else:
            marked.setdefault(url, rel)
    return {url: rel for url, rel in marked.items() if url not in unmarked}
