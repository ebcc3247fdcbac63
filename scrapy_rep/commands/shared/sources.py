"""Loads the robots.txt of each origin: from files, from the settings, or from the web."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from scrapy_rep.commands.shared.robotstxt import LoadedRobotsTxt
from scrapy_rep.commands.shared.urls import open_error
from scrapy_rep.protocol.robots import RobotsTxt
from scrapy_rep.stores.lru import LRU

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Sequence

    from scrapy_rep.commands.shared.profile import Profile
    from scrapy_rep.commands.shared.web import Web
    from scrapy_rep.protocol.dialect import Dialect
    from scrapy_rep.protocol.origins import Origin

    ByDialect = tuple[LoadedRobotsTxt, ...]
    """One robots.txt, parsed in each dialect."""

    Given = dict[Origin | None, ByDialect]

_T = TypeVar("_T")

# Parsed files that are kept in memory; those beyond are fetched again.
_MAX_KEPT = 5_000
_MAX_BYTES_KEPT = 64 * 1024 * 1024

# Bytes read of a file or of standard input: more than any dialect reads of a robots.txt.
_MAX_READ = 16 * 1024 * 1024


class Sources:
    """The robots.txt of each origin, in each of *dialects*.

    *given* are the files that the user named, by origin; the one under None is for every
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

    def at_hand(self, origin: Origin) -> ByDialect | None:
        """The robots.txt of *origin*, if it is given, overridden or still in memory."""
        return self._settled(origin) or self._kept.get(origin)

    async def of(self, origins: Collection[Origin]) -> dict[Origin, ByDialect]:
        """The robots.txt of each of *origins*; those that are missing are fetched side by side."""
        found = {}
        missing = []
        for origin in dict.fromkeys(origins):
            by_dialect = self.at_hand(origin)
            if by_dialect is None:
                missing.append(origin)
            else:
                found[origin] = by_dialect
        if missing:
            assert self._web is not None
            urls = [origin.robotstxt_url for origin in missing]
            results = await self._web.robotstxts(urls)
            for origin, result in zip(missing, results, strict=True):
                found[origin] = tuple(
                    LoadedRobotsTxt.of_result(result, dialect)
                    for dialect in self._dialects
                )
                cost = sum(loaded.cost for loaded in found[origin])
                self._kept.put(origin, found[origin], cost)
        return found

    def _settled(self, origin: Origin) -> ByDialect | None:
        if self._given:
            given = self._given.get(origin) or self._given.get(None)
            if given:
                return given
        for override in self._profile.rep.overrides:
            if override.covers(origin):
                if override.kind == "obey":
                    break
                return tuple(
                    LoadedRobotsTxt.of_override(override, dialect)
                    for dialect in self._dialects
                )
        return None


def given_robotstxt(path: str, dialects: Sequence[Dialect]) -> ByDialect:
    """The robots.txt in a file, in each dialect. Raises UsageError where it can't be read."""
    body = read_file(path)
    return tuple(
        LoadedRobotsTxt(RobotsTxt.parse(body, dialect), path) for dialect in dialects
    )


def ask(
    profile: Profile,
    dialects: Sequence[Dialect],
    given: Given,
    job: Callable[[Sources], Coroutine[None, None, _T]],
) -> _T:
    """What *job* returns with these sources. It runs in a crawl, unless every origin has a
    given file.
    """
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
    """The result of a *coroutine* that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        result: _T = stop.value
        return result
    coroutine.close()
    raise RuntimeError("the coroutine waits for something")


def read_file(path: str) -> bytes:
    """The bytes of a file, or of standard input for ``-``.

    Raises UsageError where it can't be read.
    """
    try:
        if path == "-":
            return sys.stdin.buffer.read(_MAX_READ)
        with Path(path).open("rb") as file:
            return file.read(_MAX_READ)
    except (OSError, ValueError) as error:
        raise open_error(path, error) from None


def is_url(argument: str) -> bool:
    """Whether an argument is a URL, and not a path."""
    return "://" in argument
