"""Usage preferences: what a site allows its content to be used for, combined from its
statements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.protocol.indexing.rules import IndexingRules
from scrapy_rep.protocol.usage.page import page_statements
from scrapy_rep.protocol.usage.statements import UsageStatement, limited
from scrapy_rep.protocol.usage.vocabulary import CATEGORIES, Signal, Source

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from scrapy_rep.protocol.indexing.statements import Statement, Tag


class Denial(NamedTuple):
    """A purpose that some content must not serve."""

    purpose: str
    preferences: UsagePreferences
    statement: UsageStatement | None
    """The statement that disallows it; None where nothing is stated, and unknown uses are
    not allowed."""

    @property
    def why(self) -> str:
        """The reason, in a few words."""
        return str(self.statement or "nothing is stated")


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class UsagePreferences:
    """The statements about the use of a page, and the preferences that they make.

    Preferences that allow the same are equal, whatever their statements.
    """

    statements: tuple[UsageStatement, ...] = ()
    """The evidence: every statement addressed to us. Of many equal ones about a category,
    the first are kept."""

    @classmethod
    def parse(
        cls,
        headers: Iterable[tuple[str, bytes]] = (),
        html: bytes = b"",
        agents: str | Sequence[str] = (),
        encoding: str | None = None,
        tdmrep: UsagePreferences | None = None,
    ) -> UsagePreferences:
        """Read the statements of a response. No content makes this raise.

        :param headers: the name and the value of each field line
        :param html: the page, where there is one
        :param agents: our product tokens; statements to any of them count
        :param encoding: the page's encoding, where the transport declares it
        :param tdmrep: what ``tdmrep.json`` says of the page, which its headers and its
            tags override
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
        """The preferences of a response that was read already: from its field lines, whose
        names are in lower case, its indexing *statements* that are addressed to us, and its
        *tags* about use.
        """
        found = [*page_statements(fields, statements, tags)]
        if tdmrep is not None:
            found += tdmrep.statements
        return cls(limited(_overridden(found))) if found else NOTHING_STATED

    def get(self, category: str, *, image: bool = False) -> bool | None:
        """Whether a use is allowed: False if any statement disallows it, else True if any
        allows it, else None, for unknown (draft-ietf-aipref-vocab-08, 5.1).

        With *image*, statements about the images of the page count too.
        """
        found = None
        for each in self._bearing_on(category, image=image):
            if each.value is False:
                return False
            found = found or each.value
        return found

    def because(self, category: str, *, image: bool = False) -> UsageStatement | None:
        """The first statement that says what :meth:`get` returns; None for unknown."""
        value = self.get(category, image=image)
        if value is None:
            return None
        found = self._bearing_on(category, image=image)
        return next(each for each in found if each.value is value)

    def _bearing_on(self, category: str, *, image: bool) -> Iterator[UsageStatement]:
        """The statements that count for a category of use."""
        for each in self.statements:
            counts = not each.is_overridden and (image or not each.images)
            if counts and each.category == category:
                yield each

    def denial(
        self, purposes: Iterable[str], *, unknown: bool = True, image: bool = False
    ) -> Denial | None:
        """The first of *purposes* that the content must not serve, if there is one.
        *unknown* says whether a use is allowed that nothing is stated about.
        """
        for purpose in purposes:
            allowed = self.get(purpose, image=image)
            if not (unknown if allowed is None else allowed):
                return Denial(purpose, self, self.because(purpose, image=image))
        return None

    def about(self, categories: Iterable[str]) -> UsagePreferences:
        """The preferences about some categories, and the statements about no category."""
        wanted = {"", *categories}
        found = tuple(each for each in self.statements if each.category in wanted)
        return UsagePreferences(found)

    def without(self, signal: Signal) -> UsagePreferences:
        """The preferences without the statements of one signal."""
        found = tuple(each for each in self.statements if each.signal is not signal)
        return UsagePreferences(found)

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
        """The preference for each category of use, as JSON values."""
        return {category: self.get(category) for category in CATEGORIES}

    def __or__(self, other: UsagePreferences) -> UsagePreferences:
        """Both combined: a use is disallowed where either disallows it, else allowed where
        either allows it, else unknown."""
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
        """Whether anything is stated."""
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
    """*statements*, with those of TDMRep marked that one with a higher priority overrides.
    A value other than 0 and 1 is unset, and overrides nothing.
    """
    mining = [each for each in statements if each.signal is Signal.TDM_RESERVATION]
    ranks = [_PRIORITY.index(each.source) for each in mining if each.value is not None]
    if not ranks or min(ranks) == max(ranks):
        return statements
    return [
        each._replace(is_overridden=True)
        if each.signal is Signal.TDM_RESERVATION
        and _PRIORITY.index(each.source) < max(ranks)
        else each
        for each in statements
    ]
