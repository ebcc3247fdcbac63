"""``scrapy rep check``: whether URLs may be fetched, and by which rule."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from datetime import datetime, timezone
from io import BytesIO
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import UsageError

from scrapy_rep.commands import usage
from scrapy_rep.commands.output import CLEAN, FOUND, WRONG_USAGE, Output, notify
from scrapy_rep.commands.profile import decision_record, profile_of
from scrapy_rep.commands.sources import Live, OneFile, of_file
from scrapy_rep.commands.urls import UrlList, opened, parts
from scrapy_rep.commands.web import ask
from scrapy_rep.protocol.crawlers import CRAWLERS
from scrapy_rep.report.robotstxt import lines_of

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable

    from scrapy.settings import Settings

    from scrapy_rep.commands.sources import LoadedRobotsTxt, Rules
    from scrapy_rep.commands.urls import Asked
    from scrapy_rep.commands.web import Web
    from scrapy_rep.protocol.dialect import Dialect

EXCERPT = ("context", ("{line:blue>5}  {text}",))
"""The rows for the lines of :func:`lines_around`."""

_ROWS = (
    "{allowed:word<7}  {url:bold}",
    "  {why}",
    "  group: {agent}",
    EXCERPT,
    "  robots.txt: {robotstxt}, {access[why]}",
    "  crawl delay: {crawl_delay} s",
    "  request rate: {request_rate}",
    "  visit time: {visit_time} UTC",
    *usage.ROWS,
    "  sitemaps: {sitemaps}",
    ("dialects", ("  {name:<21}  {allowed:word<7}  {why}",)),
    ("crawlers", ("  {token:<21}  {allowed:word<7}  {why}   ({operator}, {purpose})",)),
    "",
)
_BRIEF_ROWS = (
    "{allowed:word}\t{url}\t{why}",
    ("dialects", ("{allowed:word}\t{url}\t{why}\t{name}",)),
    ("crawlers", ("{allowed:word}\t{url}\t{why}\t{token}",)),
)
_KEPT_OF_LINE = 200


def run(arguments: Namespace, settings: Settings) -> int:
    is_list = "-" in arguments.urls
    if is_list and (len(arguments.urls) > 1 or arguments.robots == "-"):
        raise UsageError("- reads all of standard input: give it once, as the only URL")
    checker = Checker(arguments, settings)
    given = None if arguments.robots is None else OneFile(of_file(arguments.robots))
    batches: Iterable[list[Asked]]
    if is_list:
        batches = urls = UrlList(opened("-"), "line")
    else:
        lines = "\n".join(arguments.urls).encode("utf-8", "replace")
        urls = UrlList(nullcontext(BytesIO(lines)), "argument")
        batches = list(urls)
        if not any(batches):
            if not urls.bad:
                raise UsageError("each URL is empty")
            return WRONG_USAGE
    checker.profile.notify()
    ask(
        checker.profile,
        lambda web: checker.run(batches, given, web),
        offline=given is not None,
    )
    if is_list:
        checker.sum_up(urls.bad)
    return WRONG_USAGE if urls.bad else checker.status


class Checker:
    """Shows the verdict on each URL as soon as it is known."""

    def __init__(self, arguments: Namespace, settings: Settings) -> None:
        self.profile = profile_of(arguments, settings)
        self.status = CLEAN
        self._output = Output(arguments)
        self._rows = _BRIEF_ROWS if arguments.brief else _ROWS
        self._with_dialects = arguments.dialects
        self._with_crawlers = arguments.agents
        self._counts: Counter[str] = Counter()

    async def run(
        self, batches: Iterable[list[Asked]], given: OneFile | None, web: Web | None
    ) -> None:
        """Show the verdicts by the *given* robots.txt, or by those on the *web*."""
        source: OneFile | Live | None = given
        if source is None:
            assert web is not None
            source = Live(self.profile, web, sites=self._with_crawlers)
        for batch in batches:
            for part in parts(batch):
                await source.load(each.origin for each in part if each.origin)
                for each in part:
                    self._show(each.url, source.rules(each.origin))
            self._output.flush()

    def sum_up(self, bad: int) -> None:
        """Report how many URLs of a list are allowed and denied."""
        counts = self._counts
        words = f"{counts['allowed']:,} allowed, {counts['denied']:,} denied"
        if counts["use denied"]:
            words += (
                f"; {counts['use denied']:,} of the allowed may not be used for a "
                "purpose of the crawl"
            )
        if bad:
            words += f"; lines that are not URLs: {bad:,}"
        notify(f"{counts['allowed'] + counts['denied']:,} URLs: {words}")

    def _show(self, url: str, rules: Rules) -> None:
        assert rules.followed
        record = self._record(url, rules.followed)
        if self._with_dialects:
            record |= self._in_dialects(url, rules.followed)
        if self._with_crawlers:
            record["crawlers"] = _of_crawlers(url, rules.site or rules.followed)
        is_denied = record["usage"]["denied"]
        if not record["allowed"] or is_denied:
            self.status = FOUND
        self._counts["allowed" if record["allowed"] else "denied"] += 1
        self._counts["use denied"] += record["allowed"] and is_denied
        self._output.show(record, self._rows)

    def _record(self, url: str, loaded: LoadedRobotsTxt) -> dict[str, Any]:
        profile = self.profile
        robots = loaded.read_as(profile.dialect)
        decision = profile.decide(robots, url, datetime.now(timezone.utc))
        rate = robots.request_rate(profile.agents)
        window = robots.visit_time(profile.agents)
        preferences = usage.robotstxt_usage(robots, url, profile)
        return {
            "url": url,
            **profile.record,
            **decision_record(decision, profile),
            "context": lines_around(robots.body, robots.dialect, decision.line),
            "robotstxt": loaded.result.url,
            "access": loaded.access,
            "crawl_delay": robots.crawl_delay(profile.agents),
            "request_rate": rate and f"{rate.requests}/{rate.seconds}s",
            "visit_time": window and f"{window.start:%H:%M}-{window.end:%H:%M}",
            "usage": usage.usage_record(preferences, profile),
            "sitemaps": list(robots.sitemaps),
        }

    def _in_dialects(self, url: str, loaded: LoadedRobotsTxt) -> dict[str, Any]:
        """Return what each dialect decides, and whether they agree."""
        profile, now = self.profile, datetime.now(timezone.utc)
        decisions = {
            name: profile.decide(loaded.read_as(dialect), url, now)
            for name, dialect in profile.dialects.items()
        }
        return {
            "dialects": {
                name: decision_record(each, profile) for name, each in decisions.items()
            },
            "agree": len({each.allowed for each in decisions.values()}) == 1,
        }


def _of_crawlers(url: str, loaded: LoadedRobotsTxt) -> list[dict[str, Any]]:
    """Return what the robots.txt of a site says to each well-known crawler."""
    return [
        {
            "token": crawler.token,
            "operator": crawler.operator,
            "purpose": crawler.purpose,
            "source": crawler.source,
            "dialect": crawler.dialect.name,
            **decision_record(
                loaded.read_as(crawler.dialect).decide(url, crawler.agents)
            ),
        }
        for crawler in CRAWLERS.values()
    ]


def lines_around(body: bytes, dialect: Dialect, line: int) -> list[dict[str, Any]]:
    """Return a line of a robots.txt, with two before and two after it."""
    if not line:
        return []
    first = max(line - 2, 1)
    around = lines_of(body, dialect)[first - 1 : line + 2]
    return [
        {"line": number, "text": text[:_KEPT_OF_LINE]}
        for number, text in enumerate(around, first)
    ]
