"""The indexing rules and usage preferences of the responses of a crawl, for its components and spider."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from typing import TypeAlias

    from scrapy import Request
    from scrapy.http import Response

    from scrapy_rep.protocol.indexing.rules import IndexingRules
    from scrapy_rep.protocol.usage.preferences import UsagePreferences

    # What a response states.
    Stated: TypeAlias = tuple[IndexingRules, UsagePreferences]


# Not in ``Request.meta``, which projects serialise, and copy to other requests. Components and spiders
# replace responses (``response.replace()``), and each copy has the same request.
_STATED: WeakKeyDictionary[Response | Request, Stated] = WeakKeyDictionary()
"""What each response states, by the response, and by its request for copies of the response. An entry
goes when nothing else refers to its key."""


def note(request: Request, response: Response, stated: Stated) -> None:
    """Keep what *response* states, as long as the response or its *request* exists."""
    _STATED[response] = _STATED[request] = stated
    if response.request is not None and response.request is not request:
        # A component has restored the request of the spider, which it had replaced.
        _STATED[response.request] = stated


def stated_by(response: Response) -> Stated | None:
    """Return what *response* states; None if IndexingMiddleware has not read it."""
    stated = _STATED.get(response)
    if stated is None and response.request is not None:
        stated = _STATED.get(response.request)
    return stated


def indexing_rules(response: Response) -> IndexingRules:
    """Return the indexing rules of a response, as the crawl has read them: for its own product
    tokens, in its dialect.

    The function works wherever the response is passed on: in callbacks, errbacks
    (``failure.value.response``) and pipelines, and for copies by ``response.replace()``. The rules are
    kept beside the response and its ``request`` as long as these exist; nothing is in ``meta``.

    :param response: a response of a crawl with the add-on, with any status
    :raises ValueError: if the crawl has not read the response: a test has made it, it comes from a
        pickle or ``deepcopy()``, a component has given it another request, or the crawl runs without
        the add-on or without ``IndexingMiddleware``. A response does not say which crawler has
        fetched it, so it is not read now. Use :meth:`IndexingRules.parse` there.
    """
    rules, _ = _read(response, "IndexingRules")
    return rules


def usage_preferences(response: Response) -> UsagePreferences:
    """Return the usage preferences of a response: those in its headers and tags, and those
    that robots.txt and tdmrep.json stated for its URL when it was requested.

    The function works for the same responses as :func:`indexing_rules`.

    :param response: a response of a crawl with the add-on, with any status
    :raises ValueError: if the crawl has not read the response, as in :func:`indexing_rules`. Use
        :meth:`UsagePreferences.parse` there.
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
