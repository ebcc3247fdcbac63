"""The commands in the README of the example project print what the README shows."""

from __future__ import annotations

import re
import shlex
import subprocess
import tempfile
from typing import TYPE_CHECKING

import pytest

from tests import forks
from tests.example import PROJECT, copy_project, environment, without_time

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.newest, pytest.mark.unmeasured]

README = (PROJECT / "README.md").read_text()
BLOCKS = re.findall(r"```console\n(.*?)```", README, re.DOTALL)
COMMANDS = re.findall(
    r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", "".join(BLOCKS), flags=re.MULTILINE
)


def run(command: str, project: Path) -> str:
    """Return the output of *command*, without the log of a crawl."""
    is_crawl = command.startswith("scrapy crawl ")
    errors = subprocess.DEVNULL if is_crawl else subprocess.STDOUT
    with tempfile.TemporaryFile("w+", encoding="utf-8") as shown:
        if command.startswith("scrapy "):
            arguments = shlex.split(command)
            code = forks.start(
                arguments, stdout=shown, stderr=errors, cwd=project, env=environment()
            ).wait(120)
        else:
            code = subprocess.run(
                command,
                shell=True,
                cwd=project,
                stdout=shown,
                stderr=errors,
                check=False,
            ).returncode
        shown.seek(0)
        printed = shown.read()
    assert code in {0, 1}, printed
    return printed


def test_walk(tmp_path: Path) -> None:
    """Run one after the other, all commands print what the README shows, and each
    subcommand is among them.
    """
    project = copy_project(tmp_path)
    for command, shown in COMMANDS:
        printed = run(command, project)
        assert without_time(printed).rstrip() == without_time(shown).rstrip(), command
    named = {command.split()[2] for command, _ in COMMANDS if " rep " in command}
    assert named == {"check", "lint", "page", "diff", "replay", "report"}
    report = (project / "robots-report.html").read_text()
    for said in (
        "pages fetched were forbidden",
        "Hosts treated as having no robots.txt",
        "Hosts",
        "robots.txt files at the time of the crawls",
    ):
        assert said in report
    assert "no answer later" in report
