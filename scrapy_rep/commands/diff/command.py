"""Shows what changed between two robots.txt files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy.exceptions import UsageError

from scrapy_rep.commands.diff.changes import (
    GroupChange,
    Said,
    group_changes,
    sample_paths,
)
from scrapy_rep.commands.shared.exit_status import CLEAN, FOUND, WRONG_USAGE
from scrapy_rep.commands.shared.output import (
    BOLD,
    GREEN,
    RED,
    YELLOW,
    Output,
    Painted,
    complain,
)
from scrapy_rep.commands.shared.past_crawls import origin_count, urls_of
from scrapy_rep.commands.shared.profile import Profile, profile_of
from scrapy_rep.commands.shared.robotstxt import (
    LoadedRobotsTxt,
    access_record,
    decision_record,
    describe_access,
)
from scrapy_rep.commands.shared.robotstxt_files import GivenFile, given_files
from scrapy_rep.commands.shared.urls import (
    asked_argument,
    asked_url,
    line_batches,
    opened,
)
from scrapy_rep.commands.shared.usage import in_words, robotstxt_usage, usage_change
from scrapy_rep.commands.shared.verdicts import verdict, why
from scrapy_rep.protocol.robots import RobotsTxt
from scrapy_rep.protocol.robotstxt.lines import lines
from scrapy_rep.protocol.usage.robotstxt import usage_groups

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Iterator

    from scrapy.settings import Settings

    from scrapy_rep.protocol.dialect import Dialect
    from scrapy_rep.protocol.origins import Origin

_SQLITE = b"SQLite format 3\0"


def diff(arguments: Namespace, settings: Settings) -> int:
    profile = profile_of(arguments, settings)
    if [arguments.old, arguments.new, arguments.urls].count("-") > 1:
        raise UsageError("- stands for all of standard input, and can be given once")
    given = arguments.origin and asked_argument(arguments.origin).origin
    if profile.note:
        complain(profile.note)
    old, new = map(_checked, given_files([arguments.old, arguments.new], profile))
    origin = given or new.origin or old.origin
    _check_urls(arguments.urls, origin)
    differences = Differences(
        _loaded(old, profile.dialect),
        _loaded(new, profile.dialect),
        profile,
        Output.of(arguments),
    )
    differences.show_rules()
    differences.show_verdicts(_urls(arguments.urls, differences, origin))
    return differences.end()


def _checked(file: GivenFile | UsageError) -> GivenFile:
    if isinstance(file, UsageError):
        raise file
    return file


def _loaded(file: GivenFile, dialect: Dialect) -> LoadedRobotsTxt:
    if file.result is not None:
        return LoadedRobotsTxt.of_result(file.result, dialect)
    return LoadedRobotsTxt(RobotsTxt.parse(file.octets, dialect), file.where)


def _urls(
    source: str | None, differences: Differences, origin: Origin | None
) -> Iterator[str]:
    """The URLs whose verdicts are to be compared."""
    if source is None:
        start = "" if origin is None else str(origin)
        for path in differences.sample_paths():
            yield start + path
    elif _is_ledger(source):
        yield from urls_of(source, origin and str(origin))
    else:
        yield from _listed(source, differences, origin)


def _listed(
    path: str, differences: Differences, origin: Origin | None
) -> Iterator[str]:
    with opened(path) as file:
        for batch in line_batches(file):
            for number, text in batch:
                asked = asked_url(text)
                if asked is not None:
                    if origin is None or asked.origin == origin:
                        yield asked.url
                elif text.startswith("/"):
                    yield text
                else:
                    differences.is_wrong = True
                    complain(f"{path}, line {number}: {text[:200]!r} is not a URL")


def _check_urls(source: str | None, origin: Origin | None) -> None:
    """Raise UsageError, before anything is shown, for a list that can't be read, and for a
    ledger with URLs of several hosts where none is chosen.
    """
    if source is None or not _is_ledger(source):
        return
    if origin is None and origin_count(source) > 1:
        raise UsageError(
            f"{source} has URLs of several hosts; choose one with --origin"
        )


def _is_ledger(path: str) -> bool:
    if path == "-":
        return False
    with opened(path) as file:
        return file.read(len(_SQLITE)) == _SQLITE


class Differences:
    """Shows the differences of two robots.txt files, as they are found."""

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
        self.is_wrong = False

    def sample_paths(self) -> Iterable[str]:
        return sample_paths(self._old.robots, self._new.robots)

    def show_rules(self) -> None:
        """Show the rules and records that were added, removed or moved."""
        for loaded in (self._old, self._new):
            if loaded.result is not None:
                self._show_access(loaded)
        changes, is_all = group_changes(self._old.robots, self._new.robots)
        for change in changes:
            self._has_changed = True
            if self._output.as_json:
                self._output.record(_group_record(change))
            else:
                _show_group(self._output, change)
        if not is_all:
            self._has_changed = True
            complain(
                "the files have too many groups to compare; not all changes are shown"
            )
        before, after = self._old.robots.sitemaps, self._new.robots.sitemaps
        self._show_sitemaps("removed", set(before) - set(after))
        self._show_sitemaps("added", set(after) - set(before))
        said, says = _said_to_all(self._old.robots), _said_to_all(self._new.robots)
        self._show_records("removed", said - says)
        self._show_records("added", says - said)

    def _show_access(self, loaded: LoadedRobotsTxt) -> None:
        if not self._output.as_json:
            self._output.line(loaded.where, ": ", describe_access(loaded))

    def _show_sitemaps(self, change: str, urls: set[str]) -> None:
        for url in sorted(urls):
            self._has_changed = True
            if self._output.as_json:
                self._output.record({"kind": "sitemap", "change": change, "url": url})
            else:
                _show_line(self._output, change, f"Sitemap: {url}")

    def _show_records(self, change: str, records: set[tuple[str, str]]) -> None:
        """Show records about use that stand before any group."""
        for field, value in sorted(records):
            self._has_changed = True
            if self._output.as_json:
                record = {"kind": "record", "change": change, "field": field}
                self._output.record({**record, "value": value})
            else:
                _show_line(self._output, change, f"{field.title()}: {value}")

    def _show_usage(self, url: str) -> None:
        old = robotstxt_usage(self._old.robots, url, self._profile)
        new = robotstxt_usage(self._new.robots, url, self._profile)
        change = usage_change(old, new, self._profile)
        if change is None:
            return
        self._usage_changed += 1
        if self._output.as_json:
            self._output.record({"kind": "usage", "url": url, **change})
        else:
            painted = Painted("use changes", YELLOW)
            self._output.row(painted, url, in_words(change, old, new))

    def show_verdicts(self, urls: Iterable[str]) -> None:
        """Show the URLs that one of the files allows and the other denies."""
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
                painted = Painted(word, verdict(new).colour)
                reasons = f"was {why(old)}; is {why(new)}"
                self._output.row(painted, url, reasons)

    def end(self) -> int:
        """Show a summary. Return the exit status."""
        if self._output.as_json:
            record = {
                "kind": "summary",
                "old": self._old.where,
                "new": self._new.where,
                "old_access": access_record(self._old),
                "new_access": access_record(self._new),
                "agents": list(self._profile.agents),
                "dialect": self._new.dialect.name,
                "urls": self._compared,
                "verdicts_changed": self._changed,
                "usage_changed": self._usage_changed,
                "changed": self._has_changed or self._changed > 0,
            }
            self._output.record(record)
        elif not self._has_changed and not self._changed:
            self._output.line(Painted("Nothing changed.", GREEN))
        else:
            whom = ", ".join(self._profile.agents)
            self._output.line(
                f"{self._changed} of {self._compared} URLs change their verdict for ",
                "everyone" if whom == "*" else whom,
            )
            if self._usage_changed:
                count = f"{self._usage_changed} of {self._compared}"
                self._output.line(f"{count} URLs may be used for other purposes.")
        if self.is_wrong:
            return WRONG_USAGE
        return FOUND if self._has_changed or self._changed else CLEAN


def _said_to_all(robots: RobotsTxt) -> set[tuple[str, str]]:
    groups = usage_groups(lines(robots.body, robots.dialect), robots.dialect)
    return {
        (line.field, line.value.decode("utf-8", "replace")) for line in groups.for_all
    }


def _group_record(change: GroupChange) -> dict[str, Any]:
    return {
        "kind": "group",
        "change": _kind(change),
        "agents": list(change.agents),
        "added": [said._asdict() for said in change.added],
        "removed": [said._asdict() for said in change.removed],
        "moved": [said._asdict() for said in change.moved],
    }


def _kind(change: GroupChange) -> str:
    if change.was_there and change.is_there:
        return "changed"
    return "added" if change.is_there else "removed"


def _show_group(output: Output, change: GroupChange) -> None:
    more = len(change.agents) - 5
    whom = ", ".join(change.agents[:5]) + (f" and {more} more" if more > 0 else "")
    output.line(Painted(f"User-agent: {whom}", BOLD), f"   (group {_kind(change)})")
    for kind in ("removed", "added", "moved"):
        said: Said
        for said in getattr(change, kind):
            text = f"{said.field.capitalize()}: {said.value}"
            _show_line(output, kind, text, said.line)


def _show_line(output: Output, change: str, text: str, line: int = 0) -> None:
    sign, colour = {
        "removed": ("-", RED),
        "added": ("+", GREEN),
        "moved": ("~", YELLOW),
    }[change]
    place = f"   (line {line})" if line else ""
    output.line(Painted(f"  {sign} {text[:300]}", colour), place)
