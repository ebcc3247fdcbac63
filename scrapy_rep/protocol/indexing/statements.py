"""The vocabulary of indexing rules, and the parsers of statements and X-Robots-Tag headers.

A statement is one occurrence of an indexing rule. The module ``metatags`` finds the tags with
statements in a page. This module parses the content of tags and headers. The module ``rules``
combines the statements.

Sources:

- *Google*: "Robots meta tag, data-nosnippet, and X-Robots-Tag specifications", Google
  Search Central;
- *MDN*: "X-Robots-Tag header", "<meta name="robots">": nocache;
- *HTML 4.01*, B.4.1: all, none, index, noindex, follow, nofollow;
- DeviantArt, "UPDATE All Deviations Are Opted Out of AI Datasets" (2022): noai,
  noimageai.

No standard defines the grammar of the header. Google and MDN explain the meaning of examples such as
"X-Robots-Tag: BadBot: noindex, nofollow, googlebot: nofollow". The following grammar agrees with them::

    field-line = [ part *( "," [ part ] ) ]
    part       = *( agent ":" ) [ statement ]
    agent      = token [ "/" version ]           ; the next statements are addressed to it
    statement  = name [ ":" value ]

Statements before the first agent are addressed to all crawlers. Every other statement is addressed to the
closest agent before it. Only the value of ``unavailable_after``, a date, may contain commas.

Some sites separate rules by semicolons, slashes, vertical bars or white space. If the dialect allows
these separators, ``noindex; nofollow`` is read as two statements. A text is split like this only if all
its parts are known rules.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import datetime
from typing import Literal, NamedTuple

Source = Literal["header", "meta"]
Value = int | str | datetime | None

MAX_STATEMENTS = 1000
"""The maximum number of statements that are read in a response. It is also the maximum number of findings about a
response, not counting the few findings of :data:`_ABOUT_LIMITS`."""

_ABOUT_LIMITS = frozenset({"page-too-long", "too-many"})
"""The codes of findings which say that the rest of the page or response is ignored. A response has at most one
``page-too-long`` and two ``too-many``."""

MAX_PAGE = 4 * 2**20
"""The maximum number of bytes of a page that are read. Every crawler needs a limit, because pages can be of any
length; Googlebot reads the first 15 MB."""

MAX_TEXT = 65_536
"""The maximum number of bytes that are read of an ``X-Robots-Tag`` field, or of the content of a robots meta tag."""

IMAGE_PREVIEWS = ("none", "standard", "large")
"""The values of ``max-image-preview``, with the most restrictive value first."""

UNLIMITED = -1
"""The value of ``max-snippet`` and ``max-video-preview`` that means "no limit" (Google)."""

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
"""Maps the name of each rule that takes no value to the rights that the rule denies. A right is the name of an
attribute of :class:`~scrapy_rep.protocol.indexing.rules.IndexingRules`, such as ``index``. If several rules deny the
same single right, as ``nocache`` and ``noarchive`` do, ``IndexingRules.to_header()`` writes the last of these rules."""


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
"""Maps the name of each rule that takes a value to a function that parses the value. The function returns None if the
value is invalid. In every dialect, these names are never agents: ``max-snippet: 50`` in a header is a rule with a
value, and not a statement to an agent with the name ``max-snippet``."""

VOCABULARY = frozenset(DENIALS) | frozenset(VALUED)
"""The names of all known rules, in lower case."""

# The message about a list of rules without commas quotes at most this number of characters from the list.
_MAX_SHOWN = 100

# The maximum number of parts of a date. In a header, a date is split at its commas, because commas separate the rules
# of a header: "Friday, June 25, 2010 at 3:00 PM PST" has three parts. In a meta tag, a date is split at commas and
# white space, so the same date has eight parts.
_MAX_DATE_PARTS = 10

Location = tuple[Source, str | None, int]
"""The first three fields of a Statement: its source, agent and position."""

Span = tuple[int, int]
"""A part of a text, as the offsets of its start and its end."""


class Statement(NamedTuple):
    """One occurrence of an indexing rule that is addressed to the crawler."""

    source: Source
    agent: str | None
    """The agent to which the statement is addressed, as written in the header or in the ``name`` of the meta tag.
    None if a header names no agent, or if the tag has the name ``robots``: the statement is then addressed to
    all crawlers."""
    position: int
    """The position in the source, from 1. In headers, this is the number of the field among all ``X-Robots-Tag``
    fields; in a page, the number of the line on which the tag begins."""
    text: str
    """The statement as written."""
    name: str
    """The name of the rule, in lower case."""
    value: Value = None
    """The parsed value of the rule. None if the rule takes no value, or if the value is invalid. A statement with
    an invalid value has no effect."""
    known: bool = True
    """Whether the ``indexing_vocabulary`` of the dialect contains the name. If False, the statement has no
    effect."""

    def __str__(self) -> str:
        return f"{self.text} ({self.source})"


class IndexingFinding(NamedTuple):
    """A message about the indexing statements of a response. It describes a mistake in a statement, a tag or a
    header, or says which content the crawler does not read because of a limit.
    """

    code: str
    """The kind of finding: ``bad-date``, ``bad-value``, ``misspelt-tag``, ``no-comma``, ``no-content``,
    ``page-too-long``, ``stray-colon``, ``too-long``, ``too-many``, ``unclosed-quote`` or
    ``unknown-name``."""
    message: str
    source: Source
    position: int
    """The position in the source, from 1. For a meta tag, this is the number of the line on which the tag begins. For a
    header, this is the number of the field among all ``X-Robots-Tag`` fields. With the code ``page-too-long``, this is
    the number of the last line that was read."""


USAGE_TAGS = ("tdm-reservation", "tdm-policy")
"""The names of the ``<meta>`` tags in which sites state usage preferences."""


_MAX_TAGS = 100
"""The maximum number of usage tags that are kept for a page. Usage tags are the ``<meta>`` and ``<link>`` tags that
state usage preferences. Further usage tags are ignored."""


class Tag(NamedTuple):
    """A tag of a page that contains a usage statement (a usage tag). It is a ``<meta>`` tag with one of the names in
    :data:`USAGE_TAGS`, or a ``<link rel="license">``.
    """

    name: str
    """One of :data:`USAGE_TAGS`, or ``license`` for a ``<link>``."""
    content: str
    """The attribute ``content`` of a ``<meta>``, or the attribute ``href`` of a ``<link>``."""
    line: int
    """The number of the line on which the tag begins, from 1."""


class StatementReader:
    """Parses the indexing statements of a response, and collects them. Also collects the tags of the page that
    state usage preferences (usage tags), and the findings about mistakes in the response.
    """

    __slots__ = (
        "_separates", "_vocabulary", "findings", "is_full", "statements", "tags",
    )  # fmt: skip

    def __init__(
        self, vocabulary: frozenset[str] | None = None, *, separates: bool = True
    ) -> None:
        """Create a reader for one response.

        *vocabulary* contains the names of the rules that have an effect; None for all known rules.
        *separates* is whether rules may be separated by other characters than the comma. The two values are
        the ``indexing_vocabulary`` and the ``indexing_separators`` of a dialect.
        """
        self._vocabulary = VOCABULARY if vocabulary is None else vocabulary
        self._separates = separates
        self.statements: list[Statement] = []
        self.findings: list[IndexingFinding] = []
        self.tags: list[Tag] = []
        self.is_full = False
        """Whether the response has more than :data:`MAX_STATEMENTS` statements, so that the rest is ignored."""

    def add_finding(self, code: str, message: str, location: Location) -> None:
        """Add a finding. If this reader already contains :data:`MAX_STATEMENTS` findings, add the finding only if it
        says that the rest of the page or response is ignored.
        """
        if code in _ABOUT_LIMITS or len(self.findings) < MAX_STATEMENTS:
            self.findings.append(
                IndexingFinding(code, message, location[0], location[2])
            )

    def add_tag(self, tag: Tag) -> None:
        """Add *tag* to the usage tags of the page. If this reader already contains ``_MAX_TAGS`` usage tags, ignore
        *tag*.
        """
        if len(self.tags) < _MAX_TAGS:
            self.tags.append(tag)

    def read(self, location: Location, text: str, spans: list[Span]) -> None:
        """Parse the statements in *text*, and add them to this reader. *location* is the source, the agent and
        the position of these statements.

        *spans* are the parts of *text* between separators, such as commas. A span usually contains one statement, but a
        date that contains separators extends over several spans. A span with several rules, such as
        ``noindex; nofollow``, is replaced in *spans* by one span for each rule. So the caller must not use *spans*
        again.
        """
        at = 0
        while at < len(spans):
            if len(self.statements) >= MAX_STATEMENTS:
                if not self.is_full:
                    self.is_full = True
                    message = (
                        f"the crawler reads only the first {MAX_STATEMENTS} statements"
                    )
                    self.add_finding("too-many", message, location)
                return
            start, end = spans[at]
            name, colon, value = text[start:end].partition(":")
            name = name.strip().lower()
            if self._separates and name not in DENIALS:
                listed = _listed(text, start, end)
                if listed:
                    written = text[start:end].strip()[:_MAX_SHOWN]
                    message = f"most crawlers find no rule in {written!r}: write commas between rules"
                    self.add_finding("no-comma", message, location)
                    spans[at : at + 1] = listed
                    continue
            result, taken = None, 1
            if name in VALUED:
                result, taken = _read_value(
                    VALUED[name], text, spans[at : at + _MAX_DATE_PARTS]
                )
                end = spans[at + taken - 1][1]
            elif colon and name in DENIALS:
                # "all: noindex" is read as two statements, so that "noindex" has an effect.
                spans[at], taken = (end - len(value), end), 0
                end -= len(value)
                message = f"{name} takes no value: the text after the colon is read as another rule"
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
                message = f"this rule is unknown and has no effect: {written!r}"
                self.add_finding("unknown-name", message, location)
                self.statements.append(Statement(*location, written, name, known=False))


def _read_value(
    parse: Callable[[str], Value], text: str, spans: list[Span]
) -> tuple[Value, int]:
    """Parse the value of a statement, such as 50 in ``max-snippet: 50``. Return the parsed value, and the number of
    *spans* that belong to the statement. If the value is invalid, return None and 1.

    *spans* are the parts of *text* between separators, and the statement begins at the first span. Only a
    statement with a date can have several spans: in a header, the comma splits
    ``unavailable_after: Fri, 25 Jun 2010`` into two. *parse* is the function in :data:`VALUED` that parses the
    value.
    """
    start, end = spans[0]
    _, colon, value = text[start:end].partition(":")
    most = len(spans) if colon and parse is _date else 1
    for taken in range(most, 0, -1):
        result = parse(text[end - len(value) : spans[taken - 1][1]])
        if result is not None:
            return result, taken
    return None, 1


# Matches a rule in a list without commas: its name, and its value if a colon follows the name. Only the value of
# unavailable_after, a date, may contain white space.
_LISTED = re.compile(
    r"unavailable_after\s*:[^;|]*|[^\s;/|:]+(?:\s*:\s*[^\s;/|]*)?", re.IGNORECASE
)


def _listed(text: str, start: int, end: int) -> list[Span]:
    """Split ``text[start:end]`` if it is a list of rules with other separators than commas, such as
    ``noindex; nofollow``. Return the start and end of each rule, as offsets in *text*. Return an empty list if
    ``text[start:end]`` is a single rule, or if a part of it is not a known rule.
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
"""The names of agents that mean all crawlers: ``*`` as in robots.txt, and ``robots`` as in meta tags."""

