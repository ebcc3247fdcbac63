"""Reads the inputs of commands: URLs, and robots.txt files from all kinds of sources.

A :class:`RulesSource` is a robots.txt with its origin and the time of its fetch. :class:`Sources` give
the RulesSource for an origin. There are three kinds of Sources: a single file or URL, the present
files of all hosts, and the files in ledgers.
"""

from __future__ import annotations

import sys
import time
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from scrapy.exceptions import UsageError
from w3lib.url import safe_url_string

from scrapy_rep.crawl.fetching.memory import LRU, parsed_size
from scrapy_rep.crawl.ledger.reader import read_json, read_texts, reading
from scrapy_rep.protocol.access.entries import renew
from scrapy_rep.protocol.access.overrides import override_for
from scrapy_rep.protocol.access.results import Access, AccessResult
from scrapy_rep.protocol.access.site_rules import robots_of
from scrapy_rep.protocol.agents import EVERYONE, choose_agent
from scrapy_rep.protocol.origins import Origin, origin_of, parse_origin
from scrapy_rep.protocol.reasons import outcome
from scrapy_rep.protocol.robots import RobotsTxt
from scrapy_rep.protocol.robotstxt.lines import text_lines
from scrapy_rep.protocol.robotstxt.rules import Reason
from scrapy_rep.tools.ledgers import Ledgers, iso_time
from scrapy_rep.tools.output import notify

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from typing import BinaryIO

    from scrapy_rep.protocol.access.overrides import Override
    from scrapy_rep.protocol.dialect import Dialect
    from scrapy_rep.protocol.robotstxt.groups import Group
    from scrapy_rep.tools.ledgers import LedgerName
    from scrapy_rep.tools.profile import Profile, Web

# URLs, in arguments and lists.

_CHUNK = 64 * 1024

# How many bytes of a line are read. A longer line is not a URL.
_MAX_LINE = 256 * 1024

# How many origins, and how many URLs, a batch has at most. The robots.txt files of a batch are fetched
# before its URLs are judged.
_ORIGINS_AT_ONCE = 128
_URLS_AT_ONCE = 1_000

# How many bytes of a file or of standard input are read. No dialect reads as much.
_MAX_READ = 16 * 1024 * 1024


class UrlToJudge(NamedTuple):
    """A URL to judge."""

    url: str
    """The URL as a crawl would request it; or a path, if the list has paths."""

    origin: Origin | None
    """The origin of the URL; None for a path, or for a URL in a ledger without a valid origin."""

    row: sqlite3.Row | None = None
    """The last decision on the URL, if the URL comes from ledgers; else None."""


def parse_url(text: str) -> UrlToJudge | None:
    """Parse *text* as a URL, encoded as a Request encodes it. Return None if *text* is not a URL."""
    try:
        url = safe_url_string(text.strip())
    except ValueError:
        return None
    origin = origin_of(url)
    return origin and UrlToJudge(url, origin)


def is_url(argument: str) -> bool:
    """Whether an argument is a URL, and not a path."""
    return "://" in argument


def parse_argument(text: str) -> UrlToJudge:
    """Parse an argument of the command as a URL. Raises UsageError if the argument is not a URL."""
    url = parse_url(text)
    if url is None:
        raise UsageError(
            f"{text[:200]!r} is not a URL of http, https or ftp; a URL begins with https://"
        )
    return url


class UrlList:
    """The URLs in a file, one on each line. Lines that are not URLs are reported on standard error.

    An iteration yields :func:`batches` of the URLs that can be read without waiting, so that results
    are shown while another program still writes the list.
    """

    def __init__(
        self, file: AbstractContextManager[BinaryIO], line: str, *, paths: bool = False
    ) -> None:
        """Create a list from an open *file*. *line* is what messages call a line, as in "line 12".
        *paths* says whether a line may also be a path.
        """
        self._file = file
        self._line = line
        self._paths = paths
        self.bad = 0
        """The number of lines that are not URLs."""

    def __iter__(self) -> Iterator[list[UrlToJudge]]:
        with self._file as file:
            numbers, rest = count(1), b""
            read = getattr(file, "read1", file.read)
            while chunk := read(_CHUNK):
                *lines, rest = (rest + chunk).split(b"\n")
                yield from batches(self._parsed(lines, numbers))
                # The end of a line that is too long is dropped.
                rest = rest[: _MAX_LINE + 1]
            yield from batches(self._parsed([rest], numbers))

    def _parsed(
        self, lines: list[bytes], numbers: Iterator[int]
    ) -> Iterator[UrlToJudge]:
        for line in lines:
            text, number = line.decode("utf-8", "replace").strip(), next(numbers)
            try:
                if len(line) > _MAX_LINE:
                    raise UsageError(
                        f"a line of more than {_MAX_LINE:,} bytes is not a URL"
                    )
                if self._paths and text.startswith("/"):
                    yield UrlToJudge(text, None)
                elif text:
                    yield parse_argument(text)
            except UsageError as error:
                self.bad += 1
                notify(f"{self._line} {number}: {error}")


