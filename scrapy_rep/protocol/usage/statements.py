"""Usage statements: the categories of use, the kinds of statements (signals), and their parsers.

A statement such as ``Content-Signal: ai-train=no`` consists of a signal (``Content-Signal``), a label
(``ai-train``) and a value (``no``). The label stands for one or more categories of use. The value says
whether the site allows these uses.

The sources, with their dates:

- ``Content-Usage``: https://www.ietf.org/archive/id/draft-ietf-aipref-vocab-08.txt
  (2026-09-14), the newest version on 2026-11-23;
- ``Content-Signal``: https://contentsignals.org (2025-09-24); its label ``use``:
  https://developers.cloudflare.com/bots/additional-configurations/managed-robots-txt/
  (2026-08-03) and
  https://developers.cloudflare.com/changelog/post/2026-08-31-crawl-content-use/ (2026-08-31);
- ``tdm-reservation``, ``tdm-policy``:
  https://www.w3.org/community/reports/tdmrep/CG-FINAL-tdmrep-20240510/ (2024-05-10);
- ``noai``, ``noimageai``: https://www.deviantart.com/team/journal/
  UPDATE-All-Deviations-Are-Opted-Out-of-AI-Datasets-934500371 (2022-11-11);
- ``License``: https://rslstandard.org/rsl (2025-12-10);
- ``User-agent: __usage_ai-training``: draft-kelley-aipref-training-preference-signal-00
  (2026-10-30); only its abstract could be read.

The grammars::

    content-usage  = [ path 1*WS ] dictionary        ; RFC 9651, 3.2
    content-signal = [ path 1*WS ] pair *( "," pair )
    pair           = label "=" value
    path           = "/" *non-white-space

The grammar of ``content-usage`` is that of draft-ietf-aipref-attach-05, 3.2. A path is only read in
robots.txt, and not in headers. No specification defines ``content-signal``; this grammar covers the
examples on contentsignals.org, and the forms that sites use.
"""

import re
from collections.abc import Iterable, Iterator
from enum import Enum
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from scrapy_rep.protocol.text import WHITE_SPACE


class Source(str, Enum):
    """Where a site publishes a usage statement."""

    ROBOTS_TXT = "robots.txt"
    TDMREP = "tdmrep.json"
    HEADER = "header"
    META = "meta"

    __str__ = str.__str__


class Signal(str, Enum):
    """The kinds of usage statements. Each kind is named after the header field, the record of robots.txt or the
    tag in which sites publish such statements.
    """

    CONTENT_USAGE = "Content-Usage"
    CONTENT_SIGNAL = "Content-Signal"
    TDM_RESERVATION = "tdm-reservation"
    TDM_POLICY = "tdm-policy"
    ROBOTS_TAG = "robots"
    """``noai`` and ``noimageai`` in ``X-Robots-Tag`` headers and robots meta tags."""
    LICENSE = "License"
    USER_AGENT = "User-agent"
    """A rule in a group of robots.txt whose user-agent line names a purpose instead of a crawler:
    ``User-agent: __usage_ai-training``."""

    __str__ = str.__str__


TRAIN_AI = "train-ai"
AI_USE = "ai-use"
SEARCH = "search"
TDM = "tdm"

CATEGORIES: dict[str, str] = {
    TRAIN_AI: "training a generative AI model",
    AI_USE: "input to a generative AI model, such as for answers with sources",
    SEARCH: "a search engine that leads its users to the page",
    TDM: "text and data mining",
}
"""The categories of use, each with a description. AIPREF defines the first three, and TDMRep defines only the
last."""


class Label(NamedTuple):
    """A name that usage statements contain (a label), such as ``ai-train`` in ``Content-Signal: ai-train=no``. A
    label and its value together allow or disallow one or more categories of use.
    """

    signal: Signal
    name: str
    allows: str | None
    """The value that allows the use; None if no value allows it."""
    disallows: str | None
    """The value that disallows the use; None if no value disallows it. For a label without values, such as
    ``noai``, this is the label itself."""
    categories: tuple[str, ...]
    """The categories of use that the label is about; empty for a licence or policy, which neither allows nor
    disallows a use."""
    images: bool = False
    """Whether the label applies only to the images of a page."""


