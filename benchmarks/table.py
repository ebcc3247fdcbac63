"""The rows of the table, and the parsers set to one task in turns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.peers import OURS, PEERS
from benchmarks.timing import Times, interleaved

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.peers import Parser

HEAD = (
    "| what | parser | median | spread | ratio | target |\n"
    "|---|---|---:|---:|---:|---|"
)  # fmt: skip


class Row(NamedTuple):
    what: str
    parser: str

    number: float
    """Seconds, or bytes."""

    spread: float | None = None
    """Half of what lies between the quartiles, as a part of the median."""

    ratio: float | None = None
    """How many times as much that parser needs as ours; in rows on growth, how many times
    as much is needed for the larger input."""

    target: str = ""
    unit: str = "s"

    def __str__(self) -> str:
        spread = "" if self.spread is None else f"± {self.spread:.0%}"
        ratio = "" if self.ratio is None else f"{self.ratio:.2f}"
        cells = (self.what, self.parser, self.value, spread, ratio, self.target)
        return f"| {' | '.join(cells)} |"

    @property
    def value(self) -> str:
        if self.unit == "B":
            return f"{self.number / 1000:.2f} kB"
        for unit, size in (("s", 1.0), ("ms", 1e-3)):
            if self.number >= size:
                return f"{self.number / size:.2f} {unit}"
        return f"{self.number * 1e6:.2f} us"


def timed(what: str, parser: Parser, times: Times, count: int = 1) -> Row:
    """A row on *times*, each for so many questions."""
    return Row(what, parser.label, times.median / count, times.spread)


class Task(NamedTuple):
    """Something to do with files; ``do`` is called for each parser and its files."""

    what: str
    do: Callable[[Parser, list[bytes]], None]
    target: str = ""

    questions: int = 1
    """For each file."""

    peers: tuple[Parser, ...] = PEERS


def compare(task: Task, files: list[bytes], rounds: int) -> Iterator[Row]:
    """All parsers at the same task; ours with each sample of the files as well."""
    by_size = sorted(files, key=len, reverse=True)
    samples = {peer.one_in: by_size[:: peer.one_in] for peer in (OURS, *task.peers)}
    tasks: dict[Any, Callable[[], None]] = {}
    for one_in, sample in samples.items():
        tasks[one_in] = lambda sample=sample: task.do(OURS, sample)
    for peer in task.peers:
        tasks[peer] = lambda peer=peer: task.do(peer, samples[peer.one_in])
    times = interleaved(tasks, rounds)
    yield timed(task.what, OURS, times[1], len(files) * task.questions)
    for peer in task.peers:
        count = len(samples[peer.one_in]) * task.questions
        row = timed(task.what, peer, times[peer], count)
        row = row._replace(ratio=times[peer.one_in].ratio(times[peer]))
        if peer.one_in > 1:
            row = row._replace(parser=f"{row.parser}, 1 file in {peer.one_in}")
        yield row._replace(target=task.target) if peer is task.peers[0] else row