def batches(urls: Iterable[UrlToJudge]) -> Iterator[list[UrlToJudge]]:
    """Split *urls* into batches. A batch has so few origins that all their robots.txt files can be fetched
    concurrently.
    """
    batch: list[UrlToJudge] = []
    origins: set[Origin | None] = set()
    for url_to_judge in urls:
        origins.add(url_to_judge.origin)
        if len(origins) > _ORIGINS_AT_ONCE or len(batch) == _URLS_AT_ONCE:
            yield batch
            batch, origins = [], {url_to_judge.origin}
        batch.append(url_to_judge)
    if batch:
        yield batch


def open_bytes(path: str) -> AbstractContextManager[BinaryIO]:
    """Open the file at *path* for reading bytes; ``-`` is standard input. Raises UsageError if the file
    cannot be opened.
    """
    if path == "-":
        return nullcontext(sys.stdin.buffer)
    try:
        return Path(path).open("rb")
    except OSError as error:
        raise UsageError(
            f"{path}: {error.strerror}; a URL begins with https://"
        ) from None
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from None


def read_file(path: str) -> bytes:
    """Return the bytes of the file at *path*, at most 16 MiB; ``-`` is standard input. Raises UsageError
    if the file cannot be read.
    """
    with open_bytes(path) as file:
        try:
            return file.read(_MAX_READ)
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}") from None


# robots.txt files.

_AROUND = 2
_AGENT_LINES = 10
_KEPT_OF_LINE = 200

_HTML_PAGE = (
    ", but an HTML page, such as the challenge of a bot wall, not a robots.txt: only its lines in the "
    "form of a rule count"
)

# The size of the cache of fetched files. A file that no longer fits is fetched again when it is needed.
_MAX_BYTES_KEPT = 64 * 1024 * 1024


