"""The effort of property tests and fuzz tests: with pytest's option ``--long``, they run longer."""

from __future__ import annotations

from hypothesis import settings

is_long = False
"""Whether pytest was called with ``--long``. Set by ``tests/conftest.py``."""


def few() -> settings:
    """Return the settings for slow property tests: a third of the usual number of examples."""
    return settings(max_examples=settings.default.max_examples // 3)
