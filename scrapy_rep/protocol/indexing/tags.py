"""The tags of a page about its use."""

from __future__ import annotations

from typing import NamedTuple


class Tag(NamedTuple):
    """A ``<meta>`` of one of :data:`NAMES`, or a ``<link rel="license">``."""

    name: str
    """One of :data:`NAMES`, or ``license``."""

    content: str
    """The value of its ``content``, or of its ``href``."""

    start: int
    """The offset of its ``<``, as the position of an indexing statement."""


NAMES = ("tdm-reservation", "tdm-policy")
"""The names of ``<meta>`` tags about use."""
