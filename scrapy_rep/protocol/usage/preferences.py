"""What a site allows its content to be used for: its statements, combined."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.protocol.indexing.rules import IndexingRules
from scrapy_rep.protocol.usage.page import page_statements
from scrapy_rep.protocol.usage.statements import UsageStatement, kept
from scrapy_rep.protocol.usage.vocabulary import CATEGORIES, Signal, Source

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from scrapy_rep.protocol.indexing.statements import Statement
    from scrapy_rep.protocol.indexing.tags import Tag


class Denial(NamedTuple):
    """A purpose that some content must not serve."""

    purpose: str
    preferences: UsagePreferences
    statement: UsageStatement | None
    """What says so; None where nothing is known, and that is not enough."""

    @property
    def why(self) -> str:
        """In a few words, what says so."""
        return str(self.statement or "nothing is stated")


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class UsagePreferences:
    """What is stated about the use of a page, and what that comes to.

    Preferences are equal that come to the same, whatever statements say so.
    """

    statements: tuple[UsageStatement, ...] = ()
    """Every statement addressed to us: the evidence. Of many that say the same of a
    category, the first."""

    @classmethod
    def parse(
        cls,
        headers: Iterable[tuple[str, bytes]] = (),
        html: bytes = b"",
        agents: str | Sequence[str] = (),
        encoding: str | None = None,
        tdmrep: UsagePreferences | None = None,
    ) -> UsagePreferences:
        """Read what a response says. No content makes this raise.

        :param headers: the name and the value of each field line
        :param html: the page, where there is one
        :param agents: our product tokens; what is said to any of them counts
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
        """The same, of what was read already: field lines whose names are in lower case,
        the statements about indexing that are addressed to us, and the tags that speak of
        use.
        """
        found = [*page_statements(fields, statements, tags)]
        if tdmrep is not None:
            found += tdmrep.statements
        return cls(kept(_overridden(found))) if found else SILENCE

    def get(self, category: str, *, image: bool = False) -> bool | None:
        """Whether a use is allowed: False if any statement disallows it, else True if any
        allows it, else None, for unknown (draft-ietf-aipref-vocab-08, 5.1).

        *image* asks about an image of the page, of which more may be said.
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
        *unknown* says whether a use is allowed of which nothing is known.
        """
        for purpose in purposes:
            allowed = self.get(purpose, image=image)
            if not (unknown if allowed is None else allowed):
                return Denial(purpose, self, self.because(purpose, image=image))
        return None

    def about(self, categories: Iterable[str]) -> UsagePreferences:
        """What is stated about some categories of use, and about none."""
        wanted = {"", *categories}
        found = tuple(each for each in self.statements if each.category in wanted)
        return UsagePreferences(found)

    def without(self, signal: Signal) -> UsagePreferences:
        """What is stated by other signals than one."""
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
        """What each category of use comes to, as JSON has it."""
        return {category: self.get(category) for category in CATEGORIES}

    def __or__(self, other: UsagePreferences) -> UsagePreferences:
        """What both state together: any disallowed wins, else any allowed, else unknown."""
        if not other.statements:
            return self
        if not self.statements:
            return other
        return UsagePreferences(kept((*self.statements, *other.statements)))

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


SILENCE = UsagePreferences()
"""What a site says that says nothing."""

_PRIORITY = (Source.TDMREP, Source.HEADER, Source.META)


def _overridden(statements: list[UsageStatement]) -> list[UsageStatement]:
    """The same, those of TDMRep marked that a statement in a place of more weight
    overrides. What says neither 0 nor 1 is unset, and overrides nothing.
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
