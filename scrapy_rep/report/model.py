"""What a report says. Times are seconds since the epoch, in UTC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scrapy_rep.ledger.terms import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from scrapy_rep.report.urls import UrlsByHost
    from scrapy_rep.report.without import HostsWithout


@dataclass(frozen=True, slots=True, kw_only=True)
class Crawl:
    ledger: str
    """The path of its ledger."""

    spider: str
    user_agent: str
    agents: tuple[str, ...]
    dialect: str
    settings: Mapping[str, object]
    versions: Mapping[str, str]
    started: float

    ended: float | None
    """None where it was killed, or is still running."""

    finish_reason: str | None
    counts: Mapping[str, float]

    complete: bool
    """Whether its ledger has every decision, and not refusals alone."""


@dataclass(frozen=True, slots=True)
class Tally:
    """How often it was decided so."""

    layer: str
    verdict: str
    reason: str
    count: int


@dataclass(frozen=True, slots=True)
class Answers:
    """How often robots.txt was answered so."""

    access: str
    status: int | None
    error: str | None
    count: int
    hosts: int


@dataclass(frozen=True, slots=True)
class TopRule:
    statement: str
    line: int
    refused: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    origin: str

    access: str | None
    """How the last fetch of its robots.txt ended; None where there was none."""

    status: int | None
    error: str | None

    copy: bool
    """Whether an older copy held in place of the last answer."""

    age: float | None
    """In seconds: how old a robots.txt was at most when it decided."""

    delay: float | None
    """In seconds, as its robots.txt asks."""

    gap: float | None
    """In seconds, the shortest time between two requests; None where there is no delay, or
    no ledger that has what was let through."""

    refused: int
    dropped: int
    rules: tuple[TopRule, ...]

    more_rules: int
    """How many more rules refused something."""

    document: int | None
    """The number of its robots.txt among those of the report, if it is there."""

    urls: int | None
    """Its number among the hosts whose refused URLs are shown, if it is there."""


@dataclass(slots=True)
class Mark:
    """What one line of a robots.txt decided."""

    refused: int = 0
    allowed: int = 0

    use: int = 0
    """How often it said what content may be used for."""

    example: str = ""
    """One of the URLs."""


@dataclass(frozen=True, slots=True)
class Line:
    number: int
    text: str
    mark: Mark | None


@dataclass(frozen=True, slots=True)
class Gap:
    """Lines that are left out."""

    lines: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A robots.txt, as it was."""

    url: str
    """Where it is from, after redirects."""

    first: float
    """When it was first fetched, of those in the ledgers."""

    last: float

    copy_of: float | None
    """When it was fetched, where it held as a copy."""

    size: int
    """In bytes, as it came."""

    cut: bool
    """Whether it was longer than what is read of a robots.txt."""

    shown: tuple[Line | Gap, ...]

    marked: int
    """How many of its lines decided."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The robots.txt of one host, in each version that was met."""

    number: int
    origin: str
    versions: tuple[Version, ...]
    more_versions: int
    refused: int
    allowed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """A host whose robots.txt could not be had."""

    origin: str
    times: int
    first: float
    last: float
    status: int | None
    error: str | None

    given_up: int
    """Requests that were refused for that reason."""

    copy: bool
    """Whether an older copy held meanwhile."""

    recovered: bool
    """Whether there was an answer later."""


@dataclass(frozen=True, slots=True)
class Overridden:
    reason: str
    statement: str | None
    verdict: str
    count: int
    hosts: int


@dataclass(frozen=True, slots=True)
class Use:
    """What a host says of a purpose, and what came of that."""

    origin: str

    purpose: str
    """A category of use; of what is noted alone, or of a licence, the signal."""

    verdict: str

    source: str | None
    """Where it says so."""

    statement: str | None
    """None where nothing was said, and that was not enough."""

    line: int | None
    count: int

    example: str
    """One of the URLs."""

    document: int | None
    """As of a Host."""


@dataclass(frozen=True, slots=True)
class Changed:
    """A setting that is not as it is by default."""

    name: str
    value: object
    spider: str


@dataclass(slots=True)
class Check:
    """What asking again found, of the requests that a robots.txt let through."""

    checked: int = 0
    forbidden: int = 0

    unchecked: int = 0
    """Of a dialect of the user's own, or so long that the ledger has not all of the URL."""

    examples: tuple[str, ...] = ()
    """A few URLs that were let through and forbidden."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    crawls: tuple[Crawl, ...]
    tallies: tuple[Tally, ...]

    let_through: int
    """Requests, of the crawls whose ledgers have every decision; without the next."""

    let_through_by_override: int
    check: Check

    responses: int
    """By the stats of the crawls, without those to robots.txt."""

    answers: tuple[Answers, ...]
    answers_left_out: int
    hosts_met: int
    hosts: Iterable[Host]
    hosts_shown: int
    documents: Iterable[Document]
    documents_shown: int
    documents_left_out: int
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
    def said(self) -> list[Tally]:
        """What pages said, whatever came of it."""
        return [one for one in self.tallies if one.verdict == Verdict.NOTED]

    @property
    def held_back(self) -> list[Tally]:
        passed = {Verdict.ALLOWED.value, Verdict.NOTED.value}
        return [one for one in self.tallies if one.verdict not in passed]

    def total(self, *verdicts: str) -> int:
        return sum(one.count for one in self.tallies if one.verdict in verdicts)
