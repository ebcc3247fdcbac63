"""How much is tried: less in every run, and more where pytest is told ``--long``."""

from __future__ import annotations

from hypothesis import settings

is_long = False


def few() -> settings:
    """The settings of tests whose examples take long: a quarter of the usual number."""
    return settings(max_examples=settings.default.max_examples // 4)
