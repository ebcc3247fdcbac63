"""The indexing rules of a page, and the media types of the responses to which they apply.

An indexing rule limits what a search index may show of a document, such as a page or an image. JSON,
feeds and sitemaps are data and not documents. ``noindex`` on a sitemap asks search engines not to show the
sitemap file in search results, and says nothing about the pages that the sitemap lists. So this package
ignores indexing rules in responses with data.

Examples of data with ``noindex`` are common. WordPress sends ``X-Robots-Tag: noindex`` with every response
of its REST API and of ``admin-ajax.php`` (class-wp-rest-server.php, admin-ajax.php). SEO plugins send
``noindex, follow`` with the sitemap that they publish for crawlers.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from scrapy_rep.protocol.dialect import RFC9309, Dialect
from scrapy_rep.protocol.indexing.statements import (
    DENIALS,
    IMAGE_PREVIEWS,
    UNLIMITED,
    IndexingFinding,
    Statement,
    StatementReader,
    read_headers,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from scrapy_rep.protocol.indexing.statements import Tag


_DENYING_NAMES = {
    denied[0]: name for name, denied in DENIALS.items() if len(denied) == 1
}
"""Maps each right, such as ``index``, to the name of the rule that denies only this right, such as ``noindex``."""


class IndexingRules:
    """The indexing rules of a page, combined from its headers and meta tags.

    Two instances are equal if their rules are the same, even if their statements differ. Instances are
    immutable, because all pages without statements share one instance.
    """

    statements: tuple[Statement, ...]
    """All statements that are addressed to the crawler, as the evidence for the rules. The statements in
    headers come first."""
    findings: tuple[IndexingFinding, ...]
    """Messages about mistakes in the statements, and about limits that the page or its headers exceed."""
    tags: tuple[Tag, ...]
    """The tags of the page that state usage preferences, such as ``<meta name="tdm-reservation">``."""

    index: bool = True
    """Whether the page may be in an index, without regard to ``unavailable_after``. False if the page has a
    ``noindex``, for example. Call :meth:`indexable` to take ``unavailable_after`` into account."""
    follow: bool = True
    """Whether the page's links may be followed."""
    archive: bool = True
    """Whether an index may show its copy of the page."""
    image_index: bool = True
    """Whether the page's images may be in an index."""
    translate: bool = True
    """Whether an index may offer a translation of the page."""
    sitelinks_search_box: bool = True
    """Whether search results may show a search box for the site."""
    odp: bool = True
    """Whether an index may show the page's description from the Open Directory."""
    ydir: bool = True
    """Whether an index may show the page's description from Yahoo's directory."""
    ai: bool = True
    """Whether the page may be used to train AI."""
    image_ai: bool = True
    """Whether the page's images may be used to train AI."""
    index_embedded: bool = True
    """Whether the page may be in an index as part of another page that embeds it."""
    max_snippet: int | None = None
    """The maximum number of characters in a snippet; None for no limit, 0 for no snippet."""
    max_image_preview: str | None = None
    """The maximum size of a preview image: ``none``, ``standard`` or ``large``; None if not stated."""
    max_video_preview: int | None = None
    """The maximum length of a video preview in seconds; None for no limit."""
    unavailable_after: datetime | None = None
    """The time after which the page must not be in an index, as an aware datetime in UTC; None if the page
    does not expire."""

    def __init__(
        self,
        statements: Sequence[Statement] = (),
        findings: Sequence[IndexingFinding] = (),
        tags: Sequence[Tag] = (),
    ) -> None:
        vars(self).update(
            _combined(statements),
            statements=tuple(statements),
            findings=tuple(findings),
            tags=tuple(tags),
        )

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} cannot be changed")

    @classmethod
    def parse(
        cls,
        headers: Iterable[tuple[str, bytes]] = (),
        html: bytes = b"",
        agents: str | Sequence[str] = (),
        dialect: Dialect = RFC9309,
        encoding: str | None = None,
    ) -> IndexingRules:
        """Return the indexing rules of a response. Invalid headers and pages raise no exception.

        :param headers: the name and value of each header field line; only ``X-Robots-Tag`` is read
        :param html: the body, if it is an HTML page
        :param agents: the crawler's product tokens; only statements that are addressed to one of them, or to
            all crawlers, have an effect
        :param dialect: the dialect, which determines which rules have an effect, and which characters separate
            rules
        :param encoding: the encoding of the page, if the ``Content-Type`` header declares it
        :raises TypeError: if *headers* is a text instead of a list of pairs
        """
        if isinstance(headers, (bytes, str)):
            raise TypeError(
                "headers must be an iterable of (name, value) pairs, not bytes or str"
            )
        values = [value for name, value in headers if name.lower() == "x-robots-tag"]
        return cls.of_page(values, html, agents, dialect, encoding)

    @classmethod
    def of_page(
        cls,
        values: Iterable[bytes],
        html: bytes = b"",
        agents: str | Sequence[str] = (),
        dialect: Dialect = RFC9309,
        encoding: str | None = None,
    ) -> IndexingRules:
        """Return the same as :meth:`parse`, for the *values* of the ``X-Robots-Tag`` fields instead of all
        headers.
        """
        names = _lowered(agents if isinstance(agents, str) else tuple(agents))
        reader = StatementReader(
            dialect.indexing_vocabulary, separates=dialect.indexing_separators
        )
        if values:
            read_headers(values, names, reader)
        if html:
            from scrapy_rep.protocol.indexing.metatags import read_page  # noqa: PLC0415

            read_page(html, names, encoding, reader)
        if not (reader.statements or reader.findings or reader.tags):
            return _NOTHING_STATED
        return cls(reader.statements, reader.findings, reader.tags)

    @property
    def snippet(self) -> bool:
        """Whether an index may show a snippet, which is a part of the page's text."""
        return self.max_snippet != 0

    @property
    def unknown(self) -> tuple[Statement, ...]:
        """The statements of rules that are unknown, or have no effect in the dialect."""
        return tuple(statement for statement in self.statements if not statement.known)

    def because(self, name: str) -> Statement | None:
        """Return the first statement that has the effect of the rule *name*; None if there is no such statement.
        For example, the statements ``noindex`` and ``none`` both have the effect of ``noindex``.

        For ``unavailable_after``, return the statement with the earliest date. For all other rules that take a
        value, such as ``max-snippet``, and for rules that deny nothing, such as ``index``, return None.
        """
        rights = set(DENIALS.get(name, ()))
        for statement in self.statements:
            if not statement.known:
                continue
            if name == "unavailable_after":
                if statement.name == name and statement.value == self.unavailable_after:
                    return statement
            elif rights and rights <= set(DENIALS.get(statement.name, ())):
                return statement
        return None

    def evidence(self) -> dict[str, list[Statement]]:
        """Return a dict that maps each restricted attribute of these rules to the statements that restrict it.
        For example, if the page may not be in an index, the key ``index`` maps to the statements ``noindex``
        and ``none`` of the page.

        The keys are those keys of :meth:`to_dict` whose values differ from the values for a page without
        statements.
        """
        unrestricted = _NOTHING_STATED.to_dict()
        alone = [
            (statement, IndexingRules([statement]).to_dict())
            for statement in self.statements
        ]
        return {
            name: [
                statement
                for statement, rules in alone
                if rules[name] != unrestricted[name]
            ]
            for name, value in self.to_dict().items()
            if value != unrestricted[name]
        }

    def indexable(self, now: datetime) -> bool:
        """Whether the page may be in an index at the time *now*, which must be an aware datetime. Raises
        ValueError if *now* has no time zone.
        """
        return not self.why_not_indexable(now)

    def why_not_indexable(self, now: datetime) -> str:
        """Return the name of the rule that keeps the page out of an index at the time *now*: ``noindex`` or
        ``unavailable_after``. Return an empty string if the page may be in an index.

        *now* must be an aware datetime. Raises ValueError if *now* has no time zone.
        """
        if now.tzinfo is None:
            raise ValueError(
                "the argument now must have a time zone, such as datetime.now(timezone.utc)"
            )
        if not self.index:
            return "noindex"
        expired = self.unavailable_after is not None and now > self.unavailable_after
        return "unavailable_after" if expired else ""

    def to_dict(self) -> dict[str, bool | int | str | None]:
        """Return a dict of all rules, with JSON values. The keys are the names of the attributes, such as
        ``index`` and ``max_snippet``. ``unavailable_after`` is a text in ISO 8601, or None. Statements, findings
        and tags are not included.
        """
        date = self.unavailable_after
        return {
            **{name: getattr(self, name) for name in _DENYING_NAMES},
            "index_embedded": self.index_embedded,
            "max_snippet": self.max_snippet,
            "max_image_preview": self.max_image_preview,
            "max_video_preview": self.max_video_preview,
            "unavailable_after": None if date is None else _iso(date),
        }

    def restrictions(self) -> dict[str, bool | int | str]:
        """Return only the items of :meth:`to_dict` that restrict the page, such as ``{"index": False}`` for a
        page with ``noindex``. Return an empty dict for a page without restrictions.

        If an index must not show a snippet, the dict contains ``"snippet": False`` and no ``max_snippet``.
        ``"index_embedded": True`` is included if a page with ``noindex`` may still be in an index as part of
        another page that embeds it. Otherwise, ``index_embedded`` is not included.
        """
        rules: dict[str, bool | int | str] = {
            name: False for name in _DENYING_NAMES if not getattr(self, name)
        }
        if not self.index and self.index_embedded:
            rules["index_embedded"] = True
        if self.max_snippet:
            rules["max_snippet"] = self.max_snippet
        if self.max_image_preview not in {None, IMAGE_PREVIEWS[-1]}:
            rules["max_image_preview"] = str(self.max_image_preview)
        if self.max_video_preview is not None:
            rules["max_video_preview"] = self.max_video_preview
        if self.unavailable_after is not None:
            rules["unavailable_after"] = _iso(self.unavailable_after)
        return rules

    def to_header(self) -> str:
        """Return the value of an ``X-Robots-Tag`` header that states these rules for all crawlers. Without
        restrictions, this is ``all``.
        """
        parts = [
            name for right, name in _DENYING_NAMES.items() if not getattr(self, right)
        ]
        if not self.index and self.index_embedded:
            parts.append("indexifembedded")
        if self.max_snippet:
            parts.append(f"max-snippet:{self.max_snippet}")
        if self.max_image_preview is not None:
            parts.append(f"max-image-preview:{self.max_image_preview}")
        if self.max_video_preview is not None:
            parts.append(f"max-video-preview:{self.max_video_preview}")
        if self.unavailable_after is not None:
            parts.append(f"unavailable_after:{_iso(self.unavailable_after)}")
        return ", ".join(parts) or "all"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IndexingRules):
            return NotImplemented
        return self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(self.to_header())

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.to_header()}>"


# Cached, because a crawl has few different sequences of product tokens.
@lru_cache(maxsize=64)
def _lowered(agents: str | tuple[str, ...]) -> frozenset[str]:
    """Return the product tokens *agents* in lower case, without empty tokens."""
    tokens = (agents,) if isinstance(agents, str) else agents
    return frozenset(map(str.lower, filter(None, tokens)))


def _iso(date: datetime) -> str:
    return date.isoformat().replace("+00:00", "Z")


def _combined(statements: Iterable[Statement]) -> dict[str, Any]:
    """Return the attributes of IndexingRules that *statements* set, as a dict of names and values.

    If statements conflict, the most restrictive statement wins, whatever its position and source
    (Google, "Handling combined indexing and serving rules").
    """
    names = {statement.name for statement in statements if statement.known}
    denied = {right for name in names & DENIALS.keys() for right in DENIALS[name]}
    rules: dict[str, Any] = dict.fromkeys(denied - {"snippet"}, False)
    if "index" in denied:
        # indexifembedded has an effect only together with noindex.
        rules["index_embedded"] = "indexifembedded" in names
    values: dict[str, list[Any]] = {}
    for statement in statements:
        if (
            statement.known
            and statement.value is not None
            and statement.value != UNLIMITED
        ):
            values.setdefault(statement.name, []).append(statement.value)
    if "snippet" in denied:
        values["max-snippet"] = [0]
    for name, stated in values.items():
        is_preview = name == "max-image-preview"
        key = IMAGE_PREVIEWS.index if is_preview else None
        rules[name.replace("-", "_")] = min(stated, key=key)
    return rules