LABELS = (
    Label(Signal.CONTENT_USAGE, TRAIN_AI, "y", "n", (TRAIN_AI,)),
    Label(Signal.CONTENT_USAGE, AI_USE, "y", "n", (AI_USE,)),
    Label(Signal.CONTENT_USAGE, SEARCH, "y", "n", (SEARCH,)),
    Label(Signal.CONTENT_SIGNAL, "ai-train", "yes", "no", (TRAIN_AI,)),
    Label(Signal.CONTENT_SIGNAL, "ai-input", "yes", "no", (AI_USE,)),
    Label(Signal.CONTENT_SIGNAL, "search", "yes", "no", (SEARCH,)),
    # The value is the maximum level of use. "immediate" disallows storing or reusing content, so neither an index
    # nor a model may be built from the content. The two other values, "reference" and "full", have no effect, but
    # are recorded: "full" disallows nothing, and it is disputed which uses "reference" disallows.
    Label(Signal.CONTENT_SIGNAL, "use", None, "immediate", (SEARCH, TRAIN_AI)),
    # Training a model is a form of text and data mining (EU 2024/1689, art. 53, 1 c).
    Label(Signal.TDM_RESERVATION, "tdm-reservation", "0", "1", (TDM, TRAIN_AI)),
    Label(Signal.TDM_POLICY, "tdm-policy", None, None, ()),
    Label(Signal.ROBOTS_TAG, "noai", None, "noai", (TRAIN_AI,)),
    Label(Signal.ROBOTS_TAG, "noimageai", None, "noimageai", (TRAIN_AI,), images=True),
    Label(Signal.LICENSE, "license", None, None, ()),
    # This label is the product token of a group in robots.txt. The rules of the group allow or disallow the use.
    Label(Signal.USER_AGENT, "__usage_ai-training", "allow", "disallow", (TRAIN_AI,)),
)
"""All known labels of usage statements. If the value of a label is neither the one that allows the use nor the one that
disallows it, the preference is unknown."""

_BY_NAME = {(label.signal, label.name): label for label in LABELS}


def label_of(signal: Signal, name: str) -> Label | None:
    """Return the meaning of *name*, such as ``ai-train``, in usage statements of the kind *signal*, such as
    ``Content-Signal: ai-train=no``: the categories of use for which the name stands, and the values that allow
    and disallow these uses. Return None if the name is unknown in such statements. Names are case-sensitive.
    """
    return _BY_NAME.get((signal, name))


MINING = frozenset(_BY_NAME[Signal.TDM_RESERVATION, "tdm-reservation"].categories)
"""The categories of use that a tdmrep.json can disallow. A crawl needs the tdmrep.json of a site if the purposes of the
crawl include one of these categories."""


MAX_TEXT = 65_536
"""The maximum length, in characters, of a record or header field with usage statements. Longer records and
fields are ignored, except a ``Link`` field, of which the part up to this length is read."""

MAX_SHOWN = 1_024
"""The maximum length, in characters, of the fields ``text`` and ``label`` of a :class:`UsageStatement`. Longer values
are cut."""

_MAX_PAIRS = 1_000

# The maximum number of statements with the same category of use and the same value, and the maximum number of
# statements without a category, such as licences. Further statements are dropped.
_MAX_ALIKE = 10
_MAX_OTHERS = 100

_PATH = rf"/[^{WHITE_SPACE}]*"
_URLS = frozenset({Signal.LICENSE, Signal.TDM_POLICY})

# Messages show the position of a statement after this word, as in "robots.txt, line 3". For sources that are not in
# this dict, messages do not show the position.
_NUMBERED = {Source.ROBOTS_TXT: "line", Source.TDMREP: "rule"}


Location: TypeAlias = tuple[Source, Signal, "str | None", int]
"""The first four fields of a UsageStatement: its source, signal, agent and position."""


class UsageStatement(NamedTuple):
    """A statement in which a site allows or disallows a use of its content, or names a licence."""

    source: Source
    signal: Signal
    """The kind of usage statement, such as ``Content-Usage`` or ``tdm-reservation``."""

    agent: str | None
    """The agent to which the statement is addressed: a product token, or ``*`` for all crawlers. None if the
    statement names no agent, and is therefore addressed to all crawlers."""

    position: int
    """The position in the source, from 1. In robots.txt, this is the line number; in tdmrep.json, the
    number of the rule; in headers, the number of the field among the fields with the same name; in a page,
    the number of the line on which the tag begins."""

    text: str
    """The text of the statement as written, cut after 1,024 characters."""

    label: str
    """The name in the statement, such as ``ai-train`` in ``ai-train=no``. This package does not know all of these
    names. For a licence or policy, this field contains the URL of the licence or policy."""

    category: str = ""
    """The category of use, such as ``train-ai``, that the statement is about. Empty if ``label`` is a name that this
    package does not know, or the URL of a licence or policy."""

    value: bool | None = None
    """True if the statement allows the use, False if it disallows the use. None if the statement has no category
    of use, or a value that neither allows nor disallows the use."""

    images: bool = False
    """Whether the statement applies only to the images of a page."""

    is_overridden: bool = False
    """Whether another statement overrides this one (TDMRep, "Processing priority")."""

    def __str__(self) -> str:
        word = _NUMBERED.get(self.source)
        where = f"{self.source}, {word} {self.position}" if word else self.source
        return f"{self.text} ({where})"


