"""The subcommand ``scrapy rep check``, which shows whether URLs may be fetched, and which rule decides."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from io import BytesIO
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import UsageError

from scrapy_rep.protocol.crawlers import CRAWLERS
from scrapy_rep.tools.inputs import (
    LiveSources,
    RulesSource,
    Sources,
    UrlList,
    open_bytes,
    read_file,
)
from scrapy_rep.tools.output import (
    EXCERPT,
    WRONG_USAGE,
    Output,
    notify,
    progress,
    status_of,
)
from scrapy_rep.tools.profile import (
    USAGE_ROWS,
    ask,
    decision_record,
    profile_of,
    robotstxt_usage,
    usage_record,
)

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable

    from scrapy.settings import Settings

    from scrapy_rep.tools.inputs import UrlToJudge
    from scrapy_rep.tools.profile import Profile, Web

_ROWS = (
    "{allowed:word<7}  {url:bold}",
    "  {why}",
    "  group: {agent}",
    EXCERPT,
    "  robots.txt: {robotstxt}, {access[why]}",
    "  crawl delay: {crawl_delay} s",
    "  request rate: {request_rate}",
    *USAGE_ROWS,
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


def run(arguments: Namespace, settings: Settings) -> int:
    is_list = "-" in arguments.urls
    if is_list and (len(arguments.urls) > 1 or arguments.robots == "-"):
        raise UsageError(
            "'-' means standard input, which can be read only once; use it as the only URL, or only for --robots"
        )
    profile = profile_of(arguments, settings)
    robots_file, path = None, arguments.robots
    if path is not None:
        robots_file = RulesSource.from_text(path, read_file(path))
    batches: Iterable[list[UrlToJudge]]
    if is_list:
        batches = urls = UrlList(open_bytes("-"), "line")
    else:
        lines = "\n".join(arguments.urls).encode("utf-8", "replace")
        urls = UrlList(nullcontext(BytesIO(lines)), "argument")
        batches = list(urls)
        if not batches:
            if not urls.bad:
                raise UsageError("all URLs are empty; give at least one URL")
            return WRONG_USAGE
    profile.notify()
    counts: Counter[str] = Counter()
    answers: set[bool | None] = set()

    async def show(web: Web | None) -> None:
        """Show the verdict on each URL. The robots.txt files for a batch of URLs are fetched concurrently."""
        sources = Sources(robots_file)
        if web is not None:
            sources = LiveSources(profile, web, sites=arguments.agents)
        output = Output(arguments)
        rows = _BRIEF_ROWS if arguments.brief else _ROWS
        for batch in batches:
            sources_by_origin = await sources.load(
                url_to_judge.origin for url_to_judge in batch
            )
            for url_to_judge in batch:
                record = _record(
                    url_to_judge.url,
                    sources_by_origin[url_to_judge.origin],
                    profile,
                    arguments,
                )
                verdict = _VERDICTS[record["allowed"]]
                counts[verdict] += 1
                answer = record["allowed"] and not record["usage"]["denied"]
                counts["unusable"] += answer is not record["allowed"]
                answers.add(answer)
                output.show(record, rows, allowed=verdict)
            progress.say(f"{counts.total() - counts['unusable']:,} URLs judged")
            output.flush()

    ask(profile, show, offline=robots_file is not None)
    if is_list:
        notify(_summary(counts, urls.bad))
    return status_of(answers, has_invalid_input=bool(urls.bad))


def _summary(counts: Counter[str], bad: int) -> str:
    allowed, denied, unknown = (counts[verdict] for verdict in _VERDICTS.values())
    words = (
        f"{allowed + denied + unknown:,} URLs: {allowed:,} allowed, {denied:,} denied"
    )
    if unknown:
        words += f", {unknown:,} unknown"
    if unusable := counts["unusable"]:
        words += f"; {unusable:,} of the allowed URLs must not be used for a purpose of the crawl"
    if bad:
        words += f"; lines that are not URLs: {bad:,}"
    return words


def _record(
    url: str, source: RulesSource, profile: Profile, arguments: Namespace
) -> dict[str, Any]:
    """Return the verdict on *url* by the rules of *source*, as a JSON object."""
    robots = source.read_as(profile.dialect)
    decision = profile.decide_as_crawl(robots, url)
    rate = robots.request_rate(profile.agents)
    excerpt: list[dict[str, Any]] = []
    if arguments.json or not arguments.brief:
        excerpt = source.excerpt(decision.line, decision.agent, profile.dialect)
    preferences = robotstxt_usage(robots, url, profile)
    record = {
        "url": url,
        **profile.record,
        **decision_record(decision, profile, is_known=source.is_known),
        "context": excerpt,
        "robotstxt": source.url,
        "access": source.access,
        "crawl_delay": robots.crawl_delay(profile.agents),
        "request_rate": rate and f"{rate.requests}/{rate.seconds}s",
        "usage": usage_record(preferences, profile),
        "sitemaps": list(robots.sitemaps),
    }
    if arguments.dialects:
        decisions = {
            name: profile.decide_as_crawl(source.read_as(dialect), url)
            for name, dialect in profile.dialects.items()
        }
        record["dialects"] = {
            name: decision_record(decision, profile, is_known=source.is_known)
            for name, decision in decisions.items()
        }
        record["agree"] = (
            len({decision.allowed for decision in decisions.values()}) == 1
        )
    if arguments.agents:
        # Other crawlers follow the site's own robots.txt, even if the user's settings override it.
        site = source.site or source
        record["crawlers"] = [
            {
                "token": crawler.token,
                "operator": crawler.operator,
                "purpose": crawler.purpose,
                "source": crawler.source,
                "dialect": crawler.dialect.name,
                **decision_record(
                    site.read_as(crawler.dialect).decide(url, crawler.agents),
                    is_known=site.is_known,
                ),
            }
            for crawler in CRAWLERS.values()
        ]
    return record
