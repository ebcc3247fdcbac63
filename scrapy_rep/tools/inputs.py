"""Reads the inputs of commands: lists of URLs, and robots.txt files from various sources.

A :class:`RulesSource` contains a robots.txt, its URL, and the time of its fetch. Three classes return the RulesSource
for an origin:

- :class:`Sources` returns the same robots.txt for every origin.
- :class:`LiveSources` fetches the robots.txt of the origin.
- :class:`LedgerSources` reads the robots.txt from ledgers.
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

# Reading URLs from command-line arguments and lists.

_CHUNK = 64 * 1024

# The maximum length in bytes of a line with a URL. Longer lines are reported as errors.
_MAX_LINE = 256 * 1024

# The maximum numbers of origins and of URLs in a batch. All robots.txt files for a batch are fetched before the
# batch's URLs are judged.
_ORIGINS_AT_ONCE = 128
_URLS_AT_ONCE = 1_000

# The maximum number of bytes that are read from a file or standard input. All dialects read fewer bytes of a
# robots.txt.
_MAX_READ = 16 * 1024 * 1024


class UrlToJudge(NamedTuple):
    """A URL that a command judges, and the URL's origin."""

    url: str
    """The URL, encoded as in a request of a crawl. Instead of a URL, this can be a path, such as ``/shop``."""

    origin: Origin | None
    """The URL's origin. None for a path of an unknown host. For a URL from a ledger, this is the origin in the column
    ``origin`` of the ledger; None if the column contains no valid origin."""

    row: sqlite3.Row | None = None
    """If the URL comes from ledgers, the row of the latest decision on the URL in the table ``decision``; None for
    other URLs."""


def parse_url(text: str) -> UrlToJudge | None:
    """Parse *text* as a URL, and encode the URL as ``Request`` does. Return None if *text* is not a URL."""
    try:
        url = safe_url_string(text.strip())
    except ValueError:
        return None
    origin = origin_of(url)
    return origin and UrlToJudge(url, origin)


def is_url(argument: str) -> bool:
    """Whether *argument* is a URL, and not the path of a file."""
    return "://" in argument


def parse_argument(text: str) -> UrlToJudge:
    """Parse *text*, an argument or a line of a list, as a URL. Raises UsageError if *text* is not a URL."""
    url = parse_url(text)
    if url is None:
        raise UsageError(
            f"{text[:200]!r} is not an http, https or ftp URL; write it with its scheme, such as https://"
        )
    return url


class UrlList:
    """The URLs in a file with one URL per line. Lines that are not URLs are reported on standard error.

    Iterating over an instance yields the URLs in batches (see :func:`batches`). A batch does not wait for further
    input, so that results are shown while another program still writes the list.
    """

    def __init__(
        self,
        file: AbstractContextManager[BinaryIO],
        before_number: str,
        *,
        accepts_paths: bool = False,
    ) -> None:
        """Create a list from an open *file*. *before_number* is the text that messages show before the number of a
        line, such as ``"line"`` for "line 12". *accepts_paths* is whether a line can contain a path, such as ``/shop``,
        instead of a URL.
        """
        self._file = file
        self._before_number = before_number
        self._accepts_paths = accepts_paths
        self.bad = 0
        """The number of lines that are not URLs."""

    def __iter__(self) -> Iterator[list[UrlToJudge]]:
        with self._file as file:
            numbers, rest = count(1), b""
            read = getattr(file, "read1", file.read)
            while chunk := read(_CHUNK):
                *lines, rest = (rest + chunk).split(b"\n")
                yield from batches(self._parsed(lines, numbers))
                # Of an overlong line, only enough bytes are kept to report that the line is too long.
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
                        f"the line is longer than {_MAX_LINE:,} bytes, so it is not a URL"
                    )
                if self._accepts_paths and text.startswith("/"):
                    yield UrlToJudge(text, None)
                elif text:
                    yield parse_argument(text)
            except UsageError as error:
                self.bad += 1
                notify(f"{self._before_number} {number}: {error}")


