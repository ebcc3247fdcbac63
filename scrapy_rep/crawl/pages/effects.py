"""What a crawl does with the items and the links that a callback makes from a page."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.crawl.pages.documents import has_document

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    from scrapy.http import Response

    from scrapy_rep.base.record import Because
    from scrapy_rep.base.settings import RepSettings
    from scrapy_rep.protocol.indexing.rules import IndexingRules
    from scrapy_rep.protocol.indexing.statements import Statement
    from scrapy_rep.protocol.usage.preferences import UsagePreferences

    # A rule or a purpose, and the statement that denies it.
    Denied: TypeAlias = tuple[str, Because]


class Effects(NamedTuple):
    """What the settings make of what a page states. By default, everything passes as it is."""

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


_NONE = Effects()


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
    found = _NONE
    if rules is not None:
        found = _of_rules(settings, response, rules, is_exempt=is_exempt)
    if not purposes or settings.usage == "ignore":
        return found

    def denied(names: Sequence[str], *, image: bool = False) -> Denied | None:
        unknown = settings.usage_unknown
        denial = preferences.denial(names, unknown=unknown, image=image)
        return denial and (denial.purpose, denial.statement)

    if settings.usage == "drop":
        items = found.items or denied(purposes)
        images = found.images or denied(purposes, image=True)
        return found._replace(items=items, images=images)
    of_page, of_images = (
        {each: denied([each], image=image) is None for each in purposes}
        for image in (False, True)
    )
    usage = {"usage": of_page}
    if of_images != of_page:
        usage["usage_of_images"] = of_images
    noted = tuple(filter(None, (*found.noted, denied(purposes))))
    return found._replace(noted=noted, usage=usage)


def _of_rules(
    settings: RepSettings, response: Response, rules: IndexingRules, *, is_exempt: bool
) -> Effects:
    until = rules.unavailable_after
    says_nothing = rules.index and rules.follow and rules.image_index and until is None
    annotates = settings.noindex == "annotate"
    # Most pages say nothing.
    is_document = not says_nothing and has_document(response)
    links = None
    if is_document and not rules.follow and settings.nofollow == "drop":
        links = rules.because("nofollow")
    has_effect = annotates or (is_document and settings.noindex == "drop")
    if is_exempt or not has_effect:
        return Effects(links=links)
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
