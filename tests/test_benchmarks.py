"""The command that runs all benchmarks."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks import __main__ as benchmarks
from benchmarks import broad, crawl, indexing, queue_memory, queues, timing, waiting
from benchmarks.table import Row, Table, Target
from tests import forks
from tests.forks import popen
from tests.stores.redis_server import BINARY

ROOT = Path(__file__).parents[1]


pytestmark = [pytest.mark.newest, pytest.mark.unmeasured]


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork the processes of the benchmarks, since no test looks at the measured times."""
    for module in (broad, queues, waiting):
        monkeypatch.setattr(module, "subprocess", popen)
    of_crawl = crawl.environment
    monkeypatch.setattr(
        crawl,
        "environment",
        lambda folder: of_crawl(folder) | {"PYTHONPYCACHEPREFIX": ""},
    )


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
    """A target is met if all its limits hold."""
    assert row.is_met is is_met
    word = {True: "yes", False: "NO", None: ""}[is_met]
    assert Table(None).line(row).endswith(f"| {word} |")


def test_compared_with_an_earlier_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """``--compare`` shows the figures of an earlier run beside the new ones. Rows that the
    earlier run does not have stay empty.
    """
    monkeypatch.setattr(indexing, "RESPONSES", 10)
    # The process of the tests has many objects, so that a collection would take long.
    monkeypatch.setattr(timing, "gc", SimpleNamespace(collect=int))
    (corpus := tmp_path / "robots").mkdir()
    (corpus / "example.com.txt").write_bytes(b"User-agent: *\nDisallow: /a\n")
    command = ["benchmarks", "--corpus", str(tmp_path), "--only", "headers"]
    command += ["--rounds", "1"]
    file = tmp_path / "run.json"
    monkeypatch.setattr(sys, "argv", [*command, "--json", str(file)])
    assert benchmarks.main() == 0
    found = json.loads(file.read_text())
    first, _, third = found["rows"]
    first["number"] *= 1_000_000
    third["who"] = "somebody else"
    file.write_text(json.dumps(found))
    monkeypatch.setattr(sys, "argv", [*command, "--compare", str(file)])
    assert benchmarks.main() == 0
    *_, head, _, changed, _, new = capsys.readouterr().out.splitlines()
    assert head.endswith("| median since | ratio since |")
    assert changed.endswith("| -100.0% |  |")
    assert new.endswith("|  |  |")


def test_crawl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The timed crawl fetches every page, and each robots.txt once."""
    monkeypatch.setattr(crawl, "HOSTS", hosts := 10)
    with crawl.serving(hosts) as port:
        timed = crawl.Crawl(crawl.SUITE, port=port, pages=hosts, folder=str(tmp_path))
        timed.start()
        assert timed.seconds() > 0


@pytest.mark.parametrize("side", ["stock", "ours"])
def test_broad_crawl(side: str, tmp_path: Path) -> None:
    """The broad crawl ends, with times for its pushes and pages."""
    crawl = broad._start(str(tmp_path), side, 5, 10)
    found = broad._result(crawl)
    assert found["push"] > 0
    assert found["page"] > 0


@pytest.mark.slow
def test_waiting_crawl(tmp_path: Path) -> None:
    """The waiting crawl ends, with hosts that never answer beside hosts that do."""
    with waiting._serving() as port:
        case = "silent", "ours", port, "1"
        found = waiting._result(waiting._start(str(tmp_path), *case))
    assert found["seconds"] > 0


needs_redis = pytest.mark.skipif(
    BINARY is None, reason="There is no redis-server on the PATH"
)


@needs_redis
def test_queues() -> None:
    """One worker, and four at once, push to each queue and pop from it."""
    rows = list(queues.queues([], 1, hosts=(10, 20), each=5, fill=2_000))
    names = [row.what for row in rows if row.unit == "/s"]
    assert names == [
        f"{what}, {whose}{hosts}"
        for whose in ("one worker", "4 workers at once")
        for what in ("push", "pop")
        for hosts in ("", ", 10 hosts", ", 20 hosts")
    ]
    assert all(row.number > 0 for row in rows)
    assert sum(row.is_met is not None for row in rows) == 8


@needs_redis
@pytest.mark.parametrize("serializer", list(queue_memory.SERIALIZERS))
def test_queue_memory(serializer: str) -> None:
    """The measured memory of a queue is plausible: more than the serialized requests."""
    queue_memory.measure("PriorityQueue", serializer, 100, 10)
    found = queue_memory.measure("HostQueue", serializer, 300, 10)
    assert 300 < found.serialised < found.queue
    assert found.total > 300 * (found.queue + found.seen)


@pytest.mark.slow
def test_soak() -> None:
    """A small soak crawl requests nothing forbidden, and loses no page."""
    done = forks.run(["benchmarks.soak", "--pages", "300", "--hosts", "20"], cwd=ROOT)
    found = done.stdout[done.stdout.index(b"{") :]
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(found)["pages"] == 300
    assert json.loads(found)["breakdowns"] > 0
