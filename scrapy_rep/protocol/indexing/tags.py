"""A tag of a page that speaks of its use."""

from __future__ import annotations

from typing import NamedTuple


class Tag(NamedTuple):
    """A ``<meta>`` of one of :data:`NAMES`, or a ``<link rel="license">``."""

    name: str
    """One of :data:`NAMES`, or ``license``."""

    content: str
    """The value of its ``content``, or of its ``href``."""

    start: int
    """The offset of its ``<``, as in a Statement about indexing."""


NAMES = ("tdm-reservation", "tdm-policy")
"""The names of ``<meta>`` tags that speak of use, besides those about indexing."""
