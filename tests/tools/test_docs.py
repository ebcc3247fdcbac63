"""The documentation page of the commands agrees with the commands."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from scrapy_rep.tools.command import SUBCOMMANDS
from tests.tools.rep import ROBOTS, ROOT, SCHEMAS, Rep

PAGE = (ROOT / "docs" / "commands.md").read_text()
FILES = dict(re.findall(r"<!-- file: (\S+) -->\n```\n(.*?)```", PAGE, re.DOTALL))
RUNS = re.findall(
    r"<!-- run -->\n```console\n\$ scrapy rep (.*?)\n(.*?)```", PAGE, re.DOTALL
)


@pytest.mark.parametrize(("command", "shown"), RUNS, ids=[run[0] for run in RUNS])
def test_each_example_shows_the_real_output(rep: Rep, command: str, shown: str) -> None:
    """Each example shows the real output of its command."""
    for name, text in FILES.items():
        Path(name).write_text(text)
    assert FILES["robots.txt"] == ROBOTS
    assert rep(*shlex.split(command)).out == shown


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_each_subcommand_has_a_section(name: str) -> None:
    """Each subcommand has a section, which names its schema if it has one."""
    section = PAGE.split(f"\n## {name}: ")[1].split("\n## ")[0]
    assert f"scrapy rep {name} " in section
    if (SCHEMAS / f"{name}.json").exists():
        assert f"(schemas/{name}.json)" in section


def test_each_schema_belongs_to_a_subcommand() -> None:
    """Each schema belongs to a subcommand, and the README links to the page."""
    assert {path.stem for path in SCHEMAS.glob("*.json")} <= set(SUBCOMMANDS)
    assert "(docs/commands.md)" in (ROOT / "README.md").read_text()
