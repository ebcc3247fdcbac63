"""Tests that docs/commands.md agrees with the commands."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from scrapy_rep.tools.command import SUBCOMMANDS
from tests.tools.rep import ROBOTS, ROOT, SCHEMAS, Rep

PAGE = (ROOT / "docs" / "commands.md").read_text()
EXAMPLE_FILES = dict(
    re.findall(r"<!-- file: (\S+) -->\n```\n(.*?)```", PAGE, re.DOTALL)
)
EXAMPLE_RUNS = re.findall(
    r"<!-- run -->\n```console\n\$ scrapy rep (.*?)\n(.*?)```", PAGE, re.DOTALL
)


@pytest.mark.parametrize(
    ("command", "output"), EXAMPLE_RUNS, ids=[run[0] for run in EXAMPLE_RUNS]
)
def test_each_example_shows_the_real_output(
    rep: Rep, command: str, output: str
) -> None:
    """Each example shows exactly what its command prints."""
    for name, text in EXAMPLE_FILES.items():
        Path(name).write_text(text)
    assert EXAMPLE_FILES["robots.txt"] == ROBOTS
    assert rep(*shlex.split(command)).out == output


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_each_subcommand_has_a_section(name: str) -> None:
    """The section also links to the schema of the subcommand, if there is one."""
    section = PAGE.split(f"\n## {name}: ")[1].split("\n## ")[0]
    assert f"scrapy rep {name} " in section
    if (SCHEMAS / f"{name}.json").exists():
        assert f"(schemas/{name}.json)" in section


def test_each_schema_belongs_to_a_subcommand() -> None:
    """The README must also link to the page of the commands."""
    assert {path.stem for path in SCHEMAS.glob("*.json")} <= set(SUBCOMMANDS)
    assert "(docs/commands.md)" in (ROOT / "README.md").read_text()
