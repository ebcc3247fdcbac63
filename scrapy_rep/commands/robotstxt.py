"""The robots.txt files that commands judge by: from files, from the settings, from the web."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from scrapy.exceptions import UsageError

from scrapy_rep.commands.output import Painted, notify
from scrapy_rep.commands.urls import is_url, parse_argument, read_file
from scrapy_rep.protocol.access.overrides import override_for
from scrapy_rep.protocol.access.results import Access, AccessResult, renew, robots_of
from scrapy_rep.protocol.reasons import REASONS, Words
from scrapy_rep.protocol.robots import RobotsTxt
from scrapy_rep.protocol.robotstxt.decisions import Decision, Reason
from scrapy_rep.settings import DEFAULTS
from scrapy_rep.stores.memory import LRU

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Sequence

    from scrapy_rep.commands.profile import Profile
    from scrapy_rep.commands.web import Web
    from scrapy_rep.protocol.access.overrides import Override
    from scrapy_rep.protocol.dialect import Dialect
    from scrapy_rep.protocol.origins import Origin

_T = TypeVar("_T")

# The limit of the cache of fetched files. A file that is dropped is fetched again.
_MAX_BYTES_KEPT = 64 * 1024 * 1024


class LoadedRobotsTxt:
    """A robots.txt, which can be read in each dialect, with its source."""

    def __init__(
        self,
        where: str,
        parse: Callable[[Dialect], RobotsTxt],
        result: AccessResult | None = None,
        override: str | None = None,
    ) -> None:
        self.where = where
        """Its URL, the name of its file, or the setting."""

        self.result = result
        """The result of the fetch, if it was fetched."""

        self.override = override
        """The entry of REP_OVERRIDES that it comes from, with its reason and end; or None."""

        self._parse = parse
        self._read: dict[Dialect, RobotsTxt] = {}

    def read_as(self, dialect: Dialect) -> RobotsTxt:
        if dialect not in self._read:
            self._read[dialect] = self._parse(dialect)
        return self._read[dialect]

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


def of_file(path: str) -> LoadedRobotsTxt:
    """Load a robots.txt file. Raises UsageError if it can't be read."""
    return LoadedRobotsTxt(path, partial(RobotsTxt.parse, read_file(path)))


def of_result(result: AccessResult) -> LoadedRobotsTxt:
    now = time.time()

    def parse(dialect: Dialect) -> RobotsTxt:
        return robots_of(renew(result, None, dialect=dialect, now=now), dialect)

    return LoadedRobotsTxt(result.url, parse, result)


def of_override(override: Override) -> LoadedRobotsTxt:
    if override.robots is None:
        parse = partial(_blanket, reason=Reason.OVERRIDE)
    else:
        parse = partial(RobotsTxt.parse, override.robots.body)
    where = f"REP_OVERRIDES[{override.pattern!r}]{override.note}"
    return LoadedRobotsTxt(where, parse, override=str(override))


def _blanket(dialect: Dialect, reason: Reason) -> RobotsTxt:
    return RobotsTxt.blanket(allowed=True, reason=reason, dialect=dialect)


