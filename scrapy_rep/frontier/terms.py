"""What a robots.txt asks of those who fetch, at a moment."""

from __future__ import annotations

from typing import NamedTuple


class Terms(NamedTuple):
    """What those who ask a host must keep to. All in seconds."""

    holds: float
    """For how long this is known."""

    delay: float = 0.0
    """Between two requests."""

    ago: float = 0.0
    """Since its robots.txt was asked for."""

    opens: float = 0.0
    """Until it is open for visits."""
