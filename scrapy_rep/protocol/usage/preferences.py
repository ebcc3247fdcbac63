"""Usage preferences: what a site allows crawlers to use its content for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.protocol.indexing.rules import IndexingRules
from scrapy_rep.protocol.usage.page import page_statements
from scrapy_rep.protocol.usage.statements import UsageStatement, limited
from scrapy_rep.protocol.usage.vocabulary import CATEGORIES, Signal, Source

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scrapy_rep.protocol.indexing.statements import Statement, Tag


class Denial(NamedTuple):
    """A purpose that the crawler must not use some content for."""

    purpose: str
    preferences: UsagePreferences
    statement: UsageStatement | None
    """The statement that disallows it; None if there is none, and unknown uses are denied."""

    @property
    def why(self) -> str:
        return str(self.statement or "nothing is stated")


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class UsagePreferences:
    """The usage preferences of a page, and the statements that they result from.

    Two are equal if they allow the same uses, even with different statements.
    """

    statements: tuple[UsageStatement, ...] = ()
    """The evidence: every statement addressed to the crawler. Only the first of many equal
    ones about a category are kept."""

    @classmethod
    def parse(
        cls,
        headers: Iterable[tuple[str, bytes]] = (),
        html: bytes = b"",
        agents: str | Sequence[str] = (),
        encoding: str | None = None,
        tdmrep: UsagePreferences | None = None,
    ) -> UsagePreferences:
        """Read the usage statements of a response. No content makes this raise.

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
        rules = IndexingRules.parse(
            [value for name, value in fields if name == "x-robots-tag"],
            html,
            agents,
            encoding=encoding,
        )
        return cls.of_page(fields, rules.statements, rules.tags, tdmrep)

    @classmethod
    def of_page(
        cls,
        fields: Iterable[tuple[str, bytes]],
        statements: Iterable[Statement],
        tags: Iterable[Tag],
        tdmrep: UsagePreferences | None = None,
    ) -> UsagePreferences:
        """Return the preferences of a response whose indexing rules are already parsed.

        *fields* are its field lines, with names in lower case; *statements* and *tags* are
        those of its :class:`IndexingRules`. They override *tdmrep*.
        """
        found = [*page_statements(fields, statements, tags)]
        if tdmrep is not None:
            found += tdmrep.statements
        return cls(limited(_overridden(found))) if found else NOTHING_STATED

    def get(self, category: str, *, image: bool = False) -> bool | None:
        """Return whether a use is allowed: False if any statement disallows it, else True if
        any allows it, else None for unknown (draft-ietf-aipref-vocab-08, 5.1).

        With *image*, statements about the images of the page count too.
        """
        statement = self.because(category, image=image)
        return None if statement is None else statement.value

    def because(self, category: str, *, image: bool = False) -> UsageStatement | None:
        """Return the first statement with the value that :meth:`get` returns, or None."""
        allows = None
        for each in self.statements:
            counts = not each.is_overridden and (image or not each.images)
            if counts and each.category == category:
                if each.value is False:
                    return each
                if each.value and allows is None:
                    allows = each
        return allows

    def denial(
        self, purposes: Iterable[str], *, unknown: bool = True, image: bool = False
    ) -> Denial | None:
        """Return the denial of the first of *purposes* that is not allowed, or None.

        *unknown* says whether uses are allowed that no statement is about.
        """
        for purpose in purposes:
            allowed = self.get(purpose, image=image)
            if not (unknown if allowed is None else allowed):
                return Denial(purpose, self, self.because(purpose, image=image))
        return None

    @property
    def licenses(self) -> tuple[str, ...]:
        """The URLs of licences (RSL) and of policies (TDMRep), as written, each once."""
        found = (
            each.label
            for each in self.statements
            if each.signal in {Signal.LICENSE, Signal.TDM_POLICY}
        )
        return tuple(dict.fromkeys(found))

    def to_dict(self) -> dict[str, bool | None]:
        """Return the preference for each category of use, as JSON values."""
        return {category: self.get(category) for category in CATEGORIES}

    def __or__(self, other: UsagePreferences) -> UsagePreferences:
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
"""The preferences of a site without statements."""

_PRIORITY = (Source.TDMREP, Source.HEADER, Source.META)


def _overridden(statements: list[UsageStatement]) -> list[UsageStatement]:
    """Mark the TDMRep statements that another one with a higher priority overrides.

    A statement whose value is neither 0 nor 1 overrides nothing.
    """
    mining = [each for each in statements if each.signal is Signal.TDM_RESERVATION]
    stating = [each.source for each in mining if each.value is not None]
    weaker = _PRIORITY[: max(map(_PRIORITY.index, stating), default=0)]
    return [
        each._replace(is_overridden=True)
        if each.signal is Signal.TDM_RESERVATION and each.source in weaker
        else each
        for each in statements
    ]