@dataclass(eq=False)
class RulesSource:
    """The rules that a crawl follows for a site: a robots.txt, or an override in place of it."""

    result: AccessResult
    """The result of the fetch. For a file or an override, it is that of a successful fetch."""

    body: bytes | None
    """The text of the rules, which may be an older copy; None if there is no text."""

    fetched: float | None = None
    """The time of the fetch, in seconds since the epoch; None for a file or an override."""

    override: Override | None = None
    """The override of REP_OVERRIDES that replaces the robots.txt of the site; None if there is none."""

    site: RulesSource | None = None
    """The robots.txt of the site itself, if an override replaces it, and if the command has fetched it."""

    crawl: dict[str, Any] | None = None
    """The crawl that fetched the robots.txt, if it comes from a ledger; else None."""

    row: sqlite3.Row | None = None
    """The row of the snapshot in :class:`Ledgers`, if the robots.txt comes from a ledger; else None."""

    def __post_init__(self) -> None:
        self.read_as = cache(self._read_as)
        self._lines = cache(partial(text_lines, self.body or b""))
        self._groups = cache(self._groups_by_line)
        self.excerpt = cache(self._excerpt)

    @classmethod
    def from_text(cls, name: str, body: bytes) -> RulesSource:
        """Return the source for the text *body* of the file *name*."""
        return cls(AccessResult(url=name, status=200, body=body), body)

    @classmethod
    def from_override(cls, override: Override, site: RulesSource | None) -> RulesSource:
        """Return the source for an *override* that replaces the robots.txt of a *site*."""
        name = f"REP_OVERRIDES[{override.pattern!r}]{override.note}"
        body = override.robots.body if override.robots else b""
        result = AccessResult(url=name, status=200, body=body)
        return cls(result, body, override=override, site=site)

    @classmethod
    def from_result(cls, result: AccessResult) -> RulesSource:
        """Return the source for the *result* of a fetch that has just ended."""
        body = result.body if result.access is Access.SUCCESSFUL else None
        return cls(result, body, time.time())

    @property
    def url(self) -> str:
        return self.result.url

    @property
    def origin(self) -> Origin | None:
        """The origin from which the rules were fetched; None for a file or an override."""
        return origin_of(self.url)

    @property
    def is_known(self) -> bool:
        """Whether the rules of the site are known: the server has answered, and not with an error (5xx)."""
        return self.body is not None or self.result.access is not Access.UNREACHABLE

    def _read_as(self, dialect: Dialect) -> RobotsTxt:
        if self.override is not None and self.override.robots is None:
            reason = Reason.OVERRIDE
            return RobotsTxt.blanket(allowed=True, reason=reason, dialect=dialect)
        if self.body is not None:
            return RobotsTxt.parse(
                self.body, dialect, self.url if self.origin else None
            )
        entry = renew(self.result, None, dialect=dialect, now=time.time())
        return robots_of(entry, dialect)

    @property
    def access(self) -> dict[str, Any]:
        """Where the robots.txt comes from, as a JSON object. Its key ``why`` is for users, in words."""
        result, status = self.result, None
        if self.override is not None:
            outcome_name, words = "override", "set in the settings"
        elif self.origin is None:
            outcome_name, words = "file", "a file"
        else:
            outcome_name, status = str(result.access), result.status
            words = f"{outcome(outcome_name)} ({result})"
            if result.redirects:
                words += f", redirected to {result.redirects[-1]}"
        if result.is_html:
            words += _HTML_PAGE
        return {
            "outcome": outcome_name,
            "status": status,
            "redirects": list(result.redirects),
            "error": result.error,
            "html": result.is_html,
            "fetched": iso_time(self.fetched),
            "why": words,
        }

    def _excerpt(
        self, line: int | None, agent: str | None, dialect: Dialect
    ) -> list[dict[str, Any]]:
        """Return the *line* that decided, the two lines before and after it, and up to ten user-agent lines
        of its group, as JSON objects. If the group has more, the user-agent lines that name *agent* come
        first, and then those nearest above the rule.
        """
        if not line or not self.body:
            return []
        lines = self._lines(dialect)
        numbers = set(range(max(line - _AROUND, 1), line + _AROUND + 1))
        if group := self._groups(dialect).get(line):
            _, tokens = choose_agent([agent or EVERYONE], group.agents, dialect)
            agent_lines = zip(group.lines, group.agents, strict=True)
            naming = [number for number, token in agent_lines if token in tokens]
            by_relevance = dict.fromkeys([*naming, *reversed(group.lines)])
            numbers.update(islice(by_relevance, _AGENT_LINES))
        return [
            {"line": number, "text": lines[number - 1][:_KEPT_OF_LINE]}
            for number in sorted(numbers)
            if number <= len(lines)
        ]

    def _groups_by_line(self, dialect: Dialect) -> dict[int, Group]:
        """Return the group of each rule and record, by the number of its line."""
        groups: dict[int, Group] = {}
        for group in self.read_as(dialect).groups:
            groups.update((rule.line, group) for rule in group.rules)
            groups.update((record.line, group) for record in group.records)
        return groups


SourcesByOrigin: TypeAlias = "dict[Origin | None, RulesSource]"
"""The rules that a crawl follows at each origin, without the origins for which there are none."""


def _known(sources: Mapping[Any, RulesSource | None]) -> SourcesByOrigin:
    return {origin: source for origin, source in sources.items() if source}


class Sources:
    """Gives the robots.txt for each origin. This class has the same file for all origins; its subclasses
    fetch the file of each origin, or read it from ledgers.
    """

    def __init__(self, source: RulesSource | None = None) -> None:
        self._source = source
        self.is_single = source is not None
        """Whether a single robots.txt is for all origins."""
        self.origin = None if source is None else source.origin
        """The only origin for which there are rules; None if there are rules for any origin."""

    async def load(self, origins: Iterable[Origin | None]) -> SourcesByOrigin:
        """Return the rules that a crawl follows at each of *origins*, without origins that have none."""
        return _known(dict.fromkeys(origins, self._source))


