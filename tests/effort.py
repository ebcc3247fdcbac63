"""The number of examples that property tests try: more with pytest's ``--long``."""

from __future__ import annotations

from hypothesis import settings

is_long = False


def few() -> settings:
    """The settings of slow property tests: a third of the usual number of examples."""
    return settings(max_examples=settings.default.max_examples // 3)
