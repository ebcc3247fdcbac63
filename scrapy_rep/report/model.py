"""The contents of a report. Times are seconds since the epoch, in UTC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scrapy_rep.ledger.terms import Verdict

if TYPE_CHECKING:
    from scrapy_rep.report.check import Check
    from scrapy_rep.report.documents import Documents
    from scrapy_rep.report.hosts import Hosts
    from scrapy_rep.report.scratch import Crawl
    from scrapy_rep.report.urls import UrlsByHost
    from scrapy_rep.report.without import HostsWithout


@dataclass(frozen=True, slots=True)
class Tally:
    """The number of decisions with one outcome, for one reason."""

    layer: str
    verdict: str
    reason: str
    count: int


@dataclass(frozen=True, slots=True)
class Answers:
    """The number of answers of one kind to requests for robots.txt."""

    access: str
    status: int | None
    error: str | None
    count: int
    hosts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """A host whose robots.txt was unreachable."""

    origin: str
    times: int
    first: float
    last: float
    status: int | None
    error: str | None

    given_up: int
    """The number of requests that were refused because of the outage."""

    copy: bool
    """Whether an older copy was followed during the outage."""

    recovered: bool
    """Whether the host answered later."""


@dataclass(frozen=True, slots=True)
class Overridden:
    reason: str
    statement: str | None
    verdict: str
    count: int
    hosts: int


@dataclass(frozen=True, slots=True)
class Use:
    """A statement of a host about a purpose, and the outcome."""

    origin: str

    purpose: str
    """A category of use, the signal of a statement without one, or ``stopped``."""

    verdict: str

    source: str | None
    """Where the statement was found."""

    statement: str | None
    """None if REP_USAGE_UNKNOWN decided, or the download was stopped."""

    line: int | None
    count: int

    example: str
    """One of the URLs."""

    document: int | None
    """The number of its robots.txt in the report, if it is shown."""


@dataclass(frozen=True, slots=True)
class Changed:
    """A setting that differs from its default."""

    name: str
    value: object
    spider: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    crawls: tuple[Crawl, ...]
    tallies: tuple[Tally, ...]

    let_through: int
    """Requests of crawls whose ledgers have every decision, without overrides."""

    let_through_by_override: int

    arrived: int
    """Responses that were refused because a browser had been led to a forbidden URL."""

    check: Check

    responses: int
    """Responses in the stats of the crawls, without those to robots.txt."""

    answers: tuple[Answers, ...]
    answers_left_out: int
    hosts: Hosts
    documents: Documents
    urls: UrlsByHost
    without: HostsWithout
    outages: tuple[Outage, ...]
    outages_left_out: int
    overridden: tuple[Overridden, ...]
    overridden_left_out: int
    uses: tuple[Use, ...]
    uses_left_out: int
    changed: tuple[Changed, ...]

    @property
    def complete(self) -> bool:
        return all(crawl.complete for crawl in self.crawls)

    @property
    def noted(self) -> list[Tally]:
        """Statements that were noted, with or without effect."""
        return [one for one in self.tallies if one.verdict == Verdict.NOTED]

    @property
    def held_back(self) -> list[Tally]:
        passed = {Verdict.ALLOWED.value, Verdict.NOTED.value}
        return [one for one in self.tallies if one.verdict not in passed]

    def total(self, verdict: Verdict) -> int:
        return sum(one.count for one in self.tallies if one.verdict == verdict)
