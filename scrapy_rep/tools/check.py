"""``scrapy rep check``: whether URLs may be fetched, and by which rule."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from io import BytesIO
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import UsageError

from scrapy_rep.tools import usage
from scrapy_rep.tools.crawlers import CRAWLERS
from scrapy_rep.tools.output import CLEAN, FOUND, UNKNOWN, WRONG_USAGE, Output, notify
from scrapy_rep.tools.profile import decision_record, profile_of
from scrapy_rep.tools.report.robotstxt import lines_of
from scrapy_rep.tools.sources import Live, OneFile, of_file
from scrapy_rep.tools.urls import UrlList, opened, parts
from scrapy_rep.tools.web import ask

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable

    from scrapy.settings import Settings

    from scrapy_rep.protocol.dialect import Dialect
    from scrapy_rep.tools.profile import Profile
    from scrapy_rep.tools.sources import LoadedRobotsTxt, Rules, Source
    from scrapy_rep.tools.urls import Asked
    from scrapy_rep.tools.web import Web

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
_VERDICTS = {True: "allowed", False: "denied", None: "unknown"}
_KEPT_OF_LINE = 200


def run(arguments: Namespace, settings: Settings) -> int:
    is_list = "-" in arguments.urls
    if is_list and (len(arguments.urls) > 1 or arguments.robots == "-"):
        raise UsageError("- reads all of standard input: give it once, as the only URL")
    profile = profile_of(arguments, settings)
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
    profile.notify()
    counts: Counter[str] = Counter()

    async def show(web: Web | None) -> None:
        """Show the verdict on each URL as soon as it is known."""
        source: Source | None = given
        if source is None:
            assert web is not None
            source = Live(profile, web, sites=arguments.agents)
        output = Output(arguments)
        rows = _BRIEF_ROWS if arguments.brief else _ROWS
        for batch in batches:
            for part in parts(batch):
                await source.load(each.origin for each in part if each.origin)
                for each in part:
                    record = _record(
                        each.url, source.rules(each.origin), profile, arguments
                    )
                    verdict = _VERDICTS[record["allowed"]]
                    counts[verdict] += 1
                    counts[f"{verdict}, use denied"] += record["usage"]["denied"]
                    output.show(record, rows, allowed=verdict)
            output.flush()

    ask(profile, show, offline=given is not None)
    allowed, denied, unknown = (counts[verdict] for verdict in _VERDICTS.values())
    unusable = counts["allowed, use denied"]
    if is_list:
        words = f"{allowed + denied + unknown:,} URLs: {allowed:,} allowed, {denied:,} denied"
        if unknown:
            words += f", {unknown:,} unknown"
        if unusable:
            words += f"; {unusable:,} of the allowed may not be used for a purpose of the crawl"
        if urls.bad:
            words += f"; lines that are not URLs: {urls.bad:,}"
        notify(words)
    if urls.bad:
        return WRONG_USAGE
    if denied or unusable:
        return FOUND
    return UNKNOWN if unknown else CLEAN


def _record(
    url: str, rules: Rules, profile: Profile, arguments: Namespace
) -> dict[str, Any]:
    """Return the verdict on a URL as a JSON object."""
    loaded = rules.followed
    assert loaded
    robots = loaded.read_as(profile.dialect)
    decision = profile.decide_as_crawl(robots, url)
    rate = robots.request_rate(profile.agents)
    preferences = usage.robotstxt_usage(robots, url, profile)
    record = {
        "url": url,
        **profile.record,
        **_verdict(decision_record(decision, profile), loaded),
        "context": lines_around(robots.body, robots.dialect, decision.line),
        "robotstxt": loaded.result.url,
        "access": loaded.access,
        "crawl_delay": robots.crawl_delay(profile.agents),
        "request_rate": rate and f"{rate.requests}/{rate.seconds}s",
        "usage": usage.usage_record(preferences, profile),
        "sitemaps": list(robots.sitemaps),
    }
    if arguments.dialects:
        decisions = {
            name: profile.decide_as_crawl(loaded.read_as(dialect), url)
            for name, dialect in profile.dialects.items()
        }
        record["dialects"] = {
            name: _verdict(decision_record(each, profile), loaded)
            for name, each in decisions.items()
        }
        record["agree"] = len({each.allowed for each in decisions.values()}) == 1
    if arguments.agents:
        record["crawlers"] = _of_crawlers(url, rules.site or loaded)
    return record


def _verdict(record: dict[str, Any], loaded: LoadedRobotsTxt) -> dict[str, Any]:
    """Return the record of a decision, in which nothing is allowed or denied if no server said so."""
    return {**record, "allowed": None} if loaded.is_unknown else record


def _of_crawlers(url: str, loaded: LoadedRobotsTxt) -> list[dict[str, Any]]:
    """Return what the robots.txt of a site says to each well-known crawler."""
    return [
        {
            "token": crawler.token,
            "operator": crawler.operator,
            "purpose": crawler.purpose,
            "source": crawler.source,
            "dialect": crawler.dialect.name,
            **_verdict(
                decision_record(
                    loaded.read_as(crawler.dialect).decide(url, crawler.agents)
                ),
                loaded,
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
