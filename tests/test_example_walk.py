"""The example project's README shows what its commands print, run as they are written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.example import PROJECT, copy_project, environment, without_time

if TYPE_CHECKING:
    from pathlib import Path

README = (PROJECT / "README.md").read_text()
BLOCKS = re.findall(r"```console\n(.*?)```", README, re.DOTALL)
COMMANDS = re.findall(
    r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", "".join(BLOCKS), flags=re.MULTILINE
)


@pytest.fixture
def scrapy(tmp_path: Path) -> Path:
    """A folder with the program of that name, as an installation has it."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "scrapy"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m scrapy "$@"\n')
    program.chmod(0o755)
    return folder


def run(command: str, project: Path, scrapy: Path) -> str:
    """What a terminal shows, but for the log of a crawl."""
    path = os.pathsep.join([str(scrapy), os.environ["PATH"]])
    is_crawl = command.startswith("scrapy crawl ")
    done = subprocess.run(
        command,
        shell=True,
        cwd=project,
        env={**environment(), "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL if is_crawl else subprocess.STDOUT,
        check=False,
        text=True,
        timeout=60,
    )
    assert done.returncode in {0, 1}, done.stdout
    return done.stdout


def test_walk(tmp_path: Path, scrapy: Path) -> None:
    """One command after the other, each finds what the README says, to the letter; and
    each subcommand is among them.
    """
    project = copy_project(tmp_path)
    for command, shown in COMMANDS:
        printed = run(command, project, scrapy)
        assert without_time(printed).rstrip() == without_time(shown).rstrip(), command
    named = {command.split()[2] for command, _ in COMMANDS if " rep " in command}
    assert named == {"check", "lint", "page", "diff", "replay", "report"}
    report = (project / "robots-report.html").read_text()
    for said in (
        "were forbidden at that time",
        "Hosts",
        "robots.txt files, as they were",
    ):
        assert said in report
    assert "stayed away" in report