def batches(urls: Iterable[UrlToJudge]) -> Iterator[list[UrlToJudge]]:
    """Yield *urls* in batches. The number of origins in a batch is limited, so that all robots.txt files for a
    batch can be fetched concurrently.
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
    """Open the file at *path* to read bytes. The path ``-`` means standard input. Raises UsageError if the file
    cannot be opened.
    """
    if path == "-":
        return nullcontext(sys.stdin.buffer)
    try:
        return Path(path).open("rb")
    except OSError as error:
        raise UsageError(
            f"{path}: {error.strerror}; if it is a URL, write it with its scheme, such as https://"
        ) from None
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from None


def read_file(path: str) -> bytes:
    """Return the contents of the file at *path*, up to 16 MiB. The path ``-`` means standard input. Raises
    UsageError if the file cannot be read.
    """
    with open_bytes(path) as file:
        try:
            return file.read(_MAX_READ)
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}") from None


# Reading robots.txt files from paths and URLs, and rules from overrides.

_AROUND = 2
_AGENT_LINES = 10
_KEPT_OF_LINE = 200

_HTML_PAGE = (
    ", but the response is an HTML page, such as the challenge of a bot wall, and not a robots.txt; only "
    "lines in the form of rules count"
)

# The size in bytes of the cache of fetched robots.txt files. A file that was dropped from the cache is fetched again
# when it is needed.
_MAX_BYTES_KEPT = 64 * 1024 * 1024


@dataclass(eq=False)
class RulesSource:
    """The rules that a crawl follows for a site: the robots.txt, or an override in its place."""

    result: AccessResult
    """The result of the fetch. A file or an override, which is not fetched, has the result of a successful fetch."""

    body: bytes | None
    """The text of the rules. If the fetch failed, this can be an older copy of the robots.txt. None if there is no
    text."""

    fetched: float | None = None
    """The time of the fetch, in seconds since the epoch; None for a file or an override."""

    override: Override | None = None
    """The override in REP_OVERRIDES that replaces the site's robots.txt; None if there is no override."""

    site: RulesSource | None = None
    """The robots.txt of the site, which ``override`` replaces. None if the command did not fetch this robots.txt, or if
    there is no override."""

    crawl: dict[str, Any] | None = None
    """The crawl that fetched the robots.txt, if the robots.txt comes from a ledger; None if not."""

    row: sqlite3.Row | None = None
    """The row of the robots.txt in the table ``snapshot`` of :class:`Ledgers`, if the robots.txt comes from a ledger;
    None if not."""

    def __post_init__(self) -> None:
        self.read_as = cache(self._read_as)
        self._lines = cache(partial(text_lines, self.body or b""))
        self._groups = cache(self._groups_by_line)
        self.excerpt = cache(self._excerpt)

    @classmethod
    def from_text(cls, name: str, body: bytes) -> RulesSource:
        """Return the RulesSource for the file *name* with the contents *body*."""
        return cls(AccessResult(url=name, status=200, body=body), body)

    @classmethod
    def from_override(cls, override: Override, site: RulesSource | None) -> RulesSource:
        """Return the RulesSource for an *override*. *site* is the robots.txt that the override replaces; None if this
        robots.txt was not fetched.
        """
        name = f"REP_OVERRIDES[{override.pattern!r}]{override.note}"
        body = override.robots.body if override.robots else b""
        result = AccessResult(url=name, status=200, body=body)
        return cls(result, body, override=override, site=site)

    @classmethod
    def from_result(cls, result: AccessResult) -> RulesSource:
        """Return the RulesSource for the *result* of a fetch that just ended."""
        body = result.body if result.access is Access.SUCCESSFUL else None
        return cls(result, body, time.time())

    @property
    def url(self) -> str:
        return self.result.url

    @property
    def origin(self) -> Origin | None:
        """The origin of the fetched robots.txt; None for a file or an override."""
        return origin_of(self.url)

    @property
    def is_known(self) -> bool:
        """Whether the site's rules are known. They are not known if the robots.txt is unreachable, because the server
        did not respond or responded with an error (5xx), and there is no older copy.
        """
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
        """The source of the robots.txt and the outcome of the fetch, as a JSON object. The key ``why`` contains a
        description for users. The other keys are ``outcome``, ``status``, ``redirects``, ``error``, ``html`` (whether
        the response is an HTML page) and ``fetched``.
        """
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
        """Return an excerpt of the robots.txt as a list of JSON objects. Each object contains the number of a line,
        ``line``, and its ``text``. Return an empty list if there is no robots.txt, or if *line* is None.

        *line* is the number of the line on which a decision is based. The excerpt contains this line, the two lines
        before and after it, and up to ten user-agent lines of its group. If the group has more than ten user-agent
        lines, those that name *agent* are chosen first, and then the last ones in the group.
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
        """Return the group of each rule and record, by the line number of the rule or record."""
        groups: dict[int, Group] = {}
        for group in self.read_as(dialect).groups:
            groups.update((rule.line, group) for rule in group.rules)
            groups.update((record.line, group) for record in group.records)
        return groups


SourcesByOrigin: TypeAlias = "dict[Origin | None, RulesSource]"
"""The rules that a crawl follows, by origin. The key None contains the rules for paths without an origin, such as
``/shop``. If nothing is known about the robots.txt of an origin, the dict does not contain the origin."""


def _known(sources: Mapping[Any, RulesSource | None]) -> SourcesByOrigin:
    return {origin: source for origin, source in sources.items() if source}


class Sources:
    """Returns the robots.txt for an origin. This class itself returns the same robots.txt for every origin. Its
    subclasses fetch the robots.txt of each origin, or read it from ledgers.
    """

    def __init__(self, source: RulesSource | None = None) -> None:
        self._source = source
        self.is_single = source is not None
        """Whether the same robots.txt is used for all origins."""
        self.origin = None if source is None else source.origin
        """The only origin to which the rules apply. None if there are rules for several origins. Also None if the
        origin is not known, as for a robots.txt in a local file."""

    async def load(self, origins: Iterable[Origin | None]) -> SourcesByOrigin:
        """Return the rules that a crawl follows at each of *origins*. An origin is missing in the result if nothing
        is known about its robots.txt.
        """
        return _known(dict.fromkeys(origins, self._source))


class LiveSources(Sources):
    """Fetches the robots.txt of each origin. If REP_OVERRIDES contains an override for an origin, the rules of the
    override are returned.
    """

    def __init__(self, profile: Profile, web: Web, *, sites: bool = False) -> None:
        """Create the object, and show warnings about expired and faulty overrides. If *sites* is True, :meth:`load`
        fetches a site's own robots.txt even if an override replaces it.
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
        """Return the rules that a crawl follows at each of *origins*. Files that are not cached are fetched
        concurrently.
        """
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
        """Return the override that replaces the robots.txt of *origin*; None if there is no override."""
        override = override_for(self._overrides, origin, self._now)
        return None if override is None or override.kind == "obey" else override


