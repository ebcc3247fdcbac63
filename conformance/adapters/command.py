"""An adapter for parsers in any language, which communicate over standard input and output."""

from __future__ import annotations

import json
import select
import shlex
import subprocess
from typing import TYPE_CHECKING, Any

from conformance.judge import SECONDS, Ended

if TYPE_CHECKING:
    from collections.abc import Mapping


class Command:
    """A parser that runs as a separate program, which can be written in any language.

    A question is a test case without its expected answer, such as "may this crawler fetch this URL, if this is the
    site's robots.txt?". The program reads each question as a line of JSON from its standard input, and writes the
    answer as a line of JSON to its standard output. It writes ``null`` if it does not support the question.
    """

    def __init__(self, command: str, dialect: str, timeout: float = SECONDS) -> None:
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
        """Return the command's answer to *question*; None if the command does not support the question. If the answer
        takes too long, the command is killed. Raises Ended if the command ended or was killed. Raises ValueError if the
        answer is not valid JSON, or is neither an object nor ``null``.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(question).encode() + b"\n")
            answer = json.loads(self._line())
        except BrokenPipeError:
            raise self._ended() from None
        except TimeoutError as error:
            # The command is killed, because a late answer would be mistaken for the answer to the next question.
            self._process.kill()
            raise Ended(str(error)) from None
        if answer is not None and not isinstance(answer, dict):
            raise ValueError(
                f"The answer must be a JSON object or null, but it is {answer!r}"
            )
        return answer

    def _line(self) -> bytes:
        stdout = self._process.stdout
        assert stdout is not None
        while b"\n" not in self._read:
            if not select.select([stdout], [], [], self._timeout)[0]:
                raise TimeoutError(f"No answer in {self._timeout:g} s")
            part = stdout.read(65_536)
            if not part:
                raise self._ended()
            self._read += part
        line, _, self._read = self._read.partition(b"\n")
        return line

    def _ended(self) -> Ended:
        return Ended(f"The command ended with the exit status {self._process.wait()}")

    def close(self) -> None:
        """Close the command's standard input, and wait until the command ends. Kill the command if it does not end
        within the time limit.
        """
        try:
            self._process.communicate(timeout=self._timeout)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
