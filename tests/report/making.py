"""Makes reports as the command does."""

from __future__ import annotations

from tests.commands.rep import execute


def run(*arguments: object) -> int:
    """Return the exit status of the command."""
    return execute(["report", *map(str, arguments)], {})
