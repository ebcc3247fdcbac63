"""Usage preferences: the uses for which a site allows its content, from the headers and tags of a page."""

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
"""The header fields with usage statements, in lower case, except ``X-Robots-Tag``, which
:mod:`~scrapy_rep.protocol.indexing.statements` reads."""

_MAX_LINES = 100

# Match a link with its parameters, and a parameter (RFC 8288, 3). No repetition shares a character with
# the part after it, so there is no backtracking.
_LINK = r"<([^<>]{0,4096})>((?:[^,\"<]|\"[^\"]*\")*)"
_PARAMETER = r"(?a);\s*([A-Za-z*]+)\s*=\s*(?:\"([^\"]*)\"|([^\s;,\"]+))"


def page_statements(
    fields: Iterable[tuple[str, bytes]],
    statements: Iterable[Statement],
    tags: Iterable[Tag],
) -> Iterator[UsageStatement]:
    """Yield the usage statements of a response: those in its header *fields*, which have names in lower
    case, those among its indexing *statements* (``noai``), and those in its usage *tags*.
    """
    by_name: dict[str, list[str]] = {name: [] for name in _SIGNALS}
    for name, value in fields:
        lines = by_name.get(name, [])
        # The limits keep the work for one page small. Real pages have a few short lines.
        if sum(map(len, lines)) <= MAX_TEXT and len(lines) < _MAX_LINES:
            lines.append(value.strip().decode("utf-8", "replace"))
    # All Content-Usage lines form one dictionary (RFC 9651, 4.2): an error in a line makes all
    # preferences unknown.
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
    """Yield the targets of the licence links in the value of a ``Link`` field line."""
    for match in re.finditer(_LINK, value[:MAX_TEXT]):
        for name, quoted, token in re.findall(_PARAMETER, match[2]):
            relations = (quoted or token).lower().split()
            if name.lower() == "rel" and "license" in relations:
                yield match[1]


class UsagePreferences:
    """The usage preferences of a page, with the statements from which they result.

    Two instances are equal if they allow the same uses, even if their statements differ. Instances
    are immutable, because all pages without statements share one instance.
    """

    statements: tuple[UsageStatement, ...]
    """The evidence: every statement addressed to the crawler. If many statements have the same value for
    a category, only the first are kept."""

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
        """Return the usage preferences of a response. No content raises an exception.

        :param headers: the name and value of each field line
        :param html: the body, if it is an HTML page
        :param agents: the crawler's product tokens; statements to any of them count
        :param encoding: the page's encoding, if the transport declares one
        :param tdmrep: the preferences of ``tdmrep.json`` for the page; its headers and tags
            override them
        """
        if isinstance(headers, (bytes, str)):
            raise TypeError("headers is not a list of pairs of a name and a value")
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
        """Return the same as :meth:`parse`, if the indexing rules of the response are already parsed.

        *fields* are the header fields, with names in lower case; *statements* and *tags* come from
        the :class:`IndexingRules` of the response. They override the preferences *tdmrep*.
        """
        all_statements = [*page_statements(fields, statements, tags)]
        if tdmrep is not None:
            all_statements += tdmrep.statements
        if not all_statements:
            return NOTHING_STATED
        return cls(limited(_overridden(all_statements)))

    def get(self, category: str, *, image: bool = False) -> bool | None:
        """Return whether a use is allowed: False if any statement disallows the use, else True if any
        statement allows it, else None for unknown (draft-ietf-aipref-vocab-08, 5.1).

        With *image*, statements about the images of the page count too.
        """
        statement = self.because(category, image=image)
        return None if statement is None else statement.value

    def because(self, category: str, *, image: bool = False) -> UsageStatement | None:
        """Return the statement because of which :meth:`get` returns True or False: the first with this
        value; None if :meth:`get` returns None.
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
        """Return the first of *purposes* that is not allowed, and the statement that disallows it. Return
        None if all purposes are allowed.

        *unknown* says whether a purpose without any statement is allowed. A purpose that is denied for
        this reason is returned with None in place of a statement.
        """
        for purpose in purposes:
            allowed = self.get(purpose, image=image)
            if not (unknown if allowed is None else allowed):
                return purpose, self.because(purpose, image=image)
        return None

    @property
    def licenses(self) -> tuple[str, ...]:
        """The URLs of licences (RSL) and policies (TDMRep), as written, without duplicates."""
        urls = (
            statement.label
            for statement in self.statements
            if statement.signal in {Signal.LICENSE, Signal.TDM_POLICY}
        )
        return tuple(dict.fromkeys(urls))

    def to_dict(self) -> dict[str, bool | None]:
        """Return the preference for each category of use: true, false, or null for unknown in JSON."""
        return {category: self.get(category) for category in CATEGORIES}

    def __or__(self, other: "UsagePreferences") -> "UsagePreferences":
        """Combine both: a use is disallowed if either disallows it, else allowed if either
        allows it, else unknown."""
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
"""The sources of statements of TDMRep, in order: a later source overrides the earlier ones."""


def _overridden(statements: list[UsageStatement]) -> list[UsageStatement]:
    """Return *statements*, with ``is_overridden`` set for each statement of TDMRep that is overridden by
    a source of higher priority. Only a statement with a valid value, 0 or 1, overrides others.
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
