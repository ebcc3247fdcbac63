"""A parser in any language, asked line by line over standard input and output."""

from __future__ import annotations

import json
import select
import shlex
import subprocess
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


class Command:
    """Runs a command, writes a question to it as a line of JSON, and reads a line of
    JSON: the answer, or null where the parser has none.
    """

    def __init__(self, command: str, dialect: str, timeout: float = 10.0) -> None:
        self.name = command
        self.dialect = dialect
        self._timeout = timeout
        self._process = subprocess.Popen(
            shlex.split(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        self._read = b""

    def answer(self, question: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Raises OSError where the command has ended or takes too long."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(question).encode() + b"\n")
        found = json.loads(self._line())
        if found is not None and not isinstance(found, dict):
            raise ValueError(f"{found!r} is no object")
        return found

    def _line(self) -> bytes:
        stdout = self._process.stdout
        assert stdout is not None
        while b"\n" not in self._read:
            if not select.select([stdout], [], [], self._timeout)[0]:
                self._process.kill()
                raise TimeoutError(f"No answer in {self._timeout:g} s")
            part = stdout.read(65_536)
            if not part:
                raise OSError(f"The command ended, with status {self._process.wait()}")
            self._read += part
        line, _, self._read = self._read.partition(b"\n")
        return line

    def close(self) -> None:
        """End the command, which sees the end of its input first."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(self._timeout)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