_NOTHING_STATED = IndexingRules()
"""The rules of every response in which the parser found nothing, so that ``statements``, ``findings`` and ``tags`` are
empty. These rules restrict nothing."""


DOCUMENTS = (
    # HTML pages.
    "text/html",
    "application/xhtml+xml",
    "application/vnd.wap.xhtml+xml",
    # Texts for human readers. Other text types are data or code, such as text/csv, text/css and text/javascript.
    "text/plain",
    "text/markdown",
    # PDF, PostScript and books.
    "application/pdf",
    "application/x-pdf",
    "application/postscript",
    "application/epub+zip",
    # Files of office applications.
    "application/rtf",
    "text/rtf",
    "application/msword",
    "application/vnd.ms-excel",
    "application/vnd.ms-powerpoint",
    "application/vnd.ms-word",
    "application/vnd.openxmlformats-officedocument.",
    "application/vnd.oasis.opendocument.",
    # All images, audio and video.
    "image/",
    "audio/",
    "video/",
)
"""The media types of documents, or prefixes of these types. All other types are treated as data, including unknown
types and ``application/octet-stream``. To treat data as a document would be the worse mistake: a crawl would obey a
``noindex``, drop the items from the data, and its user might not notice the loss."""

# Many servers send these types by default, even if the body of the response is data.
_DEFAULT_TYPES = frozenset({"text/html", "text/plain"})
_JSON = re.compile(rb"(?:\xef\xbb\xbf)?\s*[\[{]")
_XML = re.compile(rb"(?:\xef\xbb\xbf)?\s*<\?xml\s")
_XHTML = re.compile(rb"<(?:!doctype )?html\b", re.IGNORECASE)
_MAX_EXAMINED = 4_096
"""To recognize JSON and XML, at most this number of bytes is read at the start of a body, and the same number at its
end. The limit is needed because a body can begin with megabytes of white space, and a crawl calls :func:`is_document`
again for each item from the same response."""


def is_document(media_type: str, body: bytes = b"") -> bool:
    """Whether a response is a document, so that indexing rules apply to it. Documents are pages, texts, office
    files, images, audio and video.

    :param media_type: the media type of the response in lower case, without parameters; empty if
        unknown
    :param body: the body of the response. If it is JSON, or XML other than XHTML, the response is not a
        document even with the media type ``text/html`` or ``text/plain``. For example, WordPress sends the
        JSON of ``admin-ajax.php`` as ``text/html``
    """
    if not media_type.startswith(DOCUMENTS):
        return False
    return media_type not in _DEFAULT_TYPES or not _is_data(body)


def _is_data(body: bytes) -> bool:
    """Whether *body* starts and ends like JSON, or starts like XML that is not XHTML."""
    if _JSON.match(body, 0, _MAX_EXAMINED) is not None:
        return body[-_MAX_EXAMINED:].rstrip().endswith((b"]", b"}"))
    is_xml = _XML.match(body, 0, _MAX_EXAMINED) is not None
    return is_xml and not _XHTML.search(body, 0, _MAX_EXAMINED)
