"""``scrapy rep diff``: what changed between two robots.txt files."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

from scrapy.exceptions import UsageError

from scrapy_rep.commands.changes import group_changes, records_for_all, sample_paths
from scrapy_rep.commands.shared.exit_status import CLEAN, FOUND, WRONG_USAGE
from scrapy_rep.commands.shared.output import Output, Painted, notify
from scrapy_rep.commands.shared.past_crawls import origin_count, urls_of
from scrapy_rep.commands.shared.profile import Profile, profile_of
from scrapy_rep.commands.shared.robotstxt import (
    LoadedRobotsTxt,
    access_record,
    decision_record,
    describe_access,
)
from scrapy_rep.commands.shared.sources import given_files
from scrapy_rep.commands.shared.urls import (
    line_batches,
    opened,
    parse_argument,
    parse_url,
)
from scrapy_rep.commands.shared.usage import usage_change
from scrapy_rep.commands.shared.verdicts import verdict, why
from scrapy_rep.protocol.origins import Origin, origin_of

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Iterator

    from scrapy.settings import Settings

    from scrapy_rep.commands.changes import GroupChange
    from scrapy_rep.commands.shared.output import Style

_T = TypeVar("_T", str, tuple[str, str])

_STYLES: dict[str, tuple[str, Style]] = {
    "removed": ("-", "red"),
    "added": ("+", "green"),
    "moved": ("~", "yellow"),
}

_SQLITE = b"SQLite format 3\0"


def run(arguments: Namespace, settings: Settings) -> int:
    profile = profile_of(arguments, settings)
    if [arguments.old, arguments.new, arguments.urls].count("-") > 1:
        raise UsageError("- reads all of standard input: give it only once")
    given = arguments.origin and parse_argument(arguments.origin).origin
    if profile.note:
        notify(profile.note)
    old, new = map(_checked, given_files([arguments.old, arguments.new], profile))
    origin = given or _origin(new) or _origin(old)
    source = arguments.urls
    # Opened here, so that an unreadable list is reported before any output.
    is_ledger = source is not None and _is_ledger(source)
    if is_ledger and origin is None and origin_count(source) > 1:
        raise UsageError(
            f"{source} has URLs of several hosts; choose one with --origin"
        )
    differences = Differences(old, new, profile, Output(arguments))
    differences.show_rules()
    if source is None:
        start = "" if origin is None else str(origin)
        paths = sample_paths(old.robots, new.robots)
        differences.show_verdicts(start + path for path in paths)
    elif is_ledger:
        differences.show_verdicts(urls_of(source, origin and str(origin)))
    else:
        differences.show_verdicts(differences.listed(source, origin))
    return differences.end()


def _checked(file: LoadedRobotsTxt | UsageError) -> LoadedRobotsTxt:
    if isinstance(file, UsageError):
        raise file
    return file


def _origin(file: LoadedRobotsTxt) -> Origin | None:
    return None if file.result is None else origin_of(file.result.url)


def _is_ledger(path: str) -> bool:
    if path == "-":
        return False
    with opened(path) as file:
        return file.read(len(_SQLITE)) == _SQLITE


class Differences:
    """Shows the differences between two robots.txt files as it finds them."""

    def __init__(
        self,
        old: LoadedRobotsTxt,
        new: LoadedRobotsTxt,
        profile: Profile,
        output: Output,
    ) -> None:
        self._old = old
        self._new = new
        self._profile = profile
        self._output = output
        self._has_changed = False
        self._compared = 0
        self._changed = 0
        self._usage_changed = 0
        self._is_wrong = False

    def show_rules(self) -> None:
        """Show the rules and records that were added, removed or moved."""
        old, new = self._old.robots, self._new.robots
        for loaded in (self._old, self._new):
            if loaded.result is not None and not self._output.as_json:
                self._output.line(loaded.where, ": ", describe_access(loaded))
        changes, is_all = group_changes(old, new)
        for each in changes:
            self._has_changed = True
            if self._output.as_json:
                self._output.record(_group_record(each))
            else:
                _show_group(self._output, each)
        if not is_all:
            self._has_changed = True
            notify(
                "the files have too many groups to compare; not all changes are shown"
            )
        for change, url in _removed_and_added(set(old.sitemaps), set(new.sitemaps)):
            self._show_change("sitemap", change, f"Sitemap: {url}", {"url": url})
        records = _removed_and_added(records_for_all(old), records_for_all(new))
        for change, (field, value) in records:
            record = {"field": field, "value": value}
            self._show_change("record", change, f"{field.title()}: {value}", record)

    def _show_change(
        self, kind: str, change: str, text: str, record: dict[str, str]
    ) -> None:
        self._has_changed = True
        if self._output.as_json:
            self._output.record({"kind": kind, "change": change, **record})
        else:
            _show_line(self._output, change, text)

    def listed(self, path: str, origin: Origin | None) -> Iterator[str]:
        """Yield the URLs and paths in a list; report other lines on standard error."""
        with opened(path) as file:
            for number, text in chain.from_iterable(line_batches(file)):
                parsed = parse_url(text)
                if parsed is not None:
                    if origin is None or parsed.origin == origin:
                        yield parsed.url
                elif text.startswith("/"):
                    yield text
                else:
                    self._is_wrong = True
                    notify(f"{path}, line {number}: {text[:200]!r} is not a URL")

    def show_verdicts(self, urls: Iterable[str]) -> None:
        """Show the URLs that only one file allows, and those whose use changes."""
        for url in urls:
            self._compared += 1
            old = self._profile.decide(self._old.robots, url)
            new = self._profile.decide(self._new.robots, url)
            if old.allowed == new.allowed:
                self._show_usage(url)
                continue
            self._changed += 1
            if self._output.as_json:
                record = {
                    "kind": "verdict",
                    "url": url,
                    "old": decision_record(old),
                    "new": decision_record(new),
                }
                self._output.record(record)
            else:
                word = "now allowed" if new.allowed else "now denied"
                painted = Painted(word, verdict(new).style)
                reasons = f"was: {why(old)}; now: {why(new)}"
                self._output.row(painted, url, reasons)

    def _show_usage(self, url: str) -> None:
        change = usage_change(self._old.robots, self._new.robots, url, self._profile)
        if change is None:
            return
        record, words = change
        self._usage_changed += 1
        if self._output.as_json:
            self._output.record({"kind": "usage", "url": url, **record})
        else:
            self._output.row(Painted("use changes", "yellow"), url, words)

    def end(self) -> int:
        """Show a summary. Return the exit status."""
        if self._output.as_json:
            record = {
                "kind": "summary",
                "old": self._old.where,
                "new": self._new.where,
                "old_access": access_record(self._old),
                "new_access": access_record(self._new),
                **self._profile.record,
                "dialect": self._new.dialect.name,
                "urls": self._compared,
                "verdicts_changed": self._changed,
                "usage_changed": self._usage_changed,
                "changed": self._has_changed or self._changed > 0,
            }
            self._output.record(record)
        elif not self._has_changed and not self._changed:
            self._output.line(Painted("Nothing changed.", "green"))
        else:
            whom = ", ".join(self._profile.agents)
            self._output.line(
                f"{self._changed} of {self._compared} URLs change their verdict for ",
                "everyone" if whom == "*" else whom,
            )
            if self._usage_changed:
                count = f"{self._usage_changed} of {self._compared}"
                self._output.line(f"{count} URLs change their permitted purposes.")
        if self._is_wrong:
            return WRONG_USAGE
        return FOUND if self._has_changed or self._changed else CLEAN


def _removed_and_added(before: set[_T], after: set[_T]) -> Iterator[tuple[str, _T]]:
    for each in sorted(before - after):
        yield "removed", each
    for each in sorted(after - before):
        yield "added", each


def _group_record(change: GroupChange) -> dict[str, Any]:
    return {
        "kind": "group",
        "change": change.kind,
        "agents": list(change.agents),
        "added": [each._asdict() for each in change.added],
        "removed": [each._asdict() for each in change.removed],
        "moved": [each._asdict() for each in change.moved],
    }


def _show_group(output: Output, change: GroupChange) -> None:
    more = len(change.agents) - 5
    whom = ", ".join(change.agents[:5]) + (f" and {more} more" if more > 0 else "")
    output.line(Painted(f"User-agent: {whom}", "bold"), f"   (group {change.kind})")
    parts = (
        ("removed", change.removed),
        ("added", change.added),
        ("moved", change.moved),
    )
    for kind, records in parts:
        for field, value, line in records:
            _show_line(output, kind, f"{field.capitalize()}: {value}", line)


def _show_line(output: Output, change: str, text: str, line: int = 0) -> None:
    sign, style = _STYLES[change]
    place = f"   (line {line})" if line else ""
    output.line(Painted(f"  {sign} {text[:300]}", style), place)
