"""Where commands get rules from: a file, a URL, the present files of all hosts, the settings."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from scrapy.exceptions import UsageError

from scrapy_rep.commands.output import notify
from scrapy_rep.commands.urls import is_url, parse_argument, read_file
from scrapy_rep.protocol.access.overrides import override_for
from scrapy_rep.protocol.access.results import Access, AccessResult, renew, robots_of
from scrapy_rep.protocol.origins import Origin, origin_of
from scrapy_rep.protocol.reasons import outcome
from scrapy_rep.protocol.robots import RobotsTxt
from scrapy_rep.protocol.robotstxt.decisions import Reason
from scrapy_rep.stores.memory import LRU

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from scrapy_rep.commands.ledgers import PastCrawl
    from scrapy_rep.commands.profile import Profile
    from scrapy_rep.commands.web import Web
    from scrapy_rep.protocol.access.overrides import Override
    from scrapy_rep.protocol.dialect import Dialect

# The limit of the cache of fetched files. A file that is dropped is fetched again.
_MAX_BYTES_KEPT = 64 * 1024 * 1024


@dataclass(eq=False)
class LoadedRobotsTxt:
    """A robots.txt, which can be read in each dialect, with its source."""

    where: str
    """Its URL, the name of its file, or the setting."""

    parse: Callable[[Dialect], RobotsTxt]

    result: AccessResult | None = None
    """The result of the fetch, if it was fetched."""

    override: str | None = None
    """The entry of REP_OVERRIDES that it comes from, with its reason and end; or None."""

    def __post_init__(self) -> None:
        self.read_as = cache(self.parse)

    @property
    def is_unreachable(self) -> bool:
        return self.result is not None and self.result.access is Access.UNREACHABLE

    @property
    def access(self) -> dict[str, Any]:
        """The result of loading it, as a JSON object."""
        result = self.result or AccessResult(url=self.where, status=None)
        source = "file" if self.override is None else "override"
        return {
            "outcome": str(result.access) if self.result else source,
            "status": result.status,
            "redirects": list(result.redirects),
            "error": result.error,
            "html": result.is_html,
        }


class Rules(NamedTuple):
    """The rules for an origin."""

    loaded: LoadedRobotsTxt | None = None
    """The robots.txt that a crawl follows; None if it is not known."""

    crawl: PastCrawl | None = None
    """The crawl whose ledger has it."""

    site: LoadedRobotsTxt | None = None
    """What the site itself has, if REP_OVERRIDES decides."""


class OneFile:
    """One robots.txt, for all URLs."""

    def __init__(self, loaded: LoadedRobotsTxt) -> None:
        self.loaded = loaded
        self.origin = origin_of(loaded.result.url) if loaded.result else None

    async def load(self, origins: Iterable[Origin]) -> None:
        pass

    def rules(self, origin: Origin | None) -> Rules:
        return Rules(self.loaded)


class Live:
    """The present robots.txt of each origin, or what REP_OVERRIDES say instead."""

    origin: Origin | None = None

    def __init__(self, profile: Profile, web: Web, *, sites: bool = False) -> None:
        """*sites* says whether to fetch the robots.txt of an overridden site too."""
        self._profile = profile
        self._web = web
        self._with_sites = sites
        self._kept: LRU[LoadedRobotsTxt] = LRU(_MAX_BYTES_KEPT)
        self._rules: dict[Origin, Rules] = {}
        self._now = time.time()
        for each in profile.rep.overrides:
            if each.ends <= self._now:
                notify(each.end_notice)

    async def load(self, origins: Iterable[Origin]) -> None:
        """Fetch the robots.txt files of *origins* concurrently, unless they are known.
        After that, :meth:`rules` has the rules for these origins alone.
        """
        overrides = {origin: self._override(origin) for origin in origins}
        sites = {
            origin: self._kept.get(origin)
            for origin, override in overrides.items()
            if self._with_sites or not override
        }
        missing = [origin for origin, loaded in sites.items() if loaded is None]
        results = await self._web.robotstxts([each.robotstxt_url for each in missing])
        for origin, result in zip(missing, results, strict=True):
            sites[origin] = loaded = of_result(result)
            self._kept.put(origin, loaded, loaded.read_as(self._profile.dialect).weight)
        self._rules = {
            origin: Rules(override, site=sites.get(origin))
            if override
            else Rules(sites[origin])
            for origin, override in overrides.items()
        }

    def rules(self, origin: Origin | None) -> Rules:
        return Rules() if origin is None else self._rules[origin]

    def _override(self, origin: Origin) -> LoadedRobotsTxt | None:
        found = override_for(self._profile.rep.overrides, origin, self._now)
        return None if found is None or found.kind == "obey" else _of_override(found)


def of_file(path: str) -> LoadedRobotsTxt:
    """Load a robots.txt file. Raises UsageError if it can't be read."""
    return LoadedRobotsTxt(path, partial(RobotsTxt.parse, read_file(path)))


def of_result(result: AccessResult) -> LoadedRobotsTxt:
    now = time.time()

    def parse(dialect: Dialect) -> RobotsTxt:
        return robots_of(renew(result, None, dialect=dialect, now=now), dialect)

    return LoadedRobotsTxt(result.url, parse, result)


def _of_override(override: Override) -> LoadedRobotsTxt:
    def parse(dialect: Dialect) -> RobotsTxt:
        if override.robots is not None:
            return RobotsTxt.parse(override.robots.body, dialect)
        return RobotsTxt.blanket(allowed=True, reason=Reason.OVERRIDE, dialect=dialect)

    where = f"REP_OVERRIDES[{override.pattern!r}]{override.note}"
    return LoadedRobotsTxt(where, parse, override=str(override))


async def of_arguments(
    arguments: Sequence[str], web: Web | None
) -> list[LoadedRobotsTxt | UsageError]:
    """Load the files and URLs that *arguments* name, in order, with a UsageError in place of each
    that can't be loaded. For a URL without a path, load the robots.txt of its host.
    """
    loaded: dict[str, LoadedRobotsTxt | UsageError] = {}
    urls: dict[str, str] = {}
    for each in dict.fromkeys(arguments):
        try:
            if is_url(each):
                urls[each] = _robotstxt_url(each)
            else:
                loaded[each] = of_file(each)
        except UsageError as error:
            loaded[each] = error
    if urls and web is not None:
        results = await web.robotstxts(urls.values())
        loaded |= zip(urls, map(of_result, results), strict=True)
    return [loaded[each] for each in arguments]


def _robotstxt_url(argument: str) -> str:
    """Return the URL *argument*; for a URL without a path, the URL of robots.txt on its host.
    Raises UsageError if *argument* is not a URL.
    """
    asked = parse_argument(argument)
    parts = urlsplit(asked.url)
    if asked.origin and parts.path in {"", "/"} and not parts.query:
        return asked.origin.robotstxt_url
    return asked.url


def access_words(access: dict[str, Any]) -> str:
    """Return the ``access`` of a robots.txt in words."""
    found = access["outcome"]
    if found in {"file", "override"}:
        return "set in the settings" if found == "override" else "given with --robots"
    words = f"status {access['status']}" if access["status"] else "no answer"
    words = (
        f"{outcome(found)} ({words}{': ' if access['error'] else ''}{access['error']})"
    )
    if access["redirects"]:
        words += f", redirected to {access['redirects'][-1]}"
    if access["html"]:
        words += "; it is an HTML page, and lines that look like rules are followed"
    return words
