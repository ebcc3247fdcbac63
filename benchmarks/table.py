"""The rows of the table, and the parsers that do one task in turns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.peers import OURS, PEERS, PROTEGO
from benchmarks.timing import Times, interleaved

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.peers import Parser


class Target(NamedTuple):
    """The target of a row."""

    least_ratio: float | None = None
    most_ratio: float | None = None

    most: float | None = None
    """Seconds."""

    def __str__(self) -> str:
        return ", ".join(
            f"{sign} {limit:g}{unit}"
            for sign, limit, unit in (
                (">=", self.least_ratio, ""),
                ("<=", self.most_ratio, ""),
                ("<=", self.most, " s"),
            )
            if limit is not None
        )


class Row(NamedTuple):
    what: str
    who: str

    number: float
    """Seconds, bytes, or times a second."""

    spread: float | None = None
    """Half of the interquartile range, as a fraction of the median."""

    ratio: float | None = None
    """How many times as much this parser needs as ours; in rows on crawls, a crawl as one
    without the package."""

    target: Target | None = None
    unit: str = "s"

    @property
    def is_met(self) -> bool | None:
        """True if the target is reached; None without a target."""
        if self.target is None:
            return None
        least_ratio, most_ratio, most = self.target
        ratio = self.ratio or 0.0
        return (
            (least_ratio is None or ratio >= least_ratio)
            and (most_ratio is None or ratio <= most_ratio)
            and (most is None or self.number <= most)
        )

    @property
    def value(self) -> str:
        if self.unit == "B":
            return f"{self.number / 1000:.2f} kB"
        if self.unit == "/s":
            return f"{self.number:,.0f} a second"
        for unit, size in (("s", 1.0), ("ms", 1e-3)):
            if self.number >= size:
                return f"{self.number / size:.2f} {unit}"
        return f"{self.number * 1e6:.2f} us"

    def to_dict(self) -> dict[str, Any]:
        target = None if self.target is None else str(self.target)
        return {**self._asdict(), "target": target, "is_met": self.is_met}


HEAD = """\
| what | who | median | spread | ratio | target | met |
|---|---|---:|---:|---:|---|---|"""


def line(row: Row) -> str:
    """Return *row* as a line of the table."""
    cells = [
        row.what,
        row.who,
        row.value,
        "" if row.spread is None else f"± {row.spread:.1%}",
        "" if row.ratio is None else _ratio(row.ratio),
        str(row.target or ""),
        {True: "yes", False: "NO", None: ""}[row.is_met],
    ]
    return f"| {' | '.join(cells)} |"


def _ratio(number: float) -> str:
    digits = 3 if number < 2 else 2 if number < 100 else 0
    return f"{number:,.{digits}f}"


def timed(what: str, parser: Parser, times: Times, count: int = 1) -> Row:
    """Return a row for *times*, each of which is for *count* questions."""
    return Row(what, parser.label, times.median / count, times.spread)


class Task(NamedTuple):
    """A task with files; ``do`` is called for each parser and its files."""

    what: str
    do: Callable[[Parser, list[bytes]], None]

    target: Target | None = None
    rivals: tuple[Parser, ...] = (PROTEGO,)
    """The parsers that the target applies to."""

    questions: int = 1
    """For each file."""


def compare(task: Task, files: list[bytes], rounds: int) -> Iterator[Row]:
    """Time all parsers at one task; ours also with each sample of the files."""
    by_size = sorted(files, key=len, reverse=True)
    samples = {peer.one_in: by_size[:: peer.one_in] for peer in (OURS, *PEERS)}
    tasks: dict[Any, Callable[[], None]] = {}
    for one_in, sample in samples.items():
        tasks[one_in] = lambda sample=sample: task.do(OURS, sample)
    for peer in PEERS:
        tasks[peer] = lambda peer=peer: task.do(peer, samples[peer.one_in])
    times = interleaved(tasks, rounds)
    yield timed(task.what, OURS, times[1], len(files) * task.questions)
    for peer in PEERS:
        count = len(samples[peer.one_in]) * task.questions
        row = timed(task.what, peer, times[peer], count)
        row = row._replace(ratio=times[peer.one_in].ratio(times[peer]))
        if peer.one_in > 1:
            row = row._replace(who=f"{row.who}, 1 file in {peer.one_in}")
        yield row._replace(target=task.target) if peer in task.rivals else row
