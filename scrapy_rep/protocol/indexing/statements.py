"""The vocabulary of indexing rules, and the parsers for statements and for X-Robots-Tag headers.

``metatags`` finds the tags with statements in a page. This module parses their text, and ``rules``
combines the statements of tags and headers.

Sources:

- *Google*: "Robots meta tag, data-nosnippet, and X-Robots-Tag specifications", Google
  Search Central;
- *MDN*: "X-Robots-Tag header", "<meta name="robots">": nocache;
- *HTML 4.01*, B.4.1: all, none, index, noindex, follow, nofollow;
- DeviantArt, "UPDATE All Deviations Are Opted Out of AI Datasets" (2022): noai,
  noimageai.

No standard defines the grammar of the header. This grammar gives the examples of Google and MDN, such
as "X-Robots-Tag: BadBot: noindex, nofollow, googlebot: nofollow", the meaning that these two explain::

    field-line = [ part *( "," [ part ] ) ]
    part       = *( agent ":" ) [ statement ]
    agent      = token [ "/" version ]           ; opens a scope up to the next agent
    statement  = name [ ":" value ]

Only the value of ``unavailable_after``, a date, may have commas. Some sites write other separators than
the comma. If the dialect allows this, a statement with an unknown name is read as a list of rules with
such separators, if all its parts are known rules.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import datetime
from typing import Literal, NamedTuple

Source = Literal["header", "meta"]
Value = int | str | datetime | None

MAX_STATEMENTS = 1000
"""How many statements of a response are read, and how many findings about them are kept."""

MAX_PAGE = 4 * 2**20
"""The number of bytes of a page that are read. A server can make a page of any length, so every crawler
has a limit; Googlebot reads at most the first 15 MB."""

MAX_TEXT = 65_536
"""The number of bytes of a header field, or of the content of a tag, that are read."""

IMAGE_PREVIEWS = ("none", "standard", "large")
"""The values of ``max-image-preview``, the most restrictive value first."""

UNLIMITED = -1
"""The value of ``max-snippet`` and ``max-video-preview`` that sets no limit (Google)."""

DENIALS: dict[str, tuple[str, ...]] = {
    "all": (),
    "index": (),
    "follow": (),
    "indexifembedded": (),
    "noindex": ("index",),
    "nofollow": ("follow",),
    "none": ("index", "follow"),
    "nocache": ("archive",),
    "noarchive": ("archive",),
    "nosnippet": ("snippet",),
    "noimageindex": ("image_index",),
    "notranslate": ("translate",),
    "nositelinkssearchbox": ("sitelinks_search_box",),
    "noodp": ("odp",),
    "noydir": ("ydir",),
    "noai": ("ai",),
    "noimageai": ("image_ai",),
}
"""For each rule without a value, the rights that it denies: attributes of
:class:`~scrapy_rep.protocol.indexing.rules.IndexingRules`. If several rules deny the same, the last has
the canonical name."""


def _limit(text: str) -> int | None:
    text = text.strip()
    return int(text) if re.fullmatch("-1|[0-9]{1,9}", text) else None


def _image_preview(text: str) -> str | None:
    text = text.strip().lower()
    return text if text in IMAGE_PREVIEWS else None


def _date(text: str) -> datetime | None:
    # Imported here, because few pages have a date.
    from scrapy_rep.protocol.indexing.dates import read_date  # noqa: PLC0415

    return read_date(text)


VALUED: dict[str, Callable[[str], Value]] = {
    "max-snippet": _limit,
    "max-video-preview": _limit,
    "max-image-preview": _image_preview,
    "unavailable_after": _date,
}
"""For each rule with a value, the function that parses the value; it returns None for an invalid value.
Before a colon, these names are never read as the name of an agent, whatever the dialect."""

VOCABULARY = frozenset(DENIALS) | frozenset(VALUED)
"""The names of all known rules, in lower case."""

# How many characters of a list without commas a finding shows.
_MAX_SHOWN = 100

# The largest number of parts of a date. In a header, commas separate the parts. In a meta tag, the parts
# are words: "Friday, June 25, 2010 at 3:00 PM PST" has eight.
_DATE_PARTS = 10

Location = tuple[Source, str | None, int]
"""The place of a Statement: its source, agent and position."""

Span = tuple[int, int]
"""A part of a text: its start and its end."""


class Statement(NamedTuple):
    """One occurrence of an indexing rule that is addressed to the crawler."""

    source: Source
    agent: str | None
    """The agent to which the statement is addressed, as written; None for everyone."""
    position: int
    """The position in the source, from 1: the number of the header field among all ``X-Robots-Tag``, or
    the number of the line of the page on which the tag begins."""
    text: str
    """The statement as written."""
    name: str
    """The name of the rule, in lower case."""
    value: Value = None
    """The value of the rule; None if the rule takes no value, or if the value is invalid. A statement
    with an invalid value has no effect."""
    known: bool = True
    """Whether the name is in the dialect's vocabulary. A statement with an unknown name has no effect."""

    def __str__(self) -> str:
        return f"{self.text} ({self.source})"


