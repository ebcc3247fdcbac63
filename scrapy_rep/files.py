"""Files that others may move or remove while they are open."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def identity(path: Path) -> tuple[int, int] | None:
    """What tells the file at *path* from any other; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
