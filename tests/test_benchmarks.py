"""The command that runs all benchmarks."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from benchmarks import __main__ as benchmarks
from benchmarks import crawls, jobs

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.newest, pytest.mark.unmeasured]


def test_a_measure_prints_a_table_with_the_peers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A measure of some files prints a table with this package and its peers."""
    (tmp_path / "example.txt").write_bytes(b"User-agent: *\nDisallow: /a\n")
    command = ["benchmarks", "--corpus", str(tmp_path), "--only", "memory"]
    monkeypatch.setattr(sys, "argv", command)
    benchmarks.main()
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines()[-3:]]
    assert [row[0] for row in rows] == ["| memory kept for a host"] * 3
    assert rows[0][1] == "scrapy-rep"
    assert rows[1][1].startswith("protego")


@pytest.mark.parametrize("side", jobs.WHO)
def test_each_scheduler_hands_out_all_requests_of_a_jobdir(
    side: str, tmp_path: Path
) -> None:
    """The scheduler of each side takes requests of many hosts to a JOBDIR, and hands all of them out."""
    bench = jobs.Bench(side, str(tmp_path))
    numbers = jobs.times(bench, hosts=10, number=200, pops=200)
    assert len(bench.scheduler) == 0
    assert all(seconds > 0 for seconds in numbers.values())
    kind = "scrapy_rep" if side == "ours" else "scrapy.core"
    assert type(bench.scheduler).__module__.startswith(kind)


CALLS = {"request": 93, "host": 250}
"""How many calls of functions of this package a request costs, and a host (248 to 252, by the load of
the machine), with those that make objects."""


@pytest.mark.slow
def test_a_request_and_a_host_cost_the_calls_that_are_written_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a request and a host cost is what is written here, within 5 %: whoever adds to the way of
    a request sees it.
    """
    monkeypatch.setattr(crawls, "FEW_HOSTS", (5, 50))
    monkeypatch.setattr(crawls, "MANY_HOSTS", (100, 2))
    calls_for = {what: calls["ours"] for what, calls in crawls.counted("ours").items()}
    assert calls_for == pytest.approx(CALLS, rel=0.05)