def statements_at(
    location: Location, text: str, pairs: Iterable[tuple[str, str | None]]
) -> Iterator[UsageStatement]:
    """Yield the usage statements for *pairs*. Each pair is a label and its value, such as ``("ai-train", "no")``. The
    value is None if the label has no value. For a licence or policy, the only pair is its URL and None.

    A label that stands for several categories of use gives a statement for each category. An unknown label and the URL
    of a licence or policy give a single statement without a category.

    *location* is the source, signal, agent and position of all these statements, and *text* is their text as
    written.
    """
    common = *location, text[:MAX_SHOWN]
    for name, value in pairs:
        label = label_of(location[1], name)
        if label is None or not label.categories:
            yield UsageStatement(*common, name[:MAX_SHOWN])
            continue
        is_known = value is not None and value in {label.allows, label.disallows}
        allowed = value == label.allows if is_known else None
        for category in label.categories:
            yield UsageStatement(*common, name, category, allowed, label.images)


class Expression(NamedTuple):
    """The result of parsing the text of a usage record, a header field or a tag, such as ``ai-train=no``. It consists
    of the pairs of names and values in the text, and a description of the first mistake.
    """

    pairs: tuple[tuple[str, str | None], ...] = ()
    """Pairs of a name (the label), such as ``ai-train``, and its value, such as ``no``. The value is None if the
    label has no value, or if the value has a type that no label accepts, such as a number in
    ``Content-Usage``. For a licence or policy, the only pair consists of its URL and None."""

    mistake: str = ""
    """A description of the first mistake in the text; empty if there is no mistake."""


def split_path(value: str) -> tuple[str, str]:
    """Split the *value* of a usage record, such as ``/blog/ ai-train=no``, into its path and the text after the path.
    The path is empty if the value does not begin with a path.
    """
    match = re.match(_PATH, value)
    path = match[0] if match else ""
    return path, value[len(path) :].strip(WHITE_SPACE)


def read_expression(signal: Signal, text: str) -> Expression:
    """Parse *text* into pairs of a name (a label) and its value, such as ``ai-train`` and ``no``. *text* is the value
    of a header field or of a tag, or the value of a robots.txt record without the path at its start. *signal* is the
    kind of usage statement.

    ``Content-Usage`` is parsed according to draft-ietf-aipref-vocab-08, 6.5. For a licence or policy, *text*
    is its URL, and the result contains one pair: the URL as the label, and None as the value. Mistakes in
    *text* raise no exception; the result describes the first mistake.
    """
    if not text.strip():
        return Expression(mistake="the line has no labels")
    if len(text) > MAX_TEXT:
        return Expression(
            mistake=f"crawlers ignore lines of more than {MAX_TEXT} characters"
        )
    if signal is Signal.CONTENT_USAGE:
        is_short = len(text) <= MAX_SHOWN
        return (_read_dictionary_cached if is_short else _read_dictionary)(text)
    if signal is Signal.CONTENT_SIGNAL:
        return _read_pairs(text)
    return Expression((((text, None) if signal in _URLS else (signal.lower(), text)),))


def _read_dictionary(text: str) -> Expression:
    # Imported here, because few sites use Content-Usage.
    from http_sf import Token, parse  # noqa: PLC0415

    try:
        dictionary: Any = parse(text.encode(), tltype="dictionary")
    except Exception as error:  # noqa: BLE001  The library may raise any exception.
        message = f"crawlers ignore this line, because it is not an RFC 9651 dictionary: {error}"
        return Expression(mistake=message[:200])
    pairs: list[tuple[str, str | None]] = []
    for label, member in dictionary.items():
        value = member[0] if isinstance(member, tuple) else member
        pairs.append((label, str(value) if isinstance(value, Token) else None))
    return Expression(tuple(pairs))


# Cached, because sites often send the same header field with every page.
_read_dictionary_cached = lru_cache(maxsize=256)(_read_dictionary)


def _read_pairs(text: str) -> Expression:
    pairs: list[tuple[str, str | None]] = []
    mistake = ""
    for part in text.split(",", _MAX_PAIRS)[:_MAX_PAIRS]:
        label, equals, value = (text.strip().lower() for text in part.partition("="))
        if equals and label:
            pairs.append((label, value))
        elif part.strip() and not mistake:
            written = part.strip()[:60]
            mistake = f"crawlers ignore {written!r}, which is not label=value"
    return Expression(tuple(pairs), mistake)


def limited(statements: Iterable[UsageStatement]) -> tuple[UsageStatement, ...]:
    """Return *statements* without exact duplicates, and in a limited number. If more than ``_MAX_ALIKE`` statements
    have the same category of use and the same value, only the first ``_MAX_ALIKE`` are kept. Of all
    statements that disallow ``train-ai``, for example, only the first ten are kept. Of the statements without a
    category, such as licences, only the first ``_MAX_OTHERS`` are kept.
    """
    alike: dict[object, int] = {}
    kept: dict[UsageStatement, None] = {}
    for statement in statements:
        # Statements about images are counted separately, and so are overridden statements.
        key = (
            statement.category,
            statement.value,
            statement.images,
            statement.is_overridden,
        )
        most = _MAX_ALIKE if statement.category else _MAX_OTHERS
        if statement not in kept and alike.get(key, 0) < most:
            alike[key] = alike.get(key, 0) + 1
            kept[statement] = None
    return tuple(kept)
