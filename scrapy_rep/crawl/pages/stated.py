"""Keeps the indexing rules and usage preferences that IndexingMiddleware has read from each response, for
spiders, pipelines and the other components.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from typing import TypeAlias

    from scrapy import Request
    from scrapy.http import Response

    from scrapy_rep.protocol.indexing.rules import IndexingRules
    from scrapy_rep.protocol.usage.preferences import UsagePreferences

    # The statements of one response.
    Stated: TypeAlias = tuple[IndexingRules, UsagePreferences]


# A dictionary beside the requests, and not a key in Request.meta: projects serialise meta, and copy it to
# other requests. A copy of a response (response.replace()) still has the same request.
_STATED: WeakKeyDictionary[Response | Request, Stated] = WeakKeyDictionary()
"""The statements of each response, under two keys: the response itself and, to serve copies of the response,
its request. An entry is deleted together with its key."""


def note(request: Request, response: Response, stated: Stated) -> None:
    """Keep the statements of *response* (*stated*) as long as the response or its *request* exists."""
    _STATED[response] = _STATED[request] = stated
    if response.request is not None and response.request is not request:
        # A component sent a request of its own, and has put the request of the spider back on the response.
        _STATED[response.request] = stated


def stated_by(response: Response) -> Stated | None:
    """Return the indexing rules and usage preferences of *response*; None if IndexingMiddleware has not
    read the response.
    """
    stated = _STATED.get(response)
    if stated is None and response.request is not None:
        stated = _STATED.get(response.request)
    return stated


def indexing_rules(response: Response) -> IndexingRules:
    """Return the indexing rules of a response, for the product tokens and the dialect of the crawl.

    The function works wherever the response is passed on: in callbacks, errbacks
    (``failure.value.response``) and pipelines, and for copies by ``response.replace()``. The rules are
    kept as long as the response or its ``request`` exists; nothing is written to ``meta``.

    :param response: a response of a crawl with the add-on, with any status
    :raises ValueError: if ``IndexingMiddleware`` has not read the response: a test has made it, it comes
        from a pickle or ``deepcopy()``, a component has replaced its request, or the crawl runs without
        the add-on. The function does not parse such a response itself, since a response does not say
        which product tokens and dialect apply. Use :meth:`IndexingRules.parse` for it.
    """
    rules, _ = _read(response, "IndexingRules")
    return rules


def usage_preferences(response: Response) -> UsagePreferences:
    """Return the usage preferences of a response: from its headers, its meta tags, and the robots.txt and
    tdmrep.json of its site as they were when the response was requested.

    :param response: a response of a crawl with the add-on, with any status
    :raises ValueError: if ``IndexingMiddleware`` has not read the response; :func:`indexing_rules` lists
        the reasons. Use :meth:`UsagePreferences.parse` for such a response.
    """
    _, preferences = _read(response, "UsagePreferences")
    return preferences


def _read(response: Response, parser: str) -> Stated:
    stated = stated_by(response)
    if stated is None:
        raise ValueError(
            f"{response} was not read by scrapy-rep: the response, or its request, does not come "
            "from a crawl with the add-on and its IndexingMiddleware. Without a crawl, use "
            f"scrapy_rep.{parser}.parse()"
        )
    return stated
