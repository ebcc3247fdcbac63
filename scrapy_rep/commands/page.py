"""``scrapy rep page``: the indexing rules of a page, and the statements they follow."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

from scrapy.exceptions import UsageError
from scrapy.http import Headers, HtmlResponse, Response
from w3lib.encoding import http_content_type_encoding

from scrapy_rep.commands import usage
from scrapy_rep.commands.output import CLEAN, FOUND, Output
from scrapy_rep.commands.profile import decision_record, profile_of
from scrapy_rep.commands.sources import Live
from scrapy_rep.commands.urls import is_url, parse_argument, parse_url, read_file
from scrapy_rep.commands.web import ask
from scrapy_rep.fetching.cache import tdmrep_url
from scrapy_rep.fetching.failures import in_words
from scrapy_rep.protocol.access.results import Access
from scrapy_rep.protocol.indexing.rules import IndexingRules
from scrapy_rep.protocol.usage.page import FIELDS
from scrapy_rep.protocol.usage.preferences import NOTHING_STATED, UsagePreferences
from scrapy_rep.protocol.usage.tdmrep import TdmRep
from scrapy_rep.protocol.usage.vocabulary import MINING
from scrapy_rep.responses.documents import has_document

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from scrapy.settings import Settings

    from scrapy_rep.commands.profile import Profile
    from scrapy_rep.commands.sources import LoadedRobotsTxt
    from scrapy_rep.commands.urls import Asked
    from scrapy_rep.commands.web import Web
    from scrapy_rep.protocol.robotstxt.decisions import Decision

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MAX_REDIRECTS = 20
_TAG = "x-robots-tag"

_ROWS = (
    "{verdict:word<9}  {page:bold}",
    "  redirected to {redirects}",
    "  robots.txt {may} fetching it: {decision[why]}",
    "  ({robotstxt}, {access[why]})",
    "  status: {status}",
    "  The page was not fetched: {error}",
    ("evidence", ("  {name:bold}: {value}", ("by", ("      {statement}",)))),
    ("unknown", ("  without effect in this dialect: {statement}",)),
    ("findings", ("  [{code}] {message}",)),
    ("dialects", ("  {name:<9}  {verdict:word<9}  {header}",)),
    *usage.ROWS,
    "  in a crawl: {crawl[why]}",
)


def run(arguments: Namespace, settings: Settings) -> int:
    profile = profile_of(arguments, settings)
    profile.notify()
    page = _load(arguments, profile)
    record = _record(page, profile)
    Output(arguments).show(record, _ROWS, **_texts(record, profile))
    may_be_indexed = page.is_allowed and record["indexable"]
    return CLEAN if may_be_indexed and not record["usage"]["denied"] else FOUND


@dataclass
class Page:
    """A page, with all sources of its indexing rules and usage preferences."""

    where: str
    """Its URL after redirects, or the name of its file."""

    response: Response | None = None
    """None if it was not fetched."""

    tdmrep: UsagePreferences = NOTHING_STATED
    """What the tdmrep.json of its origin states."""

    redirects: list[str] = field(default_factory=list)

    decision: Decision | None = None
    """The robots.txt decision on its URL; None for a page from a file."""

    loaded: LoadedRobotsTxt | None = None
    """The robots.txt that decided."""

    error: str = ""
    """Why it could not be fetched, or an empty string."""

    @property
    def is_allowed(self) -> bool:
        return self.decision is None or self.decision.allowed


def _load(arguments: Namespace, profile: Profile) -> Page:
    if not is_url(arguments.page):
        response = _response_of_file(arguments.page, arguments.header)
        return Page(arguments.page, response)
    if arguments.header:
        raise UsageError(
            "--header is only for a page from a file; a URL has its own header fields"
        )
    asked = parse_argument(arguments.page)

    async def job(web: Web | None) -> Page:
        assert web is not None
        return await _fetched_page(asked, profile, web, force=arguments.force)

    return ask(profile, job)


def _response_of_file(path: str, written: Sequence[str]) -> Response:
    """Return the page in a file, as if it had been sent with the fields *written*. Raises
    UsageError for a bad field.
    """
    fields = []
    for each in written:
        name, colon, value = each.partition(":")
        name, octets = name.strip().lower(), value.strip().encode("utf-8", "replace")
        is_link = name != "link" or octets.startswith(b"<")
        if not colon or name not in {_TAG, *FIELDS} or not is_link:
            raise UsageError(
                f'--header is {each!r}, but it must be "X-Robots-Tag: ...", or one of '
                f"{', '.join(sorted(FIELDS))}"
            )
        fields.append((name, octets))
    return HtmlResponse("file:///", headers=Headers(fields), body=read_file(path))


async def _fetched_page(
    asked: Asked, profile: Profile, web: Web, *, force: bool
) -> Page:
    """Fetch a page, and follow its redirects.

    Without *force*, a page or redirect target that robots.txt forbids is not fetched.
    """
    present = Live(profile, web)
    page = Page(asked.url)
    while True:
        assert asked.origin
        await present.load([asked.origin])
        page.loaded = present.rules(asked.origin).followed
        assert page.loaded
        robots = page.loaded.read_as(profile.dialect)
        page.where, page.decision = asked.url, profile.decide(robots, asked.url)
        if not (page.is_allowed or force):
            page.error = "so its indexing rules are unknown"
            return page
        try:
            response = await web.page(asked.url)
        except Exception as error:  # noqa: BLE001  download handlers raise anything
            page.error = in_words(error)
            return page
        location = response.headers.get("Location")
        if response.status not in _REDIRECTS or not location:
            page.response = response
            tdmrep = tdmrep_url(asked.origin)
            is_wanted = not MINING.isdisjoint(profile.rep.purposes)
            if is_wanted and profile.decide(robots, tdmrep).allowed:
                (result,) = await web.robotstxts([tdmrep])
                if result.access is Access.SUCCESSFUL:
                    page.tdmrep = TdmRep.parse(result.body).usage(asked.url)
            return page
        target = _joined(asked.url, location)
        if target is None:
            page.error = "redirected to an address that is not a URL"
            return page
        if len(page.redirects) >= _MAX_REDIRECTS:
            page.error = f"redirected more than {_MAX_REDIRECTS} times"
            return page
        asked = target
        page.redirects.append(asked.url)


def _joined(url: str, location: bytes) -> Asked | None:
    try:
        return parse_url(urljoin(url, location.decode("utf-8", "replace")))
    except ValueError:  # "http://["
        return None


def _record(page: Page, profile: Profile) -> dict[str, Any]:
    record: dict[str, Any] = {
        "page": page.where,
        **profile.record,
        "verdict": "not fetched",
        "fetched": page.response is not None,
        "status": page.response.status if page.response and page.loaded else None,
        "redirects": page.redirects,
        "error": page.error,
        "robotstxt": page.loaded and page.loaded.result.url,
        "access": page.loaded and page.loaded.access,
        "decision": page.decision and decision_record(page.decision, profile),
        "indexable": False,
    }
    if page.response is not None:
        record |= _of_response(page, page.response, profile)
    return record


def _of_response(page: Page, response: Response, profile: Profile) -> dict[str, Any]:
    now = datetime.now(timezone.utc)
    tags = response.headers.getlist(_TAG)
    others = [
        (name, value) for name in FIELDS for value in response.headers.getlist(name)
    ]
    html, encoding = b"", None
    if isinstance(response, HtmlResponse):
        html = response.body
        content_type = response.headers.get("Content-Type") or b""
        encoding = http_content_type_encoding(content_type.decode("latin-1"))
    in_dialects = {
        name: IndexingRules.parse(tags, html, profile.agents, dialect, encoding)
        for name, dialect in profile.dialects.items()
    }
    rules = in_dialects[profile.dialect.name]
    prefs = UsagePreferences.of_page(others, rules.statements, rules.tags, page.tdmrep)
    if page.loaded is not None:
        robots = page.loaded.read_as(profile.dialect)
        prefs = usage.robotstxt_usage(robots, page.where, profile) | prefs
    is_error = response.status // 100 != 2
    verdicts = {
        name: "no page" if is_error else each.why_not_indexable(now) or "indexable"
        for name, each in in_dialects.items()
    }
    verdict = verdicts[profile.dialect.name]
    is_document = has_document(response)
    has_callback = (page.is_allowed or profile.is_off) and not is_error
    return {
        "verdict": verdict,
        "indexable": verdict == "indexable",
        "document": is_document,
        "usage": usage.usage_record(prefs, profile),
        "rules": rules.to_dict(),
        "evidence": {
            key: [each._asdict() for each in statements]
            for key, statements in rules.evidence().items()
        },
        "statements": [each._asdict() for each in rules.statements],
        "findings": [each._asdict() for each in rules.findings],
        "dialects": {
            name: {
                "verdict": verdicts[name],
                "indexable": verdicts[name] == "indexable",
                "header": each.to_header(),
            }
            for name, each in in_dialects.items()
        },
        "crawl": _effects(profile, rules, prefs, now, is_document=is_document)
        if has_callback
        else None,
    }


def _effects(
    profile: Profile,
    rules: IndexingRules,
    preferences: UsagePreferences,
    now: datetime,
    *,
    is_document: bool,
) -> dict[str, str]:
    """Return what a crawl with these settings does with the items and the links that a callback
    makes from the page.
    """
    rep = profile.rep
    may_drop = rep.noindex == "drop" and is_document
    is_dropped = may_drop and not rules.indexable(now)
    items = "kept"
    if is_dropped or (rep.usage == "drop" and usage.is_denied(preferences, profile)):
        items = "dropped"
    elif (
        rep.noindex == "annotate"
        or (may_drop and rules.unavailable_after is not None)
        or (rep.usage == "annotate" and rep.purposes)
    ):
        items = "annotated"
    drops_links = rep.nofollow == "drop" and is_document and not rules.follow
    words = f"items are {items}, links are {'not ' if drops_links else ''}followed"
    if rep.rel and not drops_links:
        words += f", except with rel={', '.join(sorted(rep.rel))}"
    if not is_document and rules.statements:
        words += ". This is data, not a document: noindex and nofollow drop nothing"
    links = "dropped" if drops_links else "followed"
    return {"items": items, "links": links, "why": words}


def _texts(record: dict[str, Any], profile: Profile) -> dict[str, Any]:
    """Return the values of the text that the record does not have."""
    decision = record["decision"]
    texts = {"may": decision and ("allows" if decision["allowed"] else "forbids")}
    if not record["fetched"]:
        return texts
    evidence = [
        {
            "name": key,
            "value": "no" if record["rules"][key] is False else record["rules"][key],
            "by": [{"statement": _described(each)} for each in statements],
        }
        for key, statements in record["evidence"].items()
    ]
    unknown = [
        {"statement": _described(each)}
        for each in record["statements"]
        if not each["known"]
    ]
    dialects = [{"name": name, **each} for name, each in record["dialects"].items()]
    texts |= {"evidence": evidence, "unknown": unknown, "dialects": dialects}
    return texts | usage.usage_texts(record["usage"], profile)


def _described(statement: dict[str, Any]) -> str:
    """Return a statement, with its place and the crawlers that it is for."""
    is_header = statement["source"] == "header"
    place = "X-Robots-Tag header" if is_header else "meta tag on line"
    whom = statement["agent"] or "everyone"
    return f"{statement['text'][:200]}   ({place} {statement['position']}, for {whom})"
