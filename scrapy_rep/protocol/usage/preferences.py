"""The usage preferences of a page: the uses of the page that its headers, its tags and a tdmrep.json allow or
disallow.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from scrapy_rep.protocol.indexing.rules import IndexingRules
from scrapy_rep.protocol.indexing.statements import Statement, Tag
from scrapy_rep.protocol.usage.statements import (
    CATEGORIES,
    MAX_TEXT,
    Signal,
    Source,
    UsageStatement,
    label_of,
    limited,
    read_expression,
    statements_at,
)

_SIGNALS = {
    "content-usage": Signal.CONTENT_USAGE,
    "content-signal": Signal.CONTENT_SIGNAL,
    "tdm-reservation": Signal.TDM_RESERVATION,
    "tdm-policy": Signal.TDM_POLICY,
    "link": Signal.LICENSE,
}
FIELDS = frozenset(_SIGNALS)
"""The names, in lower case, of the header fields that contain usage statements. ``X-Robots-Tag`` is not included,
because :mod:`~scrapy_rep.protocol.indexing.statements` parses it."""

_MAX_LINES = 100

# The first expression matches a link with its parameters, and the second matches a parameter (RFC 8288, 3). No
# repetition can match a character with which the next part of the expression begins, so there is no backtracking.
_LINK = r"<([^<>]{0,4096})>((?:[^,\"<]|\"[^\"]*\")*)"
_PARAMETER = r"(?a);\s*([A-Za-z*]+)\s*=\s*(?:\"([^\"]*)\"|([^\s;,\"]+))"


def page_statements(
    fields: Iterable[tuple[str, bytes]],
    statements: Iterable[Statement],
    tags: Iterable[Tag],
) -> Iterator[UsageStatement]:
    """Yield the usage statements of a response. They come from three sources: its header *fields* (with names in lower
    case), its indexing *statements*, such as ``noai``, and the *tags* of the page that state usage preferences, such
    as ``<meta name="tdm-reservation">``.
    """
    by_name: dict[str, list[str]] = {name: [] for name in _SIGNALS}
    for name, value in fields:
        lines = by_name.get(name, [])
        # The number and the total length of the lines with one name are limited, so that no page takes long to parse.
        # Further lines are ignored. Real pages have few lines.
        if sum(map(len, lines)) <= MAX_TEXT and len(lines) < _MAX_LINES:
            lines.append(value.strip().decode("utf-8", "replace"))
    # All Content-Usage lines together form one dictionary (RFC 9651, 4.2), so a mistake in one line makes
    # all preferences in these lines unknown.
    by_name["content-usage"] = [", ".join(by_name["content-usage"])]
    for name, lines in by_name.items():
        for position, line in enumerate(lines, 1):
            for text in _license_urls(line) if name == "link" else (line,):
                yield from _read(_SIGNALS[name], Source.HEADER, position, text)
    for statement in statements:
        if label_of(Signal.ROBOTS_TAG, statement.name) is not None:
            location = (
                Source(statement.source),
                Signal.ROBOTS_TAG,
                statement.agent,
                statement.position,
            )
            yield from statements_at(
                location, statement.text, [(statement.name, statement.name)]
            )
    for tag in tags:
        signal = _SIGNALS.get(tag.name, Signal.LICENSE)
        yield from _read(signal, Source.META, tag.line, tag.content.strip())


def _read(
    signal: Signal, source: Source, position: int, value: str
) -> Iterator[UsageStatement]:
    pairs = read_expression(signal, value).pairs
    location = source, signal, None, position
    return statements_at(location, f"{signal}: {value}", pairs)


def _license_urls(value: str) -> Iterator[str]:
    """Yield the URLs of the links with ``rel=license`` in the *value* of a ``Link`` field line."""
    for match in re.finditer(_LINK, value[:MAX_TEXT]):
        for name, quoted, token in re.findall(_PARAMETER, match[2]):
            relations = (quoted or token).lower().split()
            if name.lower() == "rel" and "license" in relations:
                yield match[1]


class UsagePreferences:
    """The usage preferences of a page, and the statements that express them.

    Two instances are equal if they allow and disallow the same uses, even if their statements differ.
    Instances are immutable, because all pages without statements share one instance.
    """

    statements: tuple[UsageStatement, ...]
    """The statements that are addressed to the crawler, as the evidence for the preferences. If many statements
    have the same value for the same category of use, only the first few of them are kept."""

    def __init__(self, statements: tuple[UsageStatement, ...] = ()) -> None:
        vars(self)["statements"] = statements

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} cannot be changed")

    @classmethod
    def parse(
        cls,
        headers: Iterable[tuple[str, bytes]] = (),
        html: bytes = b"",
        agents: str | Sequence[str] = (),
        encoding: str | None = None,
        tdmrep: "UsagePreferences | None" = None,
    ) -> "UsagePreferences":
        """Return the usage preferences of a response. Invalid headers and pages raise no exception.

        :param headers: the name and value of each header field line
        :param html: the body, if it is an HTML page
        :param agents: the crawler's product tokens; only statements that are addressed to one of them, or to
            all crawlers, have an effect
        :param encoding: the encoding of the page, if the ``Content-Type`` header declares it
        :param tdmrep: the preferences for the page in the site's ``tdmrep.json``; they have no effect if a header or a
            tag of the page contains a valid ``tdm-reservation``
        :raises TypeError: if *headers* is a text instead of a list of pairs
        """
        if isinstance(headers, (bytes, str)):
            raise TypeError(
                "headers must be an iterable of (name, value) pairs, not bytes or str"
            )
        fields = [(name.lower(), value) for name, value in headers]
        rules = IndexingRules.parse(fields, html, agents, encoding=encoding)
        return cls.of_page(fields, rules.statements, rules.tags, tdmrep)

    @classmethod
    def of_page(
        cls,
        fields: Iterable[tuple[str, bytes]],
        statements: Iterable[Statement],
        tags: Iterable[Tag],
        tdmrep: "UsagePreferences | None" = None,
    ) -> "UsagePreferences":
        """Return the same as :meth:`parse`, for a response whose indexing rules are already parsed.

        *fields* are the header fields, with names in lower case. *statements* and *tags* are those of the
        response's :class:`IndexingRules`. *tdmrep* contains the preferences for the page in the site's
        ``tdmrep.json``. These preferences have no effect if a header or a tag of the page contains a valid
        ``tdm-reservation``.
        """
        all_statements = [*page_statements(fields, statements, tags)]
        if tdmrep is not None:
            all_statements += tdmrep.statements
        if not all_statements:
            return NOTHING_STATED
        return cls(limited(_overridden(all_statements)))

    def get(self, category: str, *, image: bool = False) -> bool | None:
        """Return whether the use of the page for *category* is allowed. Return False if any statement
        disallows the use. Otherwise, return True if any statement allows the use. Return None if no
        statement allows or disallows the use (draft-ietf-aipref-vocab-08, 5.1).

        Statements that are only about the page's images are ignored, unless *image* is True.
        """
        statement = self.because(category, image=image)
        return None if statement is None else statement.value

    def because(self, category: str, *, image: bool = False) -> UsageStatement | None:
        """Return the first statement that makes :meth:`get` return True or False for *category* and *image*.
        Return None if :meth:`get` returns None.
        """
        allows = None
        for statement in self.statements:
            counts = not statement.is_overridden and (image or not statement.images)
            if counts and statement.category == category:
                if statement.value is False:
                    return statement
                if statement.value and allows is None:
                    allows = statement
        return allows

    def denial(
        self, purposes: Iterable[str], *, unknown: bool = True, image: bool = False
    ) -> tuple[str, UsageStatement | None] | None:
        """Return the first of *purposes* for which the page may not be used, and the statement that disallows
        this use. Return None if all purposes are allowed. A purpose is a category of use.

        *unknown* is whether a purpose is allowed if no statement allows or disallows it. If *unknown* is
        False, such a purpose can be returned, with None in place of a statement. Statements that are only
        about the page's images are ignored, unless *image* is True.
        """
        for purpose in purposes:
            allowed = self.get(purpose, image=image)
            if not (unknown if allowed is None else allowed):
                return purpose, self.because(purpose, image=image)
        return None

    @property
    def licenses(self) -> tuple[str, ...]:
        """The URLs of the licences (RSL) and policies (TDMRep) for the page, as written, without duplicates."""
        urls = (
            statement.label
            for statement in self.statements
            if statement.signal in {Signal.LICENSE, Signal.TDM_POLICY}
        )
        return tuple(dict.fromkeys(urls))

    def to_dict(self) -> dict[str, bool | None]:
        """Return the preference for each category of use: True, False, or None if it is unknown."""
        return {category: self.get(category) for category in CATEGORIES}

    def __or__(self, other: "UsagePreferences") -> "UsagePreferences":
        """Return new preferences with the statements of both instances. A use is disallowed if one of the
        instances disallows it. Otherwise, the use is allowed if one of the instances allows it. Otherwise, the
        preference is unknown."""
        if not other.statements:
            return self
        if not self.statements:
            return other
        return UsagePreferences(limited((*self.statements, *other.statements)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, UsagePreferences):
            return NotImplemented
        return self._outcome() == other._outcome()

    def __hash__(self) -> int:
        return hash(self._outcome())

    def __bool__(self) -> bool:
        """Whether there are any statements."""
        return bool(self.statements)

    def __repr__(self) -> str:
        words = {True: "y", False: "n"}
        stated = [
            f"{category}={words[value]}"
            for category, value in self.to_dict().items()
            if value is not None
        ]
        return f"<{type(self).__name__} {', '.join(stated) or 'unknown'}>"

    def _outcome(self) -> tuple[bool | None, ...]:
        return tuple(
            self.get(category, image=image)
            for category in CATEGORIES
            for image in (False, True)
        )


NOTHING_STATED = UsagePreferences()
"""The preferences of a page without statements."""

_PRIORITY = (Source.TDMREP, Source.HEADER, Source.META)
"""The sources of ``tdm-reservation`` statements, in ascending priority. A source overrides all sources before it in
this tuple."""


def _overridden(statements: list[UsageStatement]) -> list[UsageStatement]:
    """Return *statements*, with ``is_overridden`` set to True in each ``tdm-reservation`` statement that is
    overridden. A statement is overridden if a source with a higher priority contains a ``tdm-reservation`` with
    a valid value, 0 or 1. For example, a header overrides a ``tdmrep.json``.
    """
    reservations = [
        statement
        for statement in statements
        if statement.signal is Signal.TDM_RESERVATION
    ]
    valid_sources = [
        statement.source for statement in reservations if statement.value is not None
    ]
    weaker = _PRIORITY[: max(map(_PRIORITY.index, valid_sources), default=0)]
    return [
        statement._replace(is_overridden=True)
        if statement.signal is Signal.TDM_RESERVATION and statement.source in weaker
        else statement
        for statement in statements
    ]