class PresentSources(Sources):
    """Fetches the present robots.txt of each origin, unless REP_OVERRIDES has an override for the origin."""

    def __init__(self, profile: Profile, web: Web, *, sites: bool = False) -> None:
        """Show the warnings about overrides. *sites* says whether to fetch the robots.txt of a site even if
        an override replaces it.
        """
        super().__init__()
        self._overrides = profile.rep.overrides
        self._web = web
        self._with_sites = sites
        self._kept: LRU[RulesSource] = LRU(_MAX_BYTES_KEPT)
        self._now = time.time()
        for override in self._overrides:
            if override.ends <= self._now:
                notify(override.end_notice)
                continue
            for warning in override.warnings:
                notify(f"REP_OVERRIDES[{override.pattern!r}], {warning}")

    async def load(self, origins: Iterable[Origin | None]) -> SourcesByOrigin:
        """Return the rules for each of *origins*. Files that are not cached are fetched concurrently."""
        overrides = {origin: self._override(origin) for origin in origins if origin}
        sites = {origin: self._kept.get(origin) for origin in overrides}
        missing = [
            origin
            for origin, override in overrides.items()
            if not sites[origin] and (self._with_sites or not override)
        ]
        results = await self._web.robotstxts(
            [origin.robotstxt_url for origin in missing]
        )
        for origin, result in zip(missing, results, strict=True):
            sites[origin] = source = RulesSource.from_result(result)
            self._kept.put(origin, source, parsed_size(result.body))
        return _known(
            {
                origin: RulesSource.from_override(override, sites[origin])
                if override
                else sites[origin]
                for origin, override in overrides.items()
            }
        )

    def _override(self, origin: Origin) -> Override | None:
        """Return the override that replaces the robots.txt of *origin*, or None."""
        override = override_for(self._overrides, origin, self._now)
        return None if override is None or override.kind == "obey" else override


async def read_sources(
    names: Sequence[str], web: Web | None
) -> list[RulesSource | UsageError]:
    """Read the files and fetch the URLs in *names*, and return them in this order. In place of a file that
    can't be read, the result has a UsageError. A URL without a path means the robots.txt of its host.
    """
    sources: dict[str, RulesSource | UsageError] = {}
    urls: dict[str, str] = {}
    for name in dict.fromkeys(names):
        try:
            if is_url(name):
                urls[name] = _robotstxt_url(name)
            else:
                sources[name] = RulesSource.from_text(name, read_file(name))
        except UsageError as error:
            sources[name] = error
    if urls and web is not None:
        results = await web.robotstxts(urls.values())
        sources |= zip(urls, map(RulesSource.from_result, results), strict=True)
    return [sources[name] for name in names]


def _robotstxt_url(argument: str) -> str:
    """Return the URL of a robots.txt for the *argument*: the URL itself or, if it has no path, the URL of
    robots.txt on its host. Raises UsageError if *argument* is not a URL.
    """
    url_to_judge = parse_argument(argument)
    parts = urlsplit(url_to_judge.url)
    if url_to_judge.origin and parts.path in {"", "/"} and not parts.query:
        return url_to_judge.origin.robotstxt_url
    return url_to_judge.url


# Ledgers.

_REQUESTS = {
    # A decision about a request has no page.
    "decision": """
        layer IN ('robots.txt', 'override', 'delay') AND page IS NULL AND time <= :until
        AND verdict IN ('allowed', 'refused', 'would-refuse', 'would-allow')
    """,
    "snapshot": "fetched <= :until",
    "body": "sha256 IN (SELECT sha256 FROM main.snapshot)",
}
"""The rows that :class:`Ledgers` reads to compare decisions on requests: a condition for each table."""