async def read_sources(
    names: Sequence[str], web: Web | None
) -> list[RulesSource | UsageError]:
    """Return the robots.txt files at the paths and URLs *names*, in the same order. For a file that cannot be read,
    and for an invalid URL, the result contains a UsageError. A URL without a path means the robots.txt of its host.
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
    """Return the URL *argument* or, if it has no path, the robots.txt URL of its origin. Raises UsageError if
    *argument* is not a URL.
    """
    url_to_judge = parse_argument(argument)
    parts = urlsplit(url_to_judge.url)
    if url_to_judge.origin and parts.path in {"", "/"} and not parts.query:
        return url_to_judge.origin.robotstxt_url
    return url_to_judge.url


# Reading robots.txt files from ledgers.

_REQUESTS = {
    # In decisions about items, links and files, the column "page" contains a URL. In decisions about requests, the
    # column is NULL.
    "decision": """
        layer IN ('robots.txt', 'override', 'delay') AND page IS NULL AND time <= :until
        AND verdict IN ('allowed', 'refused', 'would-refuse', 'would-allow')
    """,
    "snapshot": "fetched <= :until",
    "body": "sha256 IN (SELECT sha256 FROM main.snapshot)",
}
"""For each table of a ledger, the SQL condition for the rows that :class:`Ledgers` copies: decisions about requests,
and the robots.txt files."""

# Selects the latest decision on each URL. With max(time), SQLite takes the other columns from the row with the latest
# time. SQLite sorts on disk if the rows do not fit into memory.
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
    """Returns robots.txt files from ledgers. The caller must call ``close``."""

    def __init__(
        self,
        names: Sequence[LedgerName],
        conditions: Mapping[str, str] = _REQUESTS,
        **values: object,
    ) -> None:
        """Read the ledgers *names*. The parameters are the same as those of :class:`Ledgers`."""
        super().__init__()
        self.ledgers = Ledgers(names, conditions, **values)
        self.close = self.ledgers.close
        self.source = lru_cache(maxsize=8)(self._read)
        sql = "SELECT DISTINCT origin FROM decision WHERE origin != '' LIMIT 2"
        origins = [row["origin"] for row in self.ledgers.rows(sql)]
        self.has_origins = len(origins) > 1
        """Whether the ledgers contain URLs of several origins."""
        self.origin = None if self.has_origins else parse_origin("".join(origins))

    def urls(self, origin: Origin | None) -> Iterator[UrlToJudge]:
        """Yield the URLs in the ledgers, sorted by origin. If *origin* is not None, yield only the URLs of *origin*.
        The attribute ``row`` of each yielded object is the row of the latest decision on its URL.
        """
        for row in self.ledgers.rows(_DECISIONS, origin=origin and str(origin)):
            yield UrlToJudge(row["url"], parse_origin(row["origin"]), row)

    async def load(self, origins: Iterable[Origin | None]) -> SourcesByOrigin:
        """Return the latest robots.txt in the ledgers for each of *origins*. An origin is missing in the result if the
        ledgers contain no robots.txt of this origin. None, which stands for an unknown origin, is always missing.
        """
        return _known({origin: self._last(origin) for origin in dict.fromkeys(origins)})

    def _last(self, origin: Origin | None) -> RulesSource | None:
        row = next(self.ledgers.rows(_LAST, origin=origin and str(origin)), None)
        return self.source(row["id"]) if row else None

    def _read(self, snapshot_id: int | None) -> RulesSource | None:
        """Return a robots.txt that a crawl has stored in its ledger. *snapshot_id* is the ``id`` of the robots.txt in
        the table ``snapshot``. Return None if the table does not contain the id, or if the id is None.
        """
        row = next(self.ledgers.rows(_SNAPSHOT, id=snapshot_id), None)
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
"""The argument of ``scrapy rep diff`` that stands for the robots.txt files that the hosts have now. The command fetches
the robots.txt of each host whose URLs it compares."""


async def sources_of(
    names: Sequence[str],
    profile: Profile,
    web: Web | None,
    ledgers: Mapping[tuple[str, ...], LedgerSources],
) -> Sources | None:
    """Return the source of the rules for one side of a comparison. Raises UsageError if the source cannot be read.

    *names* are the command-line arguments of the side: the path or URL of a robots.txt, one or more ledgers, ``live``
    to fetch the robots.txt of each host, or the name of a dialect, such as ``google``. For a dialect, the result is
    None, because a dialect contains no rules.

    *ledgers* contains the open ledgers, by the tuple of the command-line arguments that name them.
    """
    if sources := ledgers.get(tuple(names)):
        return sources
    if len(names) > 1:
        raise UsageError(
            f"{', '.join(names)}: more than one OLD is given, and not all of them are ledgers. The last argument is "
            "NEW, all others are OLD. To compare two robots.txt files, give exactly two arguments"
        )
    if names[0] in profile.dialects:
        return None
    if names[0] == LIVE:
        assert web is not None
        return LiveSources(profile, web, sites=True)
    (source,) = await read_sources(names, web)
    if isinstance(source, UsageError):
        raise source
    return Sources(source)


def are_offline(names: Sequence[str], profile: Profile) -> bool:
    """Whether the sources to which the arguments *names* refer can be read without the network."""
    # If all arguments are names of dialects, the command fetches the robots.txt of each host, and compares how the
    # dialects read it.
    are_dialects = profile.dialects.keys() >= set(names)
    return not (are_dialects or LIVE in names or any(map(is_url, names)))
