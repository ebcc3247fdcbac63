"""The indexing rules of a page, and the kinds of responses on which they act.

An indexing rule says what an index may show of a document: a page or a file. JSON, feeds and sitemaps
are data, not documents: ``noindex`` on a sitemap keeps the bare file out of search results, and says
nothing about the pages that the sitemap lists. WordPress sends ``X-Robots-Tag: noindex`` with every
response of its REST API and of ``admin-ajax.php`` (class-wp-rest-server.php, admin-ajax.php), and SEO
plugins send ``noindex, follow`` with the sitemap that they publish for crawlers.
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
"""For each right that can be denied, the name of the rule that denies only this right."""


class IndexingRules:
    """The indexing rules of a page, combined from its headers and meta tags.

    Two instances are equal if they allow the same, even if their statements differ. Instances are
    immutable, because all pages without statements share one instance.
    """

    statements: tuple[Statement, ...]
    """The evidence: every statement addressed to the crawler, those of headers first."""
    findings: tuple[IndexingFinding, ...]
    """The mistakes in the statements."""
    tags: tuple[Tag, ...]
    """The usage tags of the page."""

    index: bool = True
    """Whether the page may be in an index. :meth:`indexable` also considers ``unavailable_after``."""
    follow: bool = True
    """Whether the page's links may be followed."""
    archive: bool = True
    """Whether a copy of the page may be shown."""
    image_index: bool = True
    """Whether the page's images may be in an index."""
    translate: bool = True
    """Whether a translation of the page may be offered."""
    sitelinks_search_box: bool = True
    """Whether a search box for the site may be shown beside its links."""
    odp: bool = True
    """Whether an index may show the description of the page in the Open Directory."""
    ydir: bool = True
    """Whether an index may show the description of the page in Yahoo's directory."""
    ai: bool = True
    """Whether the page may train AI."""
    image_ai: bool = True
    """Whether the page's images may train AI."""
    index_embedded: bool = True
    """Whether the page may be in an index as a part of a page that embeds it."""
    max_snippet: int | None = None
    """How many characters of text a snippet may have; None for no limit, 0 for no snippet."""
    max_image_preview: str | None = None
    """The largest image that may be shown: ``none``, ``standard``, ``large``; None if not stated."""
    max_video_preview: int | None = None
    """How many seconds of video may be shown; None for no limit."""
    unavailable_after: datetime | None = None
    """When the page must leave indexes: an aware datetime in UTC, or None for never."""

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
        """Return the indexing rules of a response. No content raises an exception.

        :param headers: the name and value of each field line; only ``X-Robots-Tag`` counts
        :param html: the body, if it is an HTML page
        :param agents: the crawler's product tokens; statements to any of them count
        :param dialect: the dialect whose vocabulary has an effect
        :param encoding: the page's encoding, if the transport declares one
        """
        if isinstance(headers, (bytes, str)):
            raise TypeError("headers is not a list of pairs of a name and a value")
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
        """Return the same as :meth:`parse`, from the *values* of the ``X-Robots-Tag`` fields alone."""
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
        """Whether any text of the page may be shown."""
        return self.max_snippet != 0

    @property
    def unknown(self) -> tuple[Statement, ...]:
        """The statements whose names are not in the dialect's vocabulary."""
        return tuple(statement for statement in self.statements if not statement.known)

    def because(self, name: str) -> Statement | None:
        """Return the first statement that has the effect of the rule *name*, such as ``noindex`` or
        ``none`` for ``noindex``; None if no statement has this effect. For ``unavailable_after``,
        return the statement with the earliest date.
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
        """Return the statements that make each restriction, by its name in :meth:`to_dict`. Each of these
        statements would be enough by itself.
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
        """Whether the page may be in an index at the time *now*, an aware datetime."""
        return not self.why_not_indexable(now)

    def why_not_indexable(self, now: datetime) -> str:
        """Return the rule that keeps the page out of an index at the time *now*, an aware datetime:
        ``noindex`` or ``unavailable_after``. Return an empty string if the page may be in an index.
        """
        if now.tzinfo is None:
            raise ValueError("now has no time zone")
        if not self.index:
            return "noindex"
        expired = self.unavailable_after is not None and now > self.unavailable_after
        return "unavailable_after" if expired else ""

    def to_dict(self) -> dict[str, bool | int | str | None]:
        """Return the rules without their evidence, as JSON values."""
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
        """Return the part of :meth:`to_dict` that restricts the page: an empty dict for a page without
        restrictions, ``{"index": False}`` for a page with ``noindex``. ``index_embedded`` is
        included only if it is an exception to ``noindex``.
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
        """Return the value of an ``X-Robots-Tag`` that states these rules for everyone."""
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
    """Return product tokens in lower case."""
    tokens = (agents,) if isinstance(agents, str) else agents
    return frozenset(map(str.lower, filter(None, tokens)))


def _iso(date: datetime) -> str:
    return date.isoformat().replace("+00:00", "Z")


def _combined(statements: Iterable[Statement]) -> dict[str, Any]:
    """Return the attributes of IndexingRules that *statements* set, with their values.

    The most restrictive statement wins, whatever its position and source (Google, "Handling
    combined indexing and serving rules").
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
"""The rules of every response without statements."""


DOCUMENTS = (
    # Pages.
    "text/html",
    "application/xhtml+xml",
    "application/vnd.wap.xhtml+xml",
    # Texts to read. Other text types are data or code: text/csv, text/css, text/javascript.
    "text/plain",
    "text/markdown",
    # PDF, PostScript and books.
    "application/pdf",
    "application/x-pdf",
    "application/postscript",
    "application/epub+zip",
    # Office files.
    "application/rtf",
    "text/rtf",
    "application/msword",
    "application/vnd.ms-excel",
    "application/vnd.ms-powerpoint",
    "application/vnd.ms-word",
    "application/vnd.openxmlformats-officedocument.",
    "application/vnd.oasis.opendocument.",
    # Media.
    "image/",
    "audio/",
    "video/",
)
"""The media types of documents, or the beginnings of these types. All other types are data, including
unknown types and ``application/octet-stream``: nobody would notice data that is withheld by mistake."""

# Servers send these types by default, so the body may also be data.
_DEFAULT_TYPES = frozenset({"text/html", "text/plain"})
_JSON = re.compile(rb"(?:\xef\xbb\xbf)?\s*[\[{]")
_XML = re.compile(rb"(?:\xef\xbb\xbf)?\s*<\?xml\s")
_XHTML = re.compile(rb"<(?:!doctype )?html\b", re.IGNORECASE)
_MAX_PROLOGUE = 4_096
"""How many bytes at the start of a body are searched for the first bracket of JSON or the root element of
XML, and how many at the end for the last bracket of JSON. The limit is needed because a page can begin
with megabytes of white space, and is searched again for each of its items."""


def is_document(media_type: str, body: bytes = b"") -> bool:
    """Whether a response is a document, on which indexing rules act: a page, a text, an office file, an
    image, a sound or a video.

    :param media_type: the media type of the response in lower case, without parameters; empty if
        unknown
    :param body: the body of the response. JSON and XML are data even if the server sends them as
        ``text/html`` or ``text/plain``, as ``admin-ajax.php`` of WordPress does
    """
    if not media_type.startswith(DOCUMENTS):
        return False
    return media_type not in _DEFAULT_TYPES or not _is_data(body)


def _is_data(body: bytes) -> bool:
    """Whether *body* begins and ends like JSON, or begins like XML other than XHTML."""
    if _JSON.match(body, 0, _MAX_PROLOGUE) is not None:
        return body[-_MAX_PROLOGUE:].rstrip().endswith((b"]", b"}"))
    is_xml = _XML.match(body, 0, _MAX_PROLOGUE) is not None
    return is_xml and not _XHTML.search(body, 0, _MAX_PROLOGUE)
