"""Checks sitemap, Crawl-delay, Request-rate and Visit-time lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_rep.protocol.lint.findings import quoted
from scrapy_rep.protocol.robotstxt import pace
from scrapy_rep.protocol.robotstxt.groups import sitemap_urls

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scrapy_rep.protocol.lint.findings import LintedFile
    from scrapy_rep.protocol.robotstxt.lines import Line

# The reader of each field, and what to write in it.
_READERS: dict[str, tuple[Callable[[str], object], str]] = {
    "crawl-delay": (pace.crawl_delay, "seconds, as in Crawl-delay: 5"),
    "request-rate": (pace.request_rate, "pages per seconds, as in Request-rate: 1/5"),
    "visit-time": (pace.visit_time, "hours in UTC, as in Visit-time: 0600-0845"),
}
# The number of octets of a value that are read.
_MAX_URL = 65_536


def check_record(line: Line, file: LintedFile) -> None:
    """Check the value of a line that is not a rule."""
    number, field, value = line
    if field == "sitemap":
        _check_sitemap(line, file)
    elif field in _READERS and file.dialect.crawl_delay:
        read, meant = _READERS[field]
        if read(value[:_MAX_URL].decode("utf-8", "replace")) is None:
            message = f"crawlers cannot read {quoted(value)}, and ignore the line:"
            file.add(number, "bad-value", f"{message} write {meant}")


def _check_sitemap(line: Line, file: LintedFile) -> None:
    short = line._replace(value=line.value[:_MAX_URL])
    if list(sitemap_urls([short], None)):
        return
    base = file.url or "https://example.com/robots.txt"
    resolved = list(sitemap_urls([short], base))
    if resolved:
        message = "most crawlers ignore a sitemap whose URL is not absolute: write"
        meant = (
            quoted(resolved[0].encode("utf-8", "replace"))
            if file.url
            else "https:// and the host first"
        )
        file.add(line.number, "relative-sitemap", f"{message} {meant}")
    else:
        message = f"crawlers cannot fetch {quoted(line.value)}: write a URL that begins"
        file.add(line.number, "bad-sitemap", f"{message} with https://")


def check_delays(file: LintedFile) -> None:
    """Find delay, rate and window lines outside groups, and agents with several delays."""
    in_groups = {record.line for group in file.groups for record in group.records}
    for line in file.lines:
        if line.field in _READERS and line.number not in in_groups:
            message = "the line is in no group, so crawlers ignore it: move it below a"
            file.add(line.number, "record-outside-group", f"{message} user-agent line")
    if not file.dialect.crawl_delay:
        return
    delays: dict[str, tuple[float, int]] = {}
    for group in file.groups:
        if not file.dialect.merge_groups:
            delays = {}
        agents: dict[int, list[str]] = {}
        for agent, run in zip(group.agents, group.runs, strict=True):
            agents.setdefault(run, []).append(agent)
        for record in group.records:
            if record.field == "crawl-delay":
                delay = pace.crawl_delay(record.value)
                _check_delay(delay, record.line, agents[record.run], delays, file)


def _check_delay(
    delay: float | None,
    number: int,
    agents: Sequence[str],
    delays: dict[str, tuple[float, int]],
    file: LintedFile,
) -> None:
    if delay is None:
        return
    reported = False
    for token in filter(None, agents):
        other, line = delays.setdefault(token, (delay, number))
        if other != delay and not reported:
            reported = True
            message = f"line {line} asks for {other:g} s, and the larger delay counts"
            file.add(number, "several-delays", f"{message}: keep one of the two lines")