# The last decision on each URL: with max(), SQLite takes the other columns from the row with the maximum.
# It sorts on disk if the rows do not fit into memory.
_DECISIONS = """
    SELECT *, max(time) AS time FROM decision WHERE :origin IS NULL OR origin = :origin
    GROUP BY origin, url ORDER BY origin, url
"""
_SNAPSHOT = "SELECT * FROM snapshot LEFT JOIN body USING (sha256) WHERE id = :id"
_LAST = """
    SELECT id FROM snapshot WHERE origin = :origin AND crawl IN counted
    ORDER BY fetched DESC LIMIT 1
"""


class LedgerSources(Sources):
    """The robots.txt files in ledgers. The caller must call ``close`` at the end."""

    def __init__(
        self,
        names: Sequence[LedgerName],
        conditions: Mapping[str, str] = _REQUESTS,
        **values: object,
    ) -> None:
        """Read the ledgers *names*. The parameters are those of :class:`Ledgers`."""
        super().__init__()
        self.ledgers = Ledgers(names, conditions, **values)
        self.close = self.ledgers.close
        self.source = lru_cache(maxsize=8)(self._read)
        sql = "SELECT DISTINCT origin FROM decision WHERE origin != '' LIMIT 2"
        origins = [row["origin"] for row in self.ledgers.rows(sql)]
        self.has_origins = len(origins) > 1
        """Whether the URLs in the ledgers have several origins."""
        self.origin = None if self.has_origins else parse_origin("".join(origins))

    def urls(self, origin: Origin | None) -> Iterator[UrlToJudge]:
        """Yield the URLs of *origin*, or of all origins, each with the last decision on it. They are sorted
        by origin.
        """
        for row in self.ledgers.rows(_DECISIONS, origin=origin and str(origin)):
            yield UrlToJudge(row["url"], parse_origin(row["origin"]), row)

    async def load(self, origins: Iterable[Origin | None]) -> SourcesByOrigin:
        """Return the last robots.txt of each of *origins* in the ledgers."""
        return _known({origin: self._last(origin) for origin in dict.fromkeys(origins)})

    def _last(self, origin: Origin | None) -> RulesSource | None:
        row = next(self.ledgers.rows(_LAST, origin=origin and str(origin)), None)
        return self.source(row["id"]) if row else None

    def _read(self, snapshot: int | None) -> RulesSource | None:
        """Return the robots.txt of a snapshot; None if the ledgers do not have the snapshot."""
        row = next(self.ledgers.rows(_SNAPSHOT, id=snapshot), None)
        if row is None:
            return None
        crawl = self.ledgers.by_number[row["crawl"]]
        with reading(crawl["path"]):
            headers = tuple(
                (str(field[0]), str(field[1]))
                for field in read_json(row["headers"], list)
                if isinstance(field, list) and len(field) == 2
            )
            result = AccessResult(
                url=row["url"],
                status=row["status"],
                headers=headers,
                body=row["body"] or b"",
                redirects=read_texts(row["redirects"]),
                error=row["error"] or "",
            )
        return RulesSource(result, row["body"], row["fetched"], crawl=crawl, row=row)


LIVE = "live"
"""The argument that means the present robots.txt files of all hosts."""


async def sources_of(
    names: Sequence[str],
    profile: Profile,
    web: Web | None,
    ledgers: Mapping[tuple[str, ...], LedgerSources],
) -> Sources | None:
    """Return the sources to which the command-line arguments *names* refer: a file, a URL, ledgers, or ``live``.
    Return None for a dialect, which has no rules of its own. *ledgers* maps each argument that names a ledger to
    the open ledger. Raises UsageError for a source that can't be read.
    """
    if sources := ledgers.get(tuple(names)):
        return sources
    if len(names) > 1:
        raise UsageError(
            f"{', '.join(names)}: all names but the last are OLD, which may be several names only for "
            "ledgers; give one robots.txt as OLD, and one as NEW"
        )
    if names[0] in profile.dialects:
        return None
    if names[0] == LIVE:
        assert web is not None
        return PresentSources(profile, web, sites=True)
    (source,) = await read_sources(names, web)
    if isinstance(source, UsageError):
        raise source
    return Sources(source)


def are_offline(names: Sequence[str], profile: Profile) -> bool:
    """Whether the sources that the arguments *names* mean can be read without the network."""
    # If both sides are dialects, the present files are fetched.
    are_dialects = profile.dialects.keys() >= set(names)
    return not (are_dialects or LIVE in names or any(map(is_url, names)))
