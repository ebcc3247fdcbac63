"""Tests of the progress line that a command writes to a terminal."""

from __future__ import annotations

import io
import sys
from threading import Condition
from typing import TYPE_CHECKING

from scrapy_rep.tools import output
from scrapy_rep.tools.output import Progress, notify

if TYPE_CHECKING:
    import pytest


class Terminal(io.StringIO):
    """A standard error that is a terminal."""

    def __init__(self) -> None:
        super().__init__()
        self.written = Condition()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        with self.written:
            self.written.notify_all()
            return super().write(text)

    def wait_for(self, text: str) -> None:
        """Wait until *text* has been written; fail after a minute."""
        with self.written:
            assert self.written.wait_for(lambda: text in self.getvalue(), timeout=60)


def test_a_terminal_shows_the_progress_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The latest progress is shown in a single line of less than 80 columns, with control
    characters as escapes. The line is erased before other output and at the end of the command.
    """
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(output, "_PATIENCE", 0.0)
    monkeypatch.setattr(output, "_EVERY", 0.001)
    progress = Progress()
    monkeypatch.setattr(output, "progress", progress)
    with progress.shown():
        progress.say("1,000 URLs judged")
        terminal.wait_for("\r1,000 URLs judged\x1b[K")
        progress.say("fetching http://a.example/\x1b" + 100 * "a")
        terminal.wait_for("\rfetching http://a.example/\\x1baaa")
        notify("a message")
        terminal.wait_for("\r\x1b[Kscrapy rep: a message\n")
        progress.say("2,000 URLs judged")
        terminal.wait_for("2,000")
    shown = terminal.getvalue()
    assert shown.endswith("\r\x1b[K")
    assert max(len(line.partition("\x1b")[0]) for line in shown.split("\r")) < 80


def test_a_short_command_or_a_file_gets_no_progress(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Progress is not shown for a short command, nor if standard error is a file."""
    terminal, file = Terminal(), io.StringIO()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(output, "_PATIENCE", 60.0)
    with Progress().shown():
        pass
    monkeypatch.setattr(sys, "stderr", file)
    monkeypatch.setattr(output, "_PATIENCE", 0.0)
    progress = Progress()
    with progress.shown():
        progress.say("1 URL judged")
        progress.clear()
    assert terminal.getvalue() == file.getvalue() == ""
