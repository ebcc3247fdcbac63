"""The categories of use, and the labels and values of each signal.

Sources, each with its date:

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
- ``License``: https://rslstandard.org/rsl (2025-12-10).
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Source(str, Enum):
    """Where a statement is made."""

    ROBOTS_TXT = "robots.txt"
    TDMREP = "tdmrep.json"
    HEADER = "header"
    META = "meta"

    __str__ = str.__str__


class Signal(str, Enum):
    """The kind of a statement, named after its header field, record or tag."""

    CONTENT_USAGE = "Content-Usage"
    CONTENT_SIGNAL = "Content-Signal"
    TDM_RESERVATION = "tdm-reservation"
    TDM_POLICY = "tdm-policy"
    ROBOTS_TAG = "robots"
    """``X-Robots-Tag``, and the meta tags of the same vocabulary."""
    LICENSE = "License"

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
"""The categories of use: label and description. The first three labels come from AIPREF;
the last is for TDMRep, which makes no finer distinction."""


class Row(NamedTuple):
    """A label of a signal, with its values and the categories that it is about."""

    signal: Signal
    label: str
    allows: str | None
    """The value that allows the use; None if no value does."""
    disallows: str | None
    """The value that disallows the use; for a label without values, the label itself."""
    categories: tuple[str, ...]
    """Empty for a label that is only evidence."""
    images: bool = False
    """Whether it is only about the images of a page."""


ROWS = (
    Row(Signal.CONTENT_USAGE, TRAIN_AI, "y", "n", (TRAIN_AI,)),
    Row(Signal.CONTENT_USAGE, AI_USE, "y", "n", (AI_USE,)),
    Row(Signal.CONTENT_USAGE, SEARCH, "y", "n", (SEARCH,)),
    Row(Signal.CONTENT_SIGNAL, "ai-train", "yes", "no", (TRAIN_AI,)),
    Row(Signal.CONTENT_SIGNAL, "ai-input", "yes", "no", (AI_USE,)),
    Row(Signal.CONTENT_SIGNAL, "search", "yes", "no", (SEARCH,)),
    # The maximum level of use. "immediate" disallows storing or reusing content, so neither an
    # index nor a model may be built from it. What "reference" disallows is contested, and "full"
    # disallows nothing: both are recorded without a value.
    Row(Signal.CONTENT_SIGNAL, "use", None, "immediate", (SEARCH, TRAIN_AI)),
    # To train a model is a form of text and data mining (EU 2024/1689, art. 53, 1 c).
    Row(Signal.TDM_RESERVATION, "tdm-reservation", "0", "1", (TDM, TRAIN_AI)),
    Row(Signal.TDM_POLICY, "tdm-policy", None, None, ()),
    Row(Signal.ROBOTS_TAG, "noai", None, "noai", (TRAIN_AI,)),
    Row(Signal.ROBOTS_TAG, "noimageai", None, "noimageai", (TRAIN_AI,), images=True),
    Row(Signal.LICENSE, "license", None, None, ()),
)
"""The labels of each signal. For a value that is in no row, the preference is unknown."""

_BY_LABEL = {(row.signal, row.label): row for row in ROWS}


def row_of(signal: Signal, label: str) -> Row | None:
    """Return the row of a label, or None. Labels are case-sensitive."""
    return _BY_LABEL.get((signal, label))


MINING = frozenset(_BY_LABEL[Signal.TDM_RESERVATION, "tdm-reservation"].categories)
"""The categories that tdmrep.json can have statements about, for which a crawl needs it."""