class IndexingFinding(NamedTuple):
    """A mistake in a statement, or in its tag or header; or a limit because of which the crawler does not
    read everything.
    """

    code: str
    """``bad-date``, ``bad-value``, ``misspelt-tag``, ``no-comma``, ``no-content``,
    ``page-too-long``, ``stray-colon``, ``too-long``, ``too-many``, ``unclosed-quote`` or
    ``unknown-name``."""
    message: str
    source: Source
    position: int
    """The position, as in :class:`Statement`; if the page is too long, the last line that was read."""


USAGE_TAGS = ("tdm-reservation", "tdm-policy")
"""The names of the ``<meta>`` tags with usage statements."""


_MAX_TAGS = 100
"""How many usage tags of a page are kept."""


class Tag(NamedTuple):
    """A tag of a page with a usage statement: a ``<meta>``, or a ``<link rel="license">``."""

    name: str
    """One of :data:`USAGE_TAGS`, or ``license``."""
    content: str
    """The value of the attribute ``content`` (of a ``<meta>``) or ``href`` (of a ``<link>``)."""
    line: int
    """The number of the line on which the tag begins, from 1."""


class StatementReader:
    """Parses the statements of a response, and collects its statements, findings and usage tags."""

    __slots__ = (
        "_separates", "_vocabulary", "findings", "is_full", "statements", "tags",
    )  # fmt: skip

    def __init__(
        self, vocabulary: frozenset[str] | None = None, *, separates: bool = True
    ) -> None:
        """Create a reader for one response.

        *vocabulary* and *separates* are ``indexing_vocabulary`` and ``indexing_separators`` of the
        dialect: the rules that have an effect, and whether other characters than the comma may
        separate rules.
        """
        self._vocabulary = VOCABULARY if vocabulary is None else vocabulary
        self._separates = separates
        self.statements: list[Statement] = []
        self.findings: list[IndexingFinding] = []
        self.tags: list[Tag] = []
        self.is_full = False
        """Whether the limit of statements has been reached, so that no more statements are read."""

    def add_finding(self, code: str, message: str, location: Location) -> None:
        """Add a finding, unless the limit of findings has been reached."""
        if len(self.findings) <= MAX_STATEMENTS:
            self.findings.append(
                IndexingFinding(code, message, location[0], location[2])
            )

    def add_tag(self, tag: Tag) -> None:
        """Add a usage tag, unless the limit of usage tags has been reached."""
        if len(self.tags) < _MAX_TAGS:
            self.tags.append(tag)

    def read(self, location: Location, text: str, spans: list[Span]) -> None:
        """Parse and add the statements in *text*. Each of *spans* is the part of the text with one
        statement; a date may be spread over several spans.
        """
        at = 0
        while at < len(spans):
            if len(self.statements) >= MAX_STATEMENTS:
                if not self.is_full:
                    self.is_full = True
                    message = f"the crawler reads only {MAX_STATEMENTS} statements"
                    self.add_finding("too-many", message, location)
                return
            start, end = spans[at]
            name, colon, value = text[start:end].partition(":")
            name = name.strip().lower()
            if self._separates and name not in DENIALS:
                listed = _listed(text, start, end)
                if listed:
                    written = text[start:end].strip()[:_MAX_SHOWN]
                    message = f"most crawlers read no rule in {written!r}: write commas between rules"
                    self.add_finding("no-comma", message, location)
                    spans[at : at + 1] = listed
                    continue
            result, taken = None, 1
            if name in VALUED:
                result, taken = _read_value(
                    VALUED[name], text, spans[at : at + _DATE_PARTS]
                )
                end = spans[at + taken - 1][1]
            elif colon and name in DENIALS:
                # "all: noindex" counts as two statements, so that the second is not lost.
                spans[at], taken = (end - len(value), end), 0
                end -= len(value)
                message = f"{name} takes no value: the rest is a rule of its own"
                self.add_finding("stray-colon", message, location)
            at += taken
            written = text[start:end].strip()
            if name in self._vocabulary:
                if name in VALUED and result is None:
                    code = "bad-date" if VALUED[name] is _date else "bad-value"
                    message = f"{name} has no effect with the value {value.strip()!r}"
                    self.add_finding(code, message, location)
                self.statements.append(Statement(*location, written, name, result))
            elif written:
                message = f"unknown rule, which has no effect: {written!r}"
                self.add_finding("unknown-name", message, location)
                self.statements.append(Statement(*location, written, name, known=False))


