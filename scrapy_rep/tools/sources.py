"""Where commands get rules from: a file, a URL, the present files of all hosts, the settings."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from scrapy.exceptions import UsageError

from scrapy_rep.crawl.fetching.memory import LRU, parsed_size
from scrapy_rep.protocol.access.overrides import override_for
from scrapy_rep.protocol.access.results import (
    Access,
    AccessResult,
    Failure,
    renew,
    robots_of,
)
from scrapy_rep.protocol.origins import Origin, origin_of
from scrapy_rep.protocol.reasons import outcome
from scrapy_rep.protocol.robots import RobotsTxt
from scrapy_rep.protocol.robotstxt.rules import Reason
from scrapy_rep.tools.output import notify
from scrapy_rep.tools.urls import is_url, parse_argument, read_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scrapy_rep.protocol.access.overrides import Override
    from scrapy_rep.protocol.dialect import Dialect
    from scrapy_rep.tools.profile import Profile
    from scrapy_rep.tools.web import Web

# The limit of the cache of fetched files. A file that is dropped is fetched again.
_MAX_BYTES_KEPT = 64 * 1024 * 1024


@dataclass(eq=False)
class LoadedRobotsTxt:
    """A robots.txt, which can be read in each dialect, with its source."""

    result: AccessResult
    """The result of the fetch, as if a file or an override had been fetched."""

    override: Override | None = None
    """The override that it comes from, if one decides."""

    def __post_init__(self) -> None:
        self.read_as = cache(self._read_as)

    def _read_as(self, dialect: Dialect) -> RobotsTxt:
        if self.override is not None and self.override.robots is None:
            reason = Reason.OVERRIDE
            return RobotsTxt.blanket(allowed=True, reason=reason, dialect=dialect)
        if self.origin is None:
            return RobotsTxt.parse(self.result.body, dialect)
        entry = renew(self.result, None, dialect=dialect, now=time.time())
        return robots_of(entry, dialect)

    @property
    def origin(self) -> Origin | None:
        """The origin whose rules these are; None if they come from a file or an override."""
        return origin_of(self.result.url)

    @property
    def is_unreachable(self) -> bool:
        return self.result.access is Access.UNREACHABLE

    @property
    def is_unknown(self) -> bool:
        """Whether nothing has answered: the site may have no server, or this machine no network."""
        return self.is_unreachable and self.result.failure in {
            Failure.NETWORK,
            Failure.OWN,
        }

    @property
    def access(self) -> dict[str, Any]:
        """The result of loading it, as a JSON object."""
        result, status = self.result, None
        if self.override is not None:
            found, why = "override", "set in the settings"
        elif self.origin is None:
            found, why = "file", "a file"
        else:
            found, status = str(result.access), result.status
            why = f"{outcome(found)} ({result})"
            if result.redirects:
                why += f", redirected to {result.redirects[-1]}"
            if result.is_html:
                why += "; an HTML page, whose lines that look like rules are followed"
        return {
            "outcome": found,
            "status": status,
            "redirects": list(result.redirects),
            "error": result.error,
            "html": result.is_html,
            "why": why,
        }


class Rules(NamedTuple):
    """The rules for an origin."""

    site: LoadedRobotsTxt | None = None
    """What the site has; None if it is not known."""

    override: LoadedRobotsTxt | None = None
    """What REP_OVERRIDES say instead."""

    crawl: dict[str, Any] | None = None
    """The crawl whose ledger has it."""

    @property
    def followed(self) -> LoadedRobotsTxt | None:
        """The robots.txt that a crawl follows; None if it is not known."""
        return self.override or self.site


class Source:
    """Where the rules for each origin are from."""

    origin: Origin | None = None
    """The only origin that it has rules for; None for any."""

    async def load(self, origins: Iterable[Origin]) -> None:
        """Get what :meth:`rules` needs for these *origins*."""

    def rules(self, origin: Origin | None) -> Rules:
        raise NotImplementedError


class OneFile(Source):
    """One robots.txt, for all URLs."""

    def __init__(self, loaded: LoadedRobotsTxt) -> None:
        self._rules = Rules(loaded)
        self.origin = loaded.origin

    def rules(self, origin: Origin | None) -> Rules:
        return self._rules


class Live(Source):
    """The present robots.txt of each origin, or what REP_OVERRIDES say instead."""

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
        self._rules = {
            origin: Rules(self._kept.get(origin), self._override(origin))
            for origin in origins
        }
        missing = [
            origin
            for origin, rules in self._rules.items()
            if not rules.site and (self._with_sites or not rules.override)
        ]
        results = await self._web.robotstxts([each.robotstxt_url for each in missing])
        for origin, result in zip(missing, results, strict=True):
            site = LoadedRobotsTxt(result)
            self._rules[origin] = self._rules[origin]._replace(site=site)
            self._kept.put(origin, site, parsed_size(result.body))

    def rules(self, origin: Origin | None) -> Rules:
        return Rules() if origin is None else self._rules[origin]

    def _override(self, origin: Origin) -> LoadedRobotsTxt | None:
        found = override_for(self._profile.rep.overrides, origin, self._now)
        if found is None or found.kind == "obey":
            return None
        where = f"REP_OVERRIDES[{found.pattern!r}]{found.note}"
        body = found.robots.body if found.robots else b""
        return LoadedRobotsTxt(AccessResult(url=where, status=200, body=body), found)


def of_file(path: str) -> LoadedRobotsTxt:
    """Load a robots.txt file. Raises UsageError if it can't be read."""
    return LoadedRobotsTxt(AccessResult(url=path, status=200, body=read_file(path)))


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
        loaded |= zip(urls, map(LoadedRobotsTxt, results), strict=True)
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