class PresentFiles:
    """The present robots.txt of each origin, and what REP_OVERRIDES says about it."""

    def __init__(self, profile: Profile, web: Web) -> None:
        self._profile = profile
        self._web = web
        self._kept: LRU[LoadedRobotsTxt] = LRU(_MAX_BYTES_KEPT)
        self._now = time.time()
        for each in profile.rep.overrides:
            if each.ends <= self._now:
                notify(each.end_notice)

    def override(self, origin: Origin) -> LoadedRobotsTxt | None:
        """Return the robots.txt that REP_OVERRIDES sets for *origin*, or None."""
        found = override_for(self._profile.rep.overrides, origin, self._now)
        return None if found is None or found.kind == "obey" else of_override(found)

    async def effective(
        self, origins: Iterable[Origin]
    ) -> dict[Origin, LoadedRobotsTxt]:
        """Return the robots.txt that a crawl follows for each origin."""
        overrides = {origin: self.override(origin) for origin in origins}
        wanted = [origin for origin, found in overrides.items() if found is None]
        found = {origin: found for origin, found in overrides.items() if found}
        return found | await self.of(wanted)

    async def of(self, origins: Iterable[Origin]) -> dict[Origin, LoadedRobotsTxt]:
        """Return the robots.txt of each origin, overrides aside; fetch unknown ones
        concurrently.
        """
        found = {origin: self._kept.get(origin) for origin in origins}
        missing = [origin for origin, loaded in found.items() if loaded is None]
        results = await self._web.robotstxts([each.robotstxt_url for each in missing])
        for origin, result in zip(missing, results, strict=True):
            found[origin] = loaded = of_result(result)
            self._kept.put(origin, loaded, loaded.read_as(self._profile.dialect).weight)
        return {origin: loaded for origin, loaded in found.items() if loaded}


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
                urls[each] = robotstxt_url(each)
            else:
                loaded[each] = of_file(each)
        except UsageError as error:
            loaded[each] = error
    if urls and web is not None:
        results = await web.robotstxts(urls.values())
        loaded |= zip(urls, map(of_result, results), strict=True)
    return [loaded[each] for each in arguments]


def robotstxt_url(argument: str) -> str:
    """Return the URL *argument*; for a URL without a path, the URL of robots.txt on its host.
    Raises UsageError if *argument* is not a URL.
    """
    asked = parse_argument(argument)
    parts = urlsplit(asked.url)
    if asked.origin and parts.path in {"", "/"} and not parts.query:
        return asked.origin.robotstxt_url
    return asked.url


def ask(
    profile: Profile,
    job: Callable[[Web | None], Coroutine[None, None, _T]],
    *,
    offline: bool = False,
) -> _T:
    """Run *job* in a crawl, and return its result. If it needs none (*offline*), it must not
    suspend, and gets None in place of the web.
    """
    if offline:
        coroutine = job(None)
        try:
            coroutine.send(None)
        except StopIteration as stop:
            result: _T = stop.value
            return result
        coroutine.close()
        raise RuntimeError("the coroutine was suspended")
    from scrapy_rep.commands.web import Web, in_crawl  # noqa: PLC0415

    return in_crawl(profile.settings, lambda crawler: job(Web(crawler, profile.rep)))


def decision_record(
    decision: Decision, profile: Profile | None = None
) -> dict[str, Any]:
    """Return a decision as a JSON object, with its reason in words. *profile* has the settings by
    which it was made, unless a crawl of the past made it.
    """
    return {
        **decision._asdict(),
        "rule": decision.rule and decision.rule._asdict(),
        "form": decision.form or None,
        "why": _why(decision, profile),
    }


def _why(decision: Decision, profile: Profile | None) -> str:
    """Return the reason of a decision in words, on one line."""
    rule, reason = decision.rule, str(decision.reason)
    words, setting = REASONS.get(reason, Words(reason))
    if reason in {Reason.CRAWL_DELAY, Reason.VISIT_TIME}:
        if profile is not None:
            value = profile.settings.get(setting, DEFAULTS[setting])
            words += f"; {setting} is {value}"
        words = f" ({words})"
    elif rule is not None:
        words = ""
    if rule is not None:
        words = f"line {rule.line}, {rule}".rstrip() + words
    return f"{words} (as {decision.form})" if decision.form else words


def verdict(record: dict[str, Any]) -> Painted:
    """Return whether a decision allows a URL, in a word of seven characters."""
    if record["allowed"]:
        return Painted("allowed", "green")
    return Painted("denied ", "red")


def access_words(access: dict[str, Any]) -> str:
    """Return the ``access`` of a robots.txt in words."""
    outcome = access["outcome"]
    if outcome in {"file", "override"}:
        return "set in the settings" if outcome == "override" else "given with --robots"
    words = f"status {access['status']}" if access["status"] else "no answer"
    words = f"{outcome} ({words}{': ' if access['error'] else ''}{access['error']})"
    if access["redirects"]:
        words += f", redirected to {access['redirects'][-1]}"
    if access["html"]:
        words += "; it is an HTML page, and lines that look like rules are followed"
    return words