def _read_value(
    read: Callable[[str], Value], text: str, spans: list[Span]
) -> tuple[Value, int]:
    """Use *read* to parse the value that begins in the first of *spans*. Return the value, None if it is invalid, and
    the number of spans that the value takes: 1, or more for a date.
    """
    start, end = spans[0]
    _, colon, value = text[start:end].partition(":")
    most = len(spans) if colon and read is _date else 1
    for taken in range(most, 0, -1):
        result = read(text[end - len(value) : spans[taken - 1][1]])
        if result is not None:
            return result, taken
    return None, 1


# Matches a rule in a list without commas: its name, and, if a colon follows, its value. Only a date may
# have white space.
_LISTED = re.compile(
    r"unavailable_after\s*:[^;|]*|[^\s;/|:]+(?:\s*:\s*[^\s;/|]*)?", re.IGNORECASE
)


def _listed(text: str, start: int, end: int) -> list[Span]:
    """Return the spans of the rules in ``text[start:end]``, if this is a list of rules without commas.
    Return an empty list if it is a single rule, or if not all its parts are known rules.
    """
    spans: list[Span] = []
    for match in _LISTED.finditer(text, start, end):
        name, colon, _ = match[0].partition(":")
        if name.strip().lower() not in (VALUED if colon else DENIALS):
            return []
        spans.append(match.span())
    if [text[slice(*span)].strip() for span in spans] == [text[start:end].strip()]:
        return []
    return spans


_EVERYONE = frozenset({"*", "robots"})
"""The agents that mean all crawlers: ``*`` as in robots.txt, ``robots`` as in meta tags."""

_PART = re.compile("[^,]+")
# Matches an agent and its colon. An agent has at least one letter, unlike the hour in "15:00", and after
# its colon there is no "//", as in a URL. No repetition shares a character with the part after it, so
# there is no backtracking.
_AGENT = re.compile(
    r"\s*([0-9_.-]*[a-zA-Z*][a-zA-Z0-9*_.-]*)(?:/[a-zA-Z0-9_.-]*)?\s*:(?!//)"
)


def _scopes(text: str) -> Iterator[tuple[str | None, list[Span]]]:
    """Yield each agent of a header field, or None for everyone, with the spans of the statements that are
    addressed to the agent.
    """
    agent = None
    spans: list[Span] = []
    for part in _PART.finditer(text):
        start, end = part.span()
        while (match := _AGENT.match(text, start, end)) is not None:
            if match[1].lower() in VOCABULARY:
                break
            yield agent, spans
            agent, spans, start = match[1], [], match.end()
        spans.append((start, end))
    yield agent, spans


def read_headers(
    values: Iterable[bytes], agents: Collection[str], reader: StatementReader
) -> None:
    """Parse the *values* of ``X-Robots-Tag`` fields, and add to *reader* the statements that are addressed
    to *agents* or to everyone. *agents* are the product tokens of the crawler, in lower case.
    """
    for number, value in enumerate(values, 1):
        if reader.is_full:
            return
        if len(value) > MAX_TEXT:
            message = f"the crawler reads only {MAX_TEXT} of {len(value)} bytes"
            reader.add_finding("too-long", message, ("header", None, number))
        text = value[:MAX_TEXT].decode("latin-1")
        for agent, spans in _scopes(text):
            if agent is None or agent.lower() in agents or agent.lower() in _EVERYONE:
                reader.read(("header", agent, number), text, spans)
