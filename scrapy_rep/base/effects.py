"""The effects of the statements of a response on its items, images and links, by the settings."""

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

    from scrapy_rep.base.records import Because
    from scrapy_rep.base.settings import RepSettings
    from scrapy_rep.protocol.indexing.rules import IndexingRules
    from scrapy_rep.protocol.indexing.statements import Statement
    from scrapy_rep.protocol.usage.preferences import UsagePreferences

    # The rule or purpose that is denied, and the statement that denies it.
    Denied: TypeAlias = tuple[str, Because]

_TYPES_OF_CLASSES = (
    (HtmlResponse, "text/html"),
    (XmlResponse, "application/xml"),
    (JsonResponse, "application/json"),
    (TextResponse, "text/plain"),
)


class Effects(NamedTuple):
    """The effects that the statements of a response have in a crawl."""

    items: Denied | None = None
    """Why items are dropped; None if they are not."""

    images: Denied | None = None
    """Why the URLs of images are removed from items; None if they are not."""

    links: Statement | None = None
    """The statement because of which links are not followed; None if they are followed."""

    noted: tuple[Denied, ...] = ()
    """The denials that withhold nothing, because they are only written into items."""

    restrictions: dict[str, bool | int | str] | None = None
    """The indexing rules that are written into items; None if they restrict nothing."""

    usage: dict[str, dict[str, bool]] | None = None
    """The purposes that are disallowed, as written into items; None if none is."""

    is_expiring: bool = False
    """Whether items may be indexed until a date."""


NO_EFFECT = Effects()
"""The effects of most responses: nothing is withheld or annotated."""


def effects(
    settings: RepSettings,
    response: Response,
    rules: IndexingRules | None,
    preferences: UsagePreferences,
    purposes: Sequence[str],
    *,
    is_exempt: bool = False,
) -> Effects:
    """Return the effects that the *rules* and *preferences* of *response* have in a crawl with
    *purposes*. *rules* are None for a response that no middleware has read. *is_exempt* says
    whether the items are exempt from noindex.
    """
    result = NO_EFFECT
    if rules is None:
        pass
    elif settings.noindex == "annotate":
        result = _annotation(settings, response, rules, is_exempt=is_exempt)
    elif (
        not (rules.index and rules.follow and rules.image_index)
        or rules.unavailable_after is not None
    ):
        result = _of_rules(settings, response, rules, is_exempt=is_exempt)
    if not purposes or settings.usage == "ignore":
        return result

    def denied(names: Sequence[str], *, image: bool = False) -> Denied | None:
        unknown = settings.usage_unknown
        return preferences.denial(names, unknown=unknown, image=image)

    if settings.usage == "drop":
        items, images = denied(purposes), denied(purposes, image=True)
        if items is None and images is None:
            return result
        return result._replace(
            items=result.items or items, images=result.images or images
        )
    of_page = {name: False for name in purposes if denied([name])}
    of_images = {
        name: False
        for name in purposes
        if name not in of_page and denied([name], image=True)
    }
    usage = {"usage": of_page, "usage_of_images": of_images}
    usage = {name: values for name, values in usage.items() if values}
    if not usage:
        return result
    noted = tuple(filter(None, (*result.noted, denied(purposes))))
    return result._replace(noted=noted, usage=usage)


def _annotation(
    settings: RepSettings, response: Response, rules: IndexingRules, *, is_exempt: bool
) -> Effects:
    """Return the effects of *rules* with the setting value ``annotate``: items are marked, and not dropped."""
    restrictions = rules.restrictions()
    if not restrictions or not is_success(response):
        return NO_EFFECT
    links = _denied_links(settings, response, rules)
    if is_exempt:
        return Effects(links=links)
    now = datetime.now(timezone.utc)
    why = rules.why_not_indexable(now)
    return Effects(
        links=links,
        noted=((why, rules.because(why)),) if why else (),
        restrictions=restrictions,
        is_expiring=_is_expiring(rules, now),
    )


def _of_rules(
    settings: RepSettings, response: Response, rules: IndexingRules, *, is_exempt: bool
) -> Effects:
    """Return the effects of *rules* if items are dropped, or noindex is ignored."""
    if not is_success(response):
        return NO_EFFECT
    links = _denied_links(settings, response, rules)
    if is_exempt or settings.noindex != "drop" or not has_document(response):
        return Effects(links=links)
    now = datetime.now(timezone.utc)
    why = rules.why_not_indexable(now)
    items = (why, rules.because(why)) if why else None
    images = None
    if not rules.image_index:
        images = "noimageindex", rules.because("noimageindex")
    return Effects(items, images, links, is_expiring=_is_expiring(rules, now))


def _denied_links(
    settings: RepSettings, response: Response, rules: IndexingRules
) -> Statement | None:
    if rules.follow or settings.nofollow != "drop" or not has_document(response):
        return None
    return rules.because("nofollow")


def _is_expiring(rules: IndexingRules, now: datetime) -> bool:
    return rules.unavailable_after is not None and now <= rules.unavailable_after


def is_success(response: Response) -> bool:
    """Whether *response* has a 2xx status. Other responses are no pages of an index, so their indexing
    rules have no effect: error pages, redirects, a 304.
    """
    return 200 <= response.status < 300


def has_document(response: Response) -> bool:
    """Whether *response* is a document, so that its indexing rules have an effect. The rules of data
    are only exposed and recorded.

    Without a Content-Type, the class that Scrapy has chosen for the response decides. A robots.txt,
    which a SitemapSpider reads, counts as data, although it is plain text.
    """
    if is_robotstxt(response.url):
        return False
    declared = _media_type(response.headers)
    classes = (name for kind, name in _TYPES_OF_CLASSES if isinstance(response, kind))
    return is_document(declared or next(classes, ""), response.body)


def _media_type(headers: Headers) -> str:
    """Return the media type in lower case; empty if *headers* have none."""
    content_type = headers.get(b"Content-Type") or b""
    name = content_type.partition(b";")[0].partition(b",")[0]
    return name.decode("latin-1").strip().lower() if b"/" in name else ""
