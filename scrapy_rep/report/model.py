"""The contents of a report. Times are seconds since the epoch, in UTC."""

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
    """Whether its ledger has every decision, and not only refusals."""


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
    """The greatest age in seconds of a robots.txt when it decided."""

    delay: float | None
    """The delay in seconds that its robots.txt asks for."""

    gap: float | None
    """In seconds, the shortest time between two requests; None where there is no delay, or
    no ledger that has what was let through."""

    refused: int
    dropped: int
    rules: tuple[TopRule, ...]

    more_rules: int
    """The number of other rules that refused something."""

    document: int | None
    """The number of its robots.txt in the report, if it is shown."""

    urls: int | None
    """Its number among the hosts whose refused URLs are shown, if it is one of them."""


@dataclass(slots=True)
class Mark:
    """How often one line of a robots.txt decided."""

    refused: int = 0
    allowed: int = 0

    use: int = 0
    """How often it said what content may be used for."""

    example: str = ""
    """One of the URLs."""


@dataclass(frozen=True, slots=True)
class ShownLine:
    number: int
    text: str
    mark: Mark | None


@dataclass(frozen=True, slots=True)
class Gap:
    """A number of lines that are left out."""

    lines: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A version of a robots.txt."""

    url: str
    """The URL that it came from, after redirects."""

    first: float
    """When it was first fetched, as far as the ledgers say."""

    last: float

    copy_of: float | None
    """When it was fetched, if it was followed as a copy."""

    size: int
    """In bytes, as it came."""

    cut: bool
    """Whether it was longer than the dialect reads."""

    shown: tuple[ShownLine | Gap, ...]

    marked: int
    """The number of its lines that decided."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The robots.txt of one host, in its versions."""

    number: int
    origin: str
    versions: tuple[Version, ...]
    more_versions: int
    refused: int
    allowed: int


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
    """The number of requests that were refused for that reason."""

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
    """A statement of a host about a purpose, and the outcome."""

    origin: str

    purpose: str
    """A category of use; for a statement without one, such as a licence, its signal."""

    verdict: str

    source: str | None
    """The place of the statement."""

    statement: str | None
    """None where nothing is stated, and REP_USAGE_UNKNOWN denies that."""

    line: int | None
    count: int

    example: str
    """One of the URLs."""

    document: int | None
    """As of a Host."""


@dataclass(frozen=True, slots=True)
class Changed:
    """A setting that differs from its default."""

    name: str
    value: object
    spider: str


@dataclass(slots=True)
class Check:
    """The result of checking again the requests that a robots.txt let through."""

    checked: int = 0
    forbidden: int = 0

    unchecked: int = 0
    """Requests in a dialect of the user's own, or with a URL that the ledger has cut."""

    examples: tuple[str, ...] = ()
    """A few URLs that were let through and forbidden."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    crawls: tuple[Crawl, ...]
    tallies: tuple[Tally, ...]

    let_through: int
    """Requests of crawls whose ledgers have every decision; those of overrides not counted."""

    let_through_by_override: int

    arrived: int
    """Responses that were refused because a browser's redirect had led to a URL that may
    not be fetched."""

    check: Check

    responses: int
    """Responses by the stats of the crawls, those to robots.txt not counted."""

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
        """Statements of pages, whatever followed from them."""
        return [one for one in self.tallies if one.verdict == Verdict.NOTED]

    @property
    def held_back(self) -> list[Tally]:
        passed = {Verdict.ALLOWED.value, Verdict.NOTED.value}
        return [one for one in self.tallies if one.verdict not in passed]

    def total(self, *verdicts: str) -> int:
        return sum(one.count for one in self.tallies if one.verdict in verdicts)
