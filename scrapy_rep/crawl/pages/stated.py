"""Keeps the indexing rules and usage preferences that IndexingMiddleware reads from each response, and returns them to
spiders, pipelines and other components.
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

    # The indexing rules and usage preferences of one response.
    Stated: TypeAlias = tuple[IndexingRules, UsagePreferences]


# A separate dictionary is used instead of a key in Request.meta, because projects serialise meta, and copy it to
# other requests.
_STATED: WeakKeyDictionary[Response | Request, Stated] = WeakKeyDictionary()
"""The indexing rules and usage preferences of each response, under two keys: the response and its request. They are
also kept under the request because a copy of the response (``response.replace()``) is a different key, but has the same
request. When a key is garbage-collected, its rules and preferences are deleted."""


def note(request: Request, response: Response, stated: Stated) -> None:
    """Keep *stated*, the indexing rules and usage preferences of *response*, as long as *response* or its *request*
    exists.
    """
    _STATED[response] = _STATED[request] = stated
    if response.request is not None and response.request is not request:
        # A component has sent its own request in place of the spider's request, and has then set response.request to
        # the spider's request.
        _STATED[response.request] = stated


def stated_by(response: Response) -> Stated | None:
    """Return the indexing rules and usage preferences of *response*. Return None if IndexingMiddleware did not
    read the response.
    """
    stated = _STATED.get(response)
    if stated is None and response.request is not None:
        stated = _STATED.get(response.request)
    return stated


def indexing_rules(response: Response) -> IndexingRules:
    """Return the indexing rules that a response states for this crawler. The crawler's product tokens decide which
    statements apply, and ``REP_DIALECT`` decides how the statements are read.

    The function works in callbacks, errbacks (``failure.value.response``) and pipelines, and for copies made by
    ``response.replace()``. The rules are kept as long as the response or its ``request`` exists. Nothing is
    written to ``meta``.

    :param response: a response of a crawl with the add-on, with any status
    :raises ValueError: if ``IndexingMiddleware`` did not read the response. The reason is one of these: a test created
        the response, the response comes from a pickle or ``deepcopy()``, a component replaced the request of the
        response, or the crawl runs without the add-on. Parse such a response with :meth:`IndexingRules.parse`. This
        function cannot parse it, since a response does not contain the product tokens and the dialect.
    """
    rules, _ = _read(response, "IndexingRules")
    return rules


def usage_preferences(response: Response) -> UsagePreferences:
    """Return the usage preferences of a response. They come from its headers, its meta tags, and the robots.txt and
    tdmrep.json that its site had at the time of the request.

    :param response: a response of a crawl with the add-on, with any status
    :raises ValueError: if ``IndexingMiddleware`` did not read the response; :func:`indexing_rules` lists
        the reasons. Parse such a response with :meth:`UsagePreferences.parse`.
    """
    _, preferences = _read(response, "UsagePreferences")
    return preferences


def _read(response: Response, parser: str) -> Stated:
    stated = stated_by(response)
    if stated is None:
        raise ValueError(
            f"scrapy-rep did not read {response}, because the response or its request does not "
            "come from a crawl with the add-on and its IndexingMiddleware. To parse a response "
            f"outside of a crawl, use scrapy_rep.{parser}.parse()"
        )
    return stated
