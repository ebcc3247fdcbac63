"""Tests of the benchmarks: the command that runs them, and the number of function calls of a
request.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from benchmarks import __main__ as benchmarks
from benchmarks import crawls, jobs

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.newest, pytest.mark.unmeasured]


def test_a_benchmark_prints_a_table_with_this_package_and_its_peers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
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
    """The schedulers of this package and of Scrapy store the requests of many hosts in a JOBDIR,
    and return all of them.
    """
    bench = jobs.Bench(side, str(tmp_path))
    seconds_by_step = jobs.times(bench, hosts=10, number=200, pops=200)
    assert len(bench.scheduler) == 0
    assert all(seconds > 0 for seconds in seconds_by_step.values())
    kind = "scrapy_rep" if side == "ours" else "scrapy.core"
    assert type(bench.scheduler).__module__.startswith(kind)


CALLS = {"request": 93, "host": 250}
"""The number of calls of functions and classes of this package for a request, and for a host. The calls
for a host are 248 to 252, depending on the load of the machine."""


@pytest.mark.slow
def test_the_number_of_function_calls_of_a_request_and_a_host_has_not_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The number may differ from CALLS by 5 %. The test fails for a change that adds work to each
    request, so that its author notices.
    """
    monkeypatch.setattr(crawls, "FEW_HOSTS", (5, 50))
    monkeypatch.setattr(crawls, "MANY_HOSTS", (100, 2))
    calls_for = {
        subject: calls["ours"] for subject, calls in crawls.counted("ours").items()
    }
    assert calls_for == pytest.approx(CALLS, rel=0.05)
