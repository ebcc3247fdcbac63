"""What the settings make of what a response states: for its items, images, links, and for a file."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, NamedTuple

from scrapy.http import HtmlResponse, JsonResponse, TextResponse, XmlResponse

from scrapy_rep.protocol.indexing.rules import is_document
from scrapy_rep.protocol.request_target import is_robotstxt

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    from scrapy.http import Headers, Response

    from scrapy_rep.base.record import Because
    from scrapy_rep.base.settings import RepSettings
    from scrapy_rep.protocol.indexing.rules import IndexingRules
    from scrapy_rep.protocol.indexing.statements import Statement
    from scrapy_rep.protocol.usage.preferences import UsagePreferences

    # A rule or a purpose, and the statement that denies it.
    Denied: TypeAlias = tuple[str, Because]

_TYPES_OF_CLASSES = (
    (HtmlResponse, "text/html"),
    (XmlResponse, "application/xml"),
    (JsonResponse, "application/json"),
    (TextResponse, "text/plain"),
)


class Effects(NamedTuple):
    """What the settings make of what a response states."""

    items: Denied | None = None
    """Why items are dropped."""

    images: Denied | None = None
    """Why the URLs of images are removed from items."""

    links: Statement | None = None
    """Why links are not followed."""

    noted: tuple[Denied, ...] = ()
    """What is denied, of which the items only say so."""

    rules: IndexingRules | None = None
    """The indexing rules that items say."""

    usage: dict[str, dict[str, bool]] | None = None
    """What items say of the purposes that they may serve."""

    is_expiring: bool = False
    """Whether items may be indexed until a date."""


NO_EFFECT = Effects()
"""The effects of most responses, one object for all of them: everything passes as it is."""


def effects(
    settings: RepSettings,
    response: Response,
    rules: IndexingRules | None,
    preferences: UsagePreferences,
    purposes: Sequence[str],
    *,
    is_exempt: bool = False,
) -> Effects:
    """The effects that *rules* and *preferences* of *response* have in a crawl with *purposes*. A
    response that no middleware has read has no rules. *is_exempt* says whether its items are
    exempt from noindex.
    """
    found = NO_EFFECT
    if rules is not None and (
        settings.noindex == "annotate"
        or not (rules.index and rules.follow and rules.image_index)
        or rules.unavailable_after is not None
    ):
        found = _of_rules(settings, response, rules, is_exempt=is_exempt)
    if not purposes or settings.usage == "ignore":
        return found

    def denied(names: Sequence[str], *, image: bool = False) -> Denied | None:
        unknown = settings.usage_unknown
        return preferences.denial(names, unknown=unknown, image=image)

    if settings.usage == "drop":
        items, images = denied(purposes), denied(purposes, image=True)
        if items is None and images is None:
            return found
        return found._replace(items=found.items or items, images=found.images or images)
    of_page, of_images = (
        {each: denied([each], image=image) is None for each in purposes}
        for image in (False, True)
    )
    said = {"usage": of_page}
    if of_images != of_page:
        said["usage_of_images"] = of_images
    noted = tuple(filter(None, (*found.noted, denied(purposes))))
    return found._replace(noted=noted, usage=said)


def _of_rules(
    settings: RepSettings, response: Response, rules: IndexingRules, *, is_exempt: bool
) -> Effects:
    annotates, drops = settings.noindex == "annotate", settings.noindex == "drop"
    drops_links = not rules.follow and settings.nofollow == "drop"
    is_document = (drops or drops_links) and has_document(response)
    links = rules.because("nofollow") if is_document and drops_links else None
    if is_exempt or not (annotates or (is_document and drops)):
        return Effects(links=links)
    until = rules.unavailable_after
    now = datetime.now(timezone.utc)
    why = rules.why_not_indexable(now)
    denied = (why, rules.because(why)) if why else None
    is_expiring = until is not None and now <= until
    if annotates:
        noted = (denied,) if denied else ()
        return Effects(links=links, noted=noted, rules=rules, is_expiring=is_expiring)
    images = None
    if not rules.image_index:
        images = "noimageindex", rules.because("noimageindex")
    said = rules if is_expiring else None
    return Effects(denied, images, links, rules=said, is_expiring=is_expiring)


def has_document(response: Response) -> bool:
    """Whether *response* is a document, so that its indexing rules have an effect. Those of data
    are only exposed and recorded.

    Without a Content-Type, the class that Scrapy chose for the response decides. A robots.txt
    is data, although it is plain text: a SitemapSpider reads it.
    """
    if is_robotstxt(response.url):
        return False
    declared = _media_type(response.headers)
    classes = (name for each, name in _TYPES_OF_CLASSES if isinstance(response, each))
    return is_document(declared or next(classes, ""), response.body)


def _media_type(headers: Headers) -> str:
    """The media type in lower case; empty if the headers have none."""
    content_type = headers.get(b"Content-Type") or b""
    name = content_type.partition(b";")[0].partition(b",")[0]
    return name.decode("latin-1").strip().lower() if b"/" in name else ""
