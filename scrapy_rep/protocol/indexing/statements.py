"""The vocabulary of indexing rules, and the parsers for statements and for X-Robots-Tag headers.

``metatags`` finds the text of statements in a page, and the usage tags of a page. This module parses
that text, and ``rules`` combines the statements.

Sources:

- *Google*: "Robots meta tag, data-nosnippet, and X-Robots-Tag specifications", Google
  Search Central;
- *MDN*: "X-Robots-Tag header", "<meta name="robots">": nocache;
- *HTML 4.01*, B.4.1: all, none, index, noindex, follow, nofollow;
- DeviantArt, "UPDATE All Deviations Are Opted Out of AI Datasets" (2022): noai,
  noimageai.

No standard defines the grammar of the header. By this grammar, the examples of Google and MDN mean
what these explain ("X-Robots-Tag: BadBot: noindex, nofollow, googlebot: nofollow")::

    field-line = [ part *( "," [ part ] ) ]
    part       = *( agent ":" ) [ statement ]
    agent      = token [ "/" version ]           ; opens a scope up to the next agent
    statement  = name [ ":" value ]

Only dates may have commas in their value. Some sites write other separators than the comma. If the
dialect allows this, a statement with an unknown name is read as a list of rules without commas, if all
of its parts are known rules.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import datetime
from typing import Literal, NamedTuple

Source = Literal["header", "meta"]
Value = int | str | datetime | None

MAX_STATEMENTS = 1000
"""The number of statements of a response that are read, and of findings about them that are kept."""

MAX_PAGE = 4 * 2**20
"""The number of bytes of a page that are read. A server can make a page of any length, so every crawler
has a limit; Googlebot reads at most the first 15 MB."""

MAX_TEXT = 65_536
"""The number of bytes that are read of a field line or of the content of a tag."""

IMAGE_PREVIEWS = ("none", "standard", "large")
"""The values of ``max-image-preview``, the most restrictive one first."""

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
"""For each rule without a value, the rights that it denies. Of several rules that deny the same, the last
one has the canonical name."""


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
"""For each rule with a value, the parser of its values, which returns None for an invalid value. The
names of these rules are never agents, in any dialect."""

VOCABULARY = frozenset(DENIALS) | frozenset(VALUED)
"""The names of all known rules, in lower case."""

# The number of characters of a list without commas that a finding shows.
_MAX_SHOWN = 100

# The number of parts that a date may have. In a header, commas separate parts. In a meta tag, parts are
# words: "Friday, June 25, 2010 at 3:00 PM PST" has eight.
_DATE_PARTS = 10

Location = tuple[Source, str | None, int]
"""The source, agent and position of a Statement."""

Span = tuple[int, int]
"""The start and end of a part of a text."""


class Statement(NamedTuple):
    """One occurrence of an indexing rule that is addressed to the crawler."""

    source: Source
    agent: str | None
    """The agent that the statement is addressed to, as written; None for everyone."""
    position: int
    """The number of the field line in a header, or of the line in a page on which the tag begins. Both
    count from 1."""
    text: str
    name: str
    """The name of the rule, in lower case."""
    value: Value = None
    """The value of the rule; None if the rule takes no value. None is also an invalid value, with which
    the statement has no effect."""
    known: bool = True
    """Whether the name is in the dialect's vocabulary. Other statements have no effect."""

    def __str__(self) -> str:
        return f"{self.text} ({self.source})"


class IndexingFinding(NamedTuple):
    """A mistake in a statement, or in its tag or header; or the fact that a page is too long."""

    code: str
    """``bad-date``, ``bad-value``, ``misspelt-tag``, ``no-comma``, ``no-content``,
    ``page-too-long``, ``stray-colon``, ``too-long``, ``too-many``, ``unclosed-quote`` or
    ``unknown-name``."""
    message: str
    source: Source
    position: int
    """The position, as in :class:`Statement`; for a page that is too long, the last line that is read."""


