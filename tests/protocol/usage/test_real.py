"""Usage statements of real sites, by source, from ``real.txt`` beside this file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.protocol.usage.asking import robots_usage, stated

if TYPE_CHECKING:
    from collections.abc import Iterator

REAL = Path(__file__).with_name("real.txt")


class Question(NamedTuple):
    agent: str
    path: str
    expected: tuple[str, ...]


class Site(NamedTuple):
    source: str
    questions: tuple[Question, ...]
    body: str


def _question(line: str) -> Question:
    asked, _, expected = line[2:].partition(" = ")
    agent, path = asked.split()
    return Question(agent, path, tuple(sorted(set(expected.split()) - {"-"})))


def _sites() -> Iterator[Site]:
    for block in REAL.read_text(encoding="utf-8").split("\n== ")[1:]:
        sources, *lines = block.splitlines()
        questions = tuple(_question(line) for line in lines if line.startswith("? "))
        body = "\n".join(line for line in lines if not line.startswith("? "))
        for source in sources.split(", "):
            yield Site(source, questions, body)


SITES = tuple(_sites())


@pytest.mark.parametrize("site", SITES, ids=[site.source for site in SITES])
def test_a_real_site(site: Site) -> None:
    for agent, path, expected in site.questions:
        usage = robots_usage(site.body, path, agent)
        said = [
            f"{name}={'y' if value else 'n'}" for name, value in stated(usage).items()
        ]
        said += [f"license={url}" for url in usage.licenses]
        assert tuple(sorted(said)) == expected, (agent, path)


def test_a_hundred_sites() -> None:
    assert len({site.source for site in SITES}) >= 100
    assert all(site.questions for site in SITES)
