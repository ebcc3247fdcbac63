"""The one command that times everything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks import broad, crawl, waiting
from benchmarks.table import Row, Table, Target
from tests import forks

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[1]


pytestmark = pytest.mark.newest


@pytest.fixture(autouse=True)
def compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is compiled anew here, where nobody looks at the times."""
    for module in (broad, crawl, waiting):
        of_module = module.environment

        def environment(folder: str, *, given: Callable = of_module) -> dict[str, str]:
            return given(folder) | {"PYTHONPYCACHEPREFIX": ""}

        monkeypatch.setattr(module, "environment", environment)


@pytest.mark.parametrize(
    ("row", "is_met"),
    [
        (Row("a", "us", 1.0), None),
        (Row("a", "us", 1.0, ratio=6.0, target=Target(6)), True),
        (Row("a", "us", 1.0, ratio=5.9, target=Target(6)), False),
        (Row("a", "us", 0.4, ratio=2.3, target=Target(None, 2.2, 0.5)), False),
        (Row("a", "us", 0.6, ratio=2.1, target=Target(None, 2.2, 0.5)), False),
        (Row("a", "us", 0.4, ratio=2.1, target=Target(None, 2.2, 0.5)), True),
        (Row("a", "us", 0.4, target=Target(most=0.5)), True),
    ],
)
def test_targets(row: Row, is_met: bool | None) -> None:
    """A target is met where all its limits hold."""
    assert row.is_met is is_met
    word = {True: "yes", False: "NO", None: ""}[is_met]
    assert Table(None).line(row).endswith(f"| {word} |")


def test_compared_with_an_earlier_run(tmp_path: Path) -> None:
    """What one run writes, another shows its own beside; new rows have nothing there."""
    command = ["benchmarks", "--only", "headers", "--rounds", "1"]
    file = tmp_path / "run.json"
    done = forks.run([*command, "--json", str(file)], cwd=ROOT)
    assert done.returncode == 0, done.stderr
    found = json.loads(file.read_text())
    first, _, third = found["rows"]
    first["number"] *= 1_000_000
    third["who"] = "somebody else"
    file.write_text(json.dumps(found))
    done = forks.run([*command, "--compare", str(file)], cwd=ROOT)
    assert done.returncode == 0, done.stderr
    *_, head, _, changed, _, new = done.stdout.decode().splitlines()
    assert head.endswith("| median since | ratio since |")
    assert changed.endswith("| -100.0% |  |")
    assert new.endswith("|  |  |")


def test_crawl(tmp_path: Path) -> None:
    """What is timed is a crawl that fetches every page, and each robots.txt once."""
    hosts = crawl.HOSTS
    with crawl.serving(hosts) as port:
        timed = crawl.Crawl(crawl.SUITE, port=port, pages=hosts, folder=str(tmp_path))
        timed.start()
        assert timed.seconds() > 0


@pytest.mark.parametrize("side", ["stock", "ours"])
def test_broad_crawl(side: str, tmp_path: Path) -> None:
    """What is timed is a crawl that ends with its last page."""
    crawl = broad._start(str(tmp_path), side, 5, 10)
    found = broad._result(crawl)
    assert found["push"] > 0
    assert found["page"] > 0


@pytest.mark.slow
def test_waiting_crawl(tmp_path: Path) -> None:
    """Hosts that never answer are asked in vain, while the others are crawled."""
    with waiting._serving() as port:
        found = waiting._result(waiting._start(str(tmp_path), "silent", "ours", port))
    assert found["seconds"] > 0