USAGE_TAGS = ("tdm-reservation", "tdm-policy")
"""The names of ``<meta>`` tags that are usage tags."""


_MAX_TAGS = 100
"""The number of usage tags of a page that are kept."""


class Tag(NamedTuple):
    """A usage tag of a page: a ``<meta>``, or a ``<link rel="license">``."""

    name: str
    """One of :data:`USAGE_TAGS`, or ``license``."""
    content: str
    """The value of the attribute ``content`` or ``href``."""
    line: int
    """The number of the line on which the tag begins, from 1."""


class StatementReader:
    """Parses the statements of one response, and collects them with its findings and usage tags."""

    __slots__ = (
        "_separates", "_vocabulary", "findings", "is_full", "statements", "tags",
    )  # fmt: skip

    def __init__(
        self, vocabulary: frozenset[str] | None = None, *, separates: bool = True
    ) -> None:
        """*vocabulary* is that of the dialect. *separates* says whether other characters than the comma
        may separate rules in this dialect.
        """
        self._vocabulary = VOCABULARY if vocabulary is None else vocabulary
        self._separates = separates
        self.statements: list[Statement] = []
        self.findings: list[IndexingFinding] = []
        self.tags: list[Tag] = []
        self.is_full = False
        """Whether the limit of statements is reached."""

    def add_finding(self, code: str, message: str, location: Location) -> None:
        """Add a finding, unless there are too many."""
        if len(self.findings) <= MAX_STATEMENTS:
            self.findings.append(
                IndexingFinding(code, message, location[0], location[2])
            )

    def add_tag(self, tag: Tag) -> None:
        """Add a usage tag, unless there are too many."""
        if len(self.tags) < _MAX_TAGS:
            self.tags.append(tag)

    def read(self, location: Location, text: str, spans: list[Span]) -> None:
        """Add the statements in the *spans* of *text*, one for each span. A date may take several spans."""
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
                # "all: noindex" counts as two statements, so that none is lost.
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
    """Return the value that *read* finds in the first of *spans*, and the number of spans that the value
    takes, which is 1 for all values but dates. The value is None if it is invalid.
    """
    start, end = spans[0]
    _, colon, value = text[start:end].partition(":")
    most = len(spans) if colon and read is _date else 1
    for taken in range(most, 0, -1):
        result = read(text[end - len(value) : spans[taken - 1][1]])
        if result is not None:
            return result, taken
    return None, 1


# Matches a rule in a list without commas: its name, and after a colon its value. A date may have white
# space.
_LISTED = re.compile(
    r"unavailable_after\s*:[^;|]*|[^\s;/|:]+(?:\s*:\s*[^\s;/|]*)?", re.IGNORECASE
)


def _listed(text: str, start: int, end: int) -> list[Span]:
    """Return the spans of the rules in a part of a text that is a list of rules without commas. Return
    an empty list if the part is a single rule, or if any of it is no rule.
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
"""Names for all crawlers: ``*`` as in robots.txt, ``robots`` as the name of a meta tag."""

_PART = re.compile("[^,]+")
# Matches an agent and its colon. An agent has a letter, unlike the hour in "15:00", and no "//" follows
# the colon, as it does in a URL. No repetition shares a character with the part behind it, so there is
# no backtracking.
_AGENT = re.compile(
    r"\s*([0-9_.-]*[a-zA-Z*][a-zA-Z0-9*_.-]*)(?:/[a-zA-Z0-9_.-]*)?\s*:(?!//)"
)


def _scopes(text: str) -> Iterator[tuple[str | None, list[Span]]]:
    """Yield each agent of a field line, None for everyone, with the spans of the parts in its scope."""
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
    """Add the statements of ``X-Robots-Tag`` field lines that are addressed to *agents* or to everyone.

    *values* are the values of the field lines, and *agents* the product tokens of the crawler, in
    lower case.
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
