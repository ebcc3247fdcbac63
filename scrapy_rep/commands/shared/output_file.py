"""Output files that a command writes completely or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING

from scrapy.exceptions import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from typing_extensions import Self


class OutputFile:
    """A text file that replaces *path* when its block ends without an error.

    Until then the text is in a temporary file in the same folder. If *path* is a symbolic
    link, its target is replaced. Raises UsageError, which begins with *name*, for a path
    that can't be written or is one of the *inputs*.
    """

    def __init__(self, path: str, name: str, inputs: Iterable[str]) -> None:
        self._name = name
        self._path = Path(path).resolve()
        if self._path.is_dir():
            raise UsageError(f"{name}: Is a directory")
        if self._path in {Path(each).resolve() for each in inputs}:
            raise UsageError(f"{name}: this is an input file, and is not replaced")
        folder, prefix = self._path.parent, f".{self._path.name[:100]}."
        try:
            self._file = NamedTemporaryFile(
                "w", encoding="utf-8", dir=folder, prefix=prefix, delete=False
            )
        except OSError as error:
            raise self._error(error) from None
        self._partial = Path(self._file.name)

    def write(self, text: str) -> None:
        """Write *text*. Raises UsageError if that fails, as on a full disk."""
        try:
            self._file.write(text)
        except OSError as error:
            raise self._error(error) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self._file.close()
            if kind is None:
                self._partial.chmod(0o666 & ~_umask())
                self._partial.replace(self._path)
        except OSError as failure:
            raise self._error(failure) from None
        finally:
            self._partial.unlink(missing_ok=True)

    def _error(self, error: OSError) -> UsageError:
        return UsageError(f"{self._name}: {error.strerror or error}")


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask
