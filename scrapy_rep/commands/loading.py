"""Loads a page, from the web or from a file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from scrapy.exceptions import UsageError
from scrapy.http import HtmlResponse
from w3lib.encoding import http_content_type_encoding

from scrapy_rep.commands.shared.urls import parse_url, read_file
from scrapy_rep.fetching.failures import in_words
from scrapy_rep.fetching.tdmrep import url_of
from scrapy_rep.protocol.access.results import Access
from scrapy_rep.protocol.indexing.documents import is_document
from scrapy_rep.protocol.usage.page import FIELDS
from scrapy_rep.protocol.usage.preferences import NOTHING_STATED
from scrapy_rep.protocol.usage.tdmrep import TdmRep
from scrapy_rep.protocol.usage.vocabulary import is_about_mining
from scrapy_rep.responses.documents import has_document

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy.http import Response

    from scrapy_rep.commands.shared.profile import Profile
    from scrapy_rep.commands.shared.robotstxt import LoadedRobotsTxt
    from scrapy_rep.commands.shared.sources import Sources
    from scrapy_rep.commands.shared.urls import ParsedUrl
    from scrapy_rep.commands.shared.web import Web
    from scrapy_rep.protocol.robotstxt.decisions import Decision
    from scrapy_rep.protocol.usage.preferences import UsagePreferences

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MAX_REDIRECTS = 20


@dataclass(kw_only=True)
class Page:
    """A page, with all sources of its indexing rules and usage preferences."""

    where: str
    """Its URL after redirects, or the name of its file."""

    status: int | None = None
    headers: Sequence[bytes] = ()
    """The values of its ``X-Robots-Tag`` field lines."""

    fields: Sequence[tuple[str, bytes]] = ()
    """Its other header fields about use, with names in lower case."""

    tdmrep: UsagePreferences = NOTHING_STATED
    """What the tdmrep.json of its origin states."""

    html: bytes = b""
    encoding: str | None = None

    is_document: bool = True
    """Whether its indexing rules have an effect in a crawl. On data they have none."""

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

    @property
    def is_error_page(self) -> bool:
        """Whether its status is not 2xx, so that there is no page to index."""
        return self.status is not None and self.status // 100 != 2


def page_of_file(path: str, fields: Sequence[str]) -> Page:
    """Return the page in a file, sent with *fields*. Raises UsageError for a bad field."""
    values, others = [], []
    for each in fields:
        name, colon, value = each.partition(":")
        name, octets = name.strip().lower(), value.strip().encode("utf-8", "replace")
        is_link = name != "link" or octets.startswith(b"<")
        if not colon or name not in {"x-robots-tag", *FIELDS} or not is_link:
            raise UsageError(
                f'--header is {each!r}, but it must be "X-Robots-Tag: ...", or one of '
                f"{', '.join(sorted(FIELDS))}"
            )
        if name in FIELDS:
            others.append((name, octets))
        else:
            values.append(octets)
    html = read_file(path)
    return Page(
        where=path,
        html=html,
        headers=values,
        fields=others,
        is_document=is_document("text/html", html),
    )


async def fetched_page(
    target: ParsedUrl, profile: Profile, sources: Sources, *, force: bool
) -> Page:
    """Fetch a page, and follow its redirects.

    Without *force*, a page or redirect target that robots.txt forbids is not fetched.
    """
    redirects: list[str] = []
    while True:
        (loaded,) = (await sources.of([target.origin]))[target.origin]
        decision = profile.decide(loaded.robots, target.url)
        page = Page(
            where=target.url, decision=decision, loaded=loaded, redirects=redirects
        )
        if not (page.is_allowed or force):
            return page
        try:
            response = await sources.web.page(target.url)
        except Exception as error:  # noqa: BLE001  download handlers raise anything
            page.error = in_words(error)
            return page
        location = response.headers.get("Location")
        if response.status not in _REDIRECTS or not location:
            page.tdmrep = await _tdmrep(target, profile, loaded, sources.web)
            return _with_response(page, response)
        next_url = _joined(target.url, location)
        if next_url is None or len(redirects) >= _MAX_REDIRECTS:
            page.error = (
                "redirected to an address that is not a URL"
                if next_url is None
                else f"redirected more than {_MAX_REDIRECTS} times"
            )
            return page
        target = next_url
        redirects.append(target.url)


async def _tdmrep(
    target: ParsedUrl, profile: Profile, loaded: LoadedRobotsTxt, web: Web
) -> UsagePreferences:
    """Return what tdmrep.json of the origin states, if a purpose needs it."""
    url = url_of(target.origin)
    wanted = any(map(is_about_mining, profile.rep.purposes))
    if not wanted or not profile.decide(loaded.robots, url).allowed:
        return NOTHING_STATED
    (result,) = await web.robotstxts([url])
    if result.access is not Access.SUCCESSFUL:
        return NOTHING_STATED
    return TdmRep.parse(result.body).usage(target.url)


def _joined(url: str, location: bytes) -> ParsedUrl | None:
    try:
        return parse_url(urljoin(url, location.decode("utf-8", "replace")))
    except ValueError:  # "http://["
        return None


def _with_response(page: Page, response: Response) -> Page:
    page.status = response.status
    page.is_document = has_document(response)
    page.headers = response.headers.getlist("X-Robots-Tag")
    page.fields = [
        (name, value) for name in FIELDS for value in response.headers.getlist(name)
    ]
    if isinstance(response, HtmlResponse):
        content_type = response.headers.get("Content-Type") or b""
        page.html = response.body
        page.encoding = http_content_type_encoding(content_type.decode("latin-1"))
    return page
