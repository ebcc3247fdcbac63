"""Loads robots.txt files: from files, from the settings, or from the web."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from scrapy.exceptions import UsageError

from scrapy_rep.commands.shared.robotstxt import LoadedRobotsTxt
from scrapy_rep.commands.shared.urls import is_url, parse_argument, read_file
from scrapy_rep.protocol.access.overrides import override_for
from scrapy_rep.protocol.robots import RobotsTxt
from scrapy_rep.stores.lru import LRU

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Sequence

    from scrapy_rep.commands.shared.profile import Profile
    from scrapy_rep.commands.shared.web import Web
    from scrapy_rep.protocol.dialect import Dialect
    from scrapy_rep.protocol.origins import Origin

    ByDialect = tuple[LoadedRobotsTxt, ...]
    """One robots.txt, parsed in each dialect."""

    Given = dict[Origin | None, ByDialect]

_T = TypeVar("_T")

# The limits of the cache of parsed files. A file that is dropped is fetched again.
_MAX_KEPT = 5_000
_MAX_BYTES_KEPT = 64 * 1024 * 1024


class Sources:
    """The robots.txt of each origin, in each of *dialects*.

    *given* has the files that the user named, by origin; the key None stands for every
    other origin.
    """

    def __init__(
        self,
        profile: Profile,
        dialects: Sequence[Dialect],
        given: Given,
        web: Web | None,
    ) -> None:
        self._profile = profile
        self._dialects = dialects
        self._given = given
        self._web = web
        self._kept: LRU[ByDialect] = LRU(_MAX_KEPT, _MAX_BYTES_KEPT)

    @property
    def web(self) -> Web:
        """The fetcher. Not available if a given file is for every origin."""
        assert self._web is not None
        return self._web

    async def of(self, origins: Iterable[Origin]) -> dict[Origin, ByDialect]:
        """Return the robots.txt of each origin; fetch unknown ones concurrently."""
        found = {}
        missing = []
        for origin in dict.fromkeys(origins):
            by_dialect = self._given_or_override(origin) or self._kept.get(origin)
            if by_dialect is None:
                missing.append(origin)
            else:
                found[origin] = by_dialect
        if missing:
            urls = [origin.robotstxt_url for origin in missing]
            results = await self.web.robotstxts(urls)
            for origin, result in zip(missing, results, strict=True):
                found[origin] = tuple(
                    LoadedRobotsTxt.of_result(result, dialect)
                    for dialect in self._dialects
                )
                weight = sum(loaded.robots.weight for loaded in found[origin])
                self._kept.put(origin, found[origin], weight)
        return found

    def _given_or_override(self, origin: Origin) -> ByDialect | None:
        """Return the robots.txt of *origin* if it is given or overridden, or else None."""
        given = self._given.get(origin) or self._given.get(None)
        if given:
            return given
        override = override_for(self._profile.rep.overrides, origin)
        if override is None or override.kind == "obey":
            return None
        return tuple(
            LoadedRobotsTxt.of_override(override, dialect) for dialect in self._dialects
        )


def given_robotstxt(path: str, dialects: Sequence[Dialect]) -> ByDialect:
    """Parse a robots.txt file in each dialect. Raises UsageError if it can't be read."""
    body = read_file(path)
    return tuple(
        LoadedRobotsTxt(RobotsTxt.parse(body, dialect), path) for dialect in dialects
    )


def given_files(
    arguments: Sequence[str], profile: Profile
) -> list[LoadedRobotsTxt | UsageError]:
    """Load what *arguments* name, in order, with a UsageError in place of each failure."""
    loaded: dict[str, LoadedRobotsTxt | UsageError] = {}
    urls: dict[str, str] = {}
    for each in dict.fromkeys(arguments):
        try:
            if is_url(each):
                urls[each] = _robotstxt_url(each)
            else:
                [loaded[each]] = given_robotstxt(each, [profile.dialect])
        except UsageError as error:
            loaded[each] = error
    if urls:
        targets = urls.values()
        results = ask(profile, [], {}, lambda sources: sources.web.robotstxts(targets))
        for each, result in zip(urls, results, strict=True):
            loaded[each] = LoadedRobotsTxt.of_result(result, profile.dialect)
    return [loaded[each] for each in arguments]


def _robotstxt_url(argument: str) -> str:
    """Return the URL *argument*; for a URL without a path, the URL of robots.txt on its host.
    Raises UsageError if *argument* is not a URL.
    """
    url, origin = parse_argument(argument)
    parts = urlsplit(url)
    if parts.path in {"", "/"} and not parts.query:
        return origin.robotstxt_url
    return url


def ask(
    profile: Profile,
    dialects: Sequence[Dialect],
    given: Given,
    job: Callable[[Sources], Coroutine[None, None, _T]],
) -> _T:
    """Run *job*: in a crawl, unless a given file is for every origin. Return its result."""
    if None in given:
        return finish(job(Sources(profile, dialects, given, None)))
    from scrapy_rep.commands.shared.web import Web, in_crawl  # noqa: PLC0415

    return in_crawl(
        profile.settings,
        lambda crawler: job(
            Sources(profile, dialects, given, Web(crawler, profile.rep))
        ),
    )


def finish(coroutine: Coroutine[None, None, _T]) -> _T:
    """Run a *coroutine* that never suspends, and return its result."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        result: _T = stop.value
        return result
    coroutine.close()
    raise RuntimeError("the coroutine was suspended")
