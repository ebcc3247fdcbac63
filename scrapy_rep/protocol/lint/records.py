"""Checks sitemaps, delays, rates and windows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_rep.protocol.lint.findings import quoted
from scrapy_rep.protocol.robotstxt import pace
from scrapy_rep.protocol.robotstxt.sitemaps import sitemap_urls

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scrapy_rep.protocol.lint.findings import LintedFile
    from scrapy_rep.protocol.robotstxt.lines import Line

# The reader of each field, and an example of its value.
_READERS: dict[str, tuple[Callable[[str], object], str]] = {
    "crawl-delay": (pace.crawl_delay, "seconds, as in Crawl-delay: 5"),
    "request-rate": (pace.request_rate, "pages in seconds, as in Request-rate: 1/5"),
    "visit-time": (pace.visit_time, "hours in UTC, as in Visit-time: 0600-0845"),
}
# No URL is longer.
_MAX_URL = 65_536


def check_record(line: Line, file: LintedFile) -> None:
    """Check the value of a line that is no rule."""
    number, field, value = line
    if field == "sitemap":
        _check_sitemap(line, file)
    elif field in _READERS and file.dialect.crawl_delay:
        read, meant = _READERS[field]
        if read(value[:_MAX_URL].decode("utf-8", "replace")) is None:
            message = f"{quoted(value)} can't be read, and is ignored: write {meant}"
            file.add(number, "bad-value", message)


def _check_sitemap(line: Line, file: LintedFile) -> None:
    short = line._replace(value=line.value[:_MAX_URL])
    if list(sitemap_urls([short], None)):
        return
    base = file.url or "https://example.com/robots.txt"
    resolved = list(sitemap_urls([short], base))
    if resolved:
        message = "sitemaps have absolute URLs, and few crawlers resolve others: write"
        meant = (
            quoted(resolved[0].encode("utf-8", "replace"))
            if file.url
            else "https:// and the host first"
        )
        file.add(line.number, "relative-sitemap", f"{message} {meant}")
    else:
        message = f"{quoted(line.value)} is no URL of the Web: write one with https://"
        file.add(line.number, "bad-sitemap", message)


def check_delays(file: LintedFile) -> None:
    """Find records in no group, and several delays for one agent."""
    in_groups = {record.line for group in file.groups for record in group.records}
    for line in file.lines:
        if line.field in _READERS and line.number not in in_groups:
            message = "in no group, so that nobody keeps to it: move it below a"
            file.add(line.number, "record-outside-group", f"{message} user-agent line")
    if not file.dialect.crawl_delay:
        return
    delays: dict[str, tuple[float, int]] = {}
    for group in file.groups:
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
            message = f"line {line} says {other:g} seconds, and the larger one counts"
            file.add(number, "several-delays", f"{message}: write one of the two")
