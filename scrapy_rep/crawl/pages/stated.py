"""What the responses of a crawl state, for its components and its spider."""

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


# Not in ``Request.meta``: projects serialise that, and copy it to other requests. A response is
# replaced by components and spiders (``response.replace()``), and each copy has the same request.
_STATED: WeakKeyDictionary[Response | Request, Stated] = WeakKeyDictionary()
"""What each response states, by the response, and by its request for the copies of the response.
Both are forgotten when nothing else refers to them."""


def note(request: Request, response: Response, stated: Stated) -> None:
    """Keep what *response* to *request* states, as long as one of them exists."""
    _STATED[response] = _STATED[request] = stated
    if response.request is not None and response.request is not request:
        # A component has restored the request of the spider, which it had replaced.
        _STATED[response.request] = stated


def stated_by(response: Response) -> Stated | None:
    """Return what *response* states; None if it was not read."""
    stated = _STATED.get(response)
    if stated is None and response.request is not None:
        stated = _STATED.get(response.request)
    return stated


def indexing_rules(response: Response) -> IndexingRules:
    """Return the indexing rules of a response, as the crawl has read them: for its own product
    tokens, in its dialect.

    It works wherever the response is passed on: in callbacks, errbacks
    (``failure.value.response``), pipelines, and for copies by ``response.replace()``. The rules are
    kept beside the response and its ``request``, as long as these exist, so that nothing is in
    ``meta``.

    :param response: a response of a crawl with the add-on, with any status
    :raises ValueError: if the crawl has not read the response. It is not read now, since a response
        does not say which crawler has fetched it. That is so for a response that a test has made,
        for one from a pickle or ``deepcopy()``, for one that a component has given another
        request, and in a crawl without the add-on or without ``IndexingMiddleware``. Use
        :meth:`IndexingRules.parse` there.
    """
    rules, _ = _read(response, "IndexingRules")
    return rules


def usage_preferences(response: Response) -> UsagePreferences:
    """Return the usage preferences of a response: those that its headers and tags state, and those
    that robots.txt and tdmrep.json stated for its URL when it was requested.

    It works for the same responses as :func:`indexing_rules`.

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
