"""Checks the usage records: Content-Usage, Content-Signal and License lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_rep.protocol.lint.fields import nearest
from scrapy_rep.protocol.lint.findings import quoted
from scrapy_rep.protocol.robotstxt import paths
from scrapy_rep.protocol.usage.robotstxt import (
    FIELDS,
    expression_of,
    statements_of,
    usage_groups,
)
from scrapy_rep.protocol.usage.statements import split_path
from scrapy_rep.protocol.usage.vocabulary import (
    ROWS,
    Signal,
    labels_of,
    row_of,
    values_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy_rep.protocol.lint.findings import LintedFile
    from scrapy_rep.protocol.robotstxt.lines import Line

# The number and length of unknown labels that are compared with the known ones.
_MAX_NAMES = 300
_MAX_LENGTH = 20

# The octets of usage records that are checked. Real files have far fewer.
_MAX_CHECKED = 50_000


def check_usage(file: LintedFile) -> None:
    """Check each usage record, and find records that contradict each other."""
    records = [line for line in file.lines if line.field in FIELDS]
    if not records:
        return
    check = _UsageCheck(file)
    for_all, groups = usage_groups(file.lines, file.dialect)
    in_groups = {line.number for _, each in groups for line in each}
    in_groups |= {line.number for line in for_all}
    for line in records:
        check.check(line)
        if line.number not in in_groups and line.field == "content-usage":
            message = "the line is in no group, so crawlers ignore it: move it below a"
            file.add(line.number, "record-outside-group", f"{message} user-agent line")
    check.compare(for_all)
    together: dict[object, list[Line]] = {}
    for place, (names, each) in enumerate(groups):
        # Crawlers merge groups with the same names.
        key = frozenset(names) if file.dialect.merge_groups else place
        together.setdefault(key, []).extend(each)
    for each in together.values():
        check.compare(each)


class _UsageCheck:
    def __init__(self, file: LintedFile) -> None:
        self._dialect = file.dialect
        self._add = file.add
        self._names = 0
        self._octets = 0

    def check(self, line: Line) -> None:
        self._octets += len(line.value)
        if self._octets > _MAX_CHECKED:
            return
        if line.field == "license":
            if b"://" not in line.value:
                message = f"crawlers ignore {quoted(line.value)}: write an absolute URL"
                self._add(line.number, "bad-license", f"{message}, with https://")
            return
        first, _, rest = line.value.partition(b" ")
        is_label = b"=" in first or rest.lstrip().startswith((b"=", b","))
        if b"=" in rest and not is_label and not first.startswith(b"/"):
            message = f"crawlers do not read {quoted(first)} as a path: write"
            self._add(
                line.number, "preference-path", f"{message} {quoted(b'/' + first)}"
            )
            return
        signal, expression = expression_of(line)
        for code, message in expression.findings:
            self._add(line.number, code, f"{message}: {_how(signal)}")
        for label, value in expression.pairs:
            self._check_pair(line, signal, label, value)

    def _check_pair(
        self, line: Line, signal: Signal, label: str, value: str | None
    ) -> None:
        row = row_of(signal, label)
        shown = quoted(label.encode())
        if row is None:
            meant = self._meant(signal, label)
            remedy = f"write {meant}" if meant else _how(signal)
            message = f"crawlers ignore {shown}, not a label of {signal}: {remedy}"
            self._add(line.number, "unknown-label", message)
        elif label == "use":
            if value not in {"immediate", "reference", "full"}:
                message = "use must be immediate, reference or full, or crawlers ignore"
                message += " it: write one of these"
                self._add(line.number, "unknown-preference", message)
        elif value not in {row.allows, row.disallows}:
            meant = _value_meant(signal, value)
            remedy = f"write {label}={meant}" if meant else "write one of them"
            message = f"{label} must be {row.allows} or {row.disallows}, or crawlers"
            message += f" ignore it: {remedy}"
            self._add(line.number, "unknown-preference", message)

    def _meant(self, signal: Signal, label: str) -> str | None:
        """The label of *signal* that a misspelt label, or one of another signal, stands for."""
        for row in ROWS:
            if row.label == label and row.signal is not signal:
                for other in ROWS:
                    if other.signal is signal and other.categories == row.categories:
                        return other.label
        lowered = label.lower()
        if self._names >= _MAX_NAMES or len(lowered) > _MAX_LENGTH:
            return None
        self._names += 1
        return nearest(lowered, labels_of(signal)) if len(lowered) > 3 else None

    def compare(self, records: Iterable[Line]) -> None:
        """Find records for one path and one crawler that contradict each other."""
        said: dict[tuple[object, str], tuple[bool, Line]] = {}
        first_wins = self._dialect.rule_choice == "first"
        octets = 0
        for line in records:
            octets += len(line.value)
            if octets > _MAX_CHECKED:
                return
            path = split_path(line.value)[0].decode("latin-1")
            pattern = paths.pattern(path, self._dialect) if path else None
            for each in statements_of(line, None):
                if each.value is None:
                    continue
                key = pattern[:2] if pattern else path, each.category
                other, first = said.setdefault(key, (each.value, line))
                if other is not each.value:
                    is_first = first_wins and first.field == line.field
                    followed = "first line" if is_first else "line that forbids"
                    message = (
                        f"line {first.number} says the opposite about {each.category} for the "
                        f"same path, and crawlers follow the {followed}: delete one of them"
                    )
                    self._add(line.number, "contradicting-preferences", message)


def _how(signal: Signal) -> str:
    labels, values = ", ".join(labels_of(signal)), " or ".join(values_of(signal)[:2])
    return f"the labels are {labels}, the values {values}"


def _value_meant(signal: Signal, value: str | None) -> str | None:
    allows, disallows = values_of(signal)[:2]
    word = (value or "").lower()
    if word in {"y", "yes", "true", "1", "allow", "allowed"}:
        return allows
    if word in {"n", "no", "false", "0", "deny", "disallow", "disallowed", "none"}:
        return disallows
    return None