_PART = re.compile("[^,]+")
# Matches an agent and its colon. Two conditions exclude other texts with a colon: an agent contains a letter or "*",
# unlike the hour in "15:00", and its colon is not followed by "//", unlike the scheme of a URL. No repetition can match
# a character with which the next part of the expression begins, so there is no backtracking.
_AGENT = re.compile(
    r"\s*([0-9_.-]*[a-zA-Z*][a-zA-Z0-9*_.-]*)(?:/[a-zA-Z0-9_.-]*)?\s*:(?!//)"
)


def _scopes(text: str) -> Iterator[tuple[str | None, list[Span]]]:
    """Yield the agents that are named in *text*, the value of an ``X-Robots-Tag`` field. Each agent is yielded with
    the spans of the statements that are addressed to it. The first item is different: its agent is None, and its
    spans, if any, are the statements before the first agent, which are addressed to everyone.
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
    """Parse the *values* of ``X-Robots-Tag`` fields, and add their statements to *reader*. Only the statements that
    are addressed to *agents* or to everyone are added. *agents* are the crawler's product tokens, in lower
    case.
    """
    for number, value in enumerate(values, 1):
        if reader.is_full:
            return
        if len(value) > MAX_TEXT:
            message = (
                f"the crawler reads only the first {MAX_TEXT} of {len(value)} bytes"
            )
            reader.add_finding("too-long", message, ("header", None, number))
        text = value[:MAX_TEXT].decode("latin-1")
        for agent, spans in _scopes(text):
            if agent is None or agent.lower() in agents or agent.lower() in _EVERYONE:
                reader.read(("header", agent, number), text, spans)
