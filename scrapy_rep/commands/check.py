"""``scrapy rep check``: whether URLs may be fetched, and by which rule."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timezone
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import UsageError

from scrapy_rep.commands.output import (
    CLEAN,
    FOUND,
    WRONG_USAGE,
    Output,
    counted,
    notify,
    shortened,
)
from scrapy_rep.commands.profile import decision_record, profile_of, verdict
from scrapy_rep.commands.sources import Live, OneFile, access_words, of_file
from scrapy_rep.commands.urls import UrlList, parse_argument, parts
from scrapy_rep.commands.usage import robotstxt_usage, usage_record, usage_text
from scrapy_rep.commands.web import ask
from scrapy_rep.protocol.crawlers import CRAWLERS
from scrapy_rep.protocol.display import columns, visible
from scrapy_rep.protocol.robotstxt.lines import decoded_text

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Sequence

    from scrapy.settings import Settings

    from scrapy_rep.commands.output import Line
    from scrapy_rep.commands.sources import LoadedRobotsTxt, Rules
    from scrapy_rep.commands.urls import Asked
    from scrapy_rep.commands.web import Web
    from scrapy_rep.protocol.robots import RobotsTxt
    from scrapy_rep.protocol.robotstxt.groups import Group

# Limits of the output: sitemaps and agents, and characters of a line of robots.txt.
_SITEMAPS_SHOWN = 5
_AGENTS_SHOWN = 5
_SHOWN_OF_LINE = 120
_KEPT_OF_LINE = 1000


def run(arguments: Namespace, settings: Settings) -> int:
    is_list = "-" in arguments.urls
    if is_list and (len(arguments.urls) > 1 or arguments.robots == "-"):
        raise UsageError("- reads all of standard input: give it once, as the only URL")
    checker = Checker(arguments, settings)
    given = None if arguments.robots is None else OneFile(of_file(arguments.robots))
    checker.profile.notify()
    urls = UrlList("-") if is_list else [checker.parsed(arguments.urls)]
    if urls == [[]]:
        return WRONG_USAGE
    status = ask(
        checker.profile,
        lambda web: checker.run(urls, given, web),
        offline=given is not None,
    )
    if isinstance(urls, UrlList):
        checker.sum_up(urls.bad)
        return WRONG_USAGE if urls.bad else status
    return status


class Checker:
    """Shows the verdict on each URL as soon as it is known."""

    def __init__(self, arguments: Namespace, settings: Settings) -> None:
        self.profile = profile_of(arguments, settings)
        self._dialects = self.profile.dialects
        if not arguments.dialects:
            self._dialects = {self.profile.dialect.name: self.profile.dialect}
        self._output = Output(arguments)
        self._with_crawlers = arguments.agents
        self._is_brief = arguments.brief
        self._text = _brief_text if arguments.brief else self._full_text
        self._status = CLEAN
        self._counts: Counter[str] = Counter()

    def parsed(self, texts: Iterable[str]) -> list[Asked]:
        """Return the arguments that are URLs; report the others on standard error."""
        found = []
        for text in texts:
            try:
                found.append(parse_argument(text))
            except UsageError as error:
                self._status = WRONG_USAGE
                notify(str(error))
        return found

    async def run(
        self,
        batches: Iterable[list[Asked]],
        given: OneFile | None,
        web: Web | None,
    ) -> int:
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
        return self._status

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
        notify(f"{counted(counts['allowed'] + counts['denied'], 'URL')}: {words}")

    def _show(self, url: str, rules: Rules) -> None:
        assert rules.loaded
        record = self._record(url, rules.loaded)
        if self._with_crawlers:
            record["crawlers"] = _of_crawlers(url, rules.site or rules.loaded)
        is_denied = record["usage"]["denied"]
        if not record["allowed"] or is_denied:
            self._status = max(self._status, FOUND)
        self._counts["allowed" if record["allowed"] else "denied"] += 1
        self._counts["use denied"] += record["allowed"] and is_denied
        if self._is_brief:
            del record["usage"]
        self._output.show(record, self._text)

    def _record(self, url: str, loaded: LoadedRobotsTxt) -> dict[str, Any]:
        profile, now = self.profile, datetime.now(timezone.utc)
        decisions = {
            name: profile.decide(loaded.read_as(dialect), url, now)
            for name, dialect in self._dialects.items()
        }
        decision = decisions[profile.dialect.name]
        robots = loaded.read_as(profile.dialect)
        record = {
            "url": url,
            **profile.record,
            "dialect": profile.dialect.name,
            **decision_record(decision, profile),
            "usage": usage_record(robotstxt_usage(robots, url, profile), profile),
        }
        if not self._is_brief:
            rate = robots.request_rate(profile.agents)
            window = robots.visit_time(profile.agents)
            record |= {
                "group": list(_agents_of(robots, decision.line)),
                "context": lines_around(robots, decision.line),
                "robotstxt": loaded.where,
                "access": loaded.access,
                "crawl_delay": robots.crawl_delay(profile.agents),
                "request_rate": rate and f"{rate.requests}/{rate.seconds}s",
                "visit_time": window and f"{window.start:%H:%M}-{window.end:%H:%M}",
                "sitemaps": list(robots.sitemaps),
            }
        if len(decisions) > 1:
            record["dialects"] = {
                name: decision_record(each, profile) for name, each in decisions.items()
            }
            record["agree"] = len({each.allowed for each in decisions.values()}) == 1
        return record

    def _full_text(self, line: Line, record: dict[str, Any]) -> None:
        line("{:word}  {:bold}", verdict(record), record["url"])
        line("  {}{}", record["why"], _for_whom(record["agent"], record["group"]))
        if record["rule"]:
            line()
            excerpt(line, record["context"], record["rule"])
            line()
        line(
            "  robots.txt: {}, {}", record["robotstxt"], access_words(record["access"])
        )
        delay = record["crawl_delay"]
        if delay is not None:
            line(f"  crawl delay: {delay:g} {'second' if delay == 1 else 'seconds'}")
        if record["request_rate"]:
            line("  request rate: {}", record["request_rate"])
        if record["visit_time"]:
            line("  visit time: {} UTC", record["visit_time"])
        usage_text(line, record["usage"], shown=bool(self.profile.rep.purposes))
        for sitemap in record["sitemaps"][:_SITEMAPS_SHOWN]:
            line("  sitemap: {}", sitemap)
        left = len(record["sitemaps"]) - _SITEMAPS_SHOWN
        if left > 0:
            line(f"  and {left} more {'sitemap' if left == 1 else 'sitemaps'}")
        for name, each in record.get("dialects", {}).items():
            line("  {} {:word}  {}", f"{name:<10}", verdict(each), each["why"])
        _crawlers_text(line, record.get("crawlers", ()))
        if "agree" in record:
            style, agree = ("", "agree") if record["agree"] else ("yellow", "disagree")
            line(f"{{:{style}}}", f"  The dialects {agree}.")
        line()


def _brief_text(line: Line, record: dict[str, Any]) -> None:
    """Write one line: the verdict, then the verdicts of other dialects and crawlers."""
    template = "{:word}\t{}\t{}"
    cells = [verdict(record).strip(), record["url"], record["why"]]
    others = list(record.get("dialects", {}).items())[1:]
    others += [(each["token"], each) for each in record.get("crawlers", ())]
    for name, each in others:
        template += "\t{}: {:word}\t{}"
        cells += [name, verdict(each).strip(), each["why"]]
    line(template, *cells)


def _of_crawlers(url: str, loaded: LoadedRobotsTxt) -> list[dict[str, Any]]:
    """Return what the robots.txt of a site says to each well-known crawler."""
    found = []
    for crawler in CRAWLERS.values():
        robots = loaded.read_as(crawler.dialect)
        found.append(
            {
                "token": crawler.token,
                "operator": crawler.operator,
                "purpose": crawler.purpose,
                "source": crawler.source,
                "dialect": crawler.dialect.name,
                **decision_record(robots.decide(url, crawler.agents)),
            }
        )
    return found


def _crawlers_text(line: Line, crawlers: Sequence[dict[str, Any]]) -> None:
    """Write a table of crawlers, with a verdict on the same URL for each."""
    columns = ("token", "operator", "purpose")
    widths = {
        name: max((len(each[name]) for each in crawlers), default=0) for name in columns
    }
    for each in crawlers:
        cells = (f"{each[name]:<{widths[name]}}" for name in columns)
        whom = _for_whom(each["agent"], [])
        line("  {}  {:word}  {}{}", "  ".join(cells), verdict(each), each["why"], whom)


def _agents_of(robots: RobotsTxt, line: int) -> tuple[str, ...]:
    """Return the agents to whom the rule or delay on *line* applies."""
    for group in _groups(robots) if line else ():
        if any(rule.line == line for rule in group.rules):
            return group.agents
        for record in group.records:
            if record.line == line:
                # A delay belongs to the user-agent lines directly above it.
                runs = zip(group.agents, group.runs, strict=True)
                return tuple(agent for agent, run in runs if run == record.run)
    return ()


def lines_around(robots: RobotsTxt, line: int) -> list[dict[str, Any]]:
    """Return a line, with two before and two after it."""
    if not line:
        return []
    first = max(line - 2, 1)
    return [
        {"line": number, "text": text[:_KEPT_OF_LINE]}
        for number, text in enumerate(_lines(robots)[first - 1 : line + 2], first)
    ]


# Many URLs of a list may be judged by one file.
@lru_cache(maxsize=8)
def _groups(robots: RobotsTxt) -> tuple[Group, ...]:
    return robots.groups


@lru_cache(maxsize=8)
def _lines(robots: RobotsTxt) -> list[str]:
    # Split as the dialect splits lines, so that the line numbers agree.
    read = decoded_text(robots.body, robots.dialect).decode("utf-8", "replace")
    return read.removesuffix("\n").split("\n")


def _for_whom(agent: str | None, group: list[str]) -> str:
    if agent is None:
        return ""
    words = f", in the group for {'everyone' if agent == '*' else agent}"
    others = [each for each in group if each]
    if len(others) > 1:
        words += f" (it names {shortened(others, _AGENTS_SHOWN)})"
    return words


def excerpt(line: Line, context: list[dict[str, Any]], rule: dict[str, Any]) -> None:
    """Write the lines around a rule, with carets under its pattern."""
    width = max((len(str(each["line"])) for each in context), default=1)
    for each in context:
        margin = f"  {each['line']:>{width}} | "
        if each["line"] != rule["line"]:
            line("{:blue}{}", margin, _shortened(each["text"]))
            continue
        shown, start, end = _pointed(each["text"], rule["pattern"])
        line("{:blue}{}", margin, shown)
        indent = " " * columns(visible(shown[:start]))
        carets = "^" * max(columns(visible(shown[start:end])), 1)
        line("{:blue}{}{:red}", f"  {'':>{width}} | ", indent, carets)


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN_OF_LINE else text[:_SHOWN_OF_LINE] + "…"


def _pointed(text: str, pattern: str) -> tuple[str, int, int]:
    """Return a line, shortened, and the start and end of the pattern in it."""
    # A field name has no colon. A dialect may accept white space instead of the colon.
    after_name = text.find(":") + 1
    start = text.find(pattern[:_SHOWN_OF_LINE], after_name) if pattern else after_name
    start = max(start, 0)
    if start > _SHOWN_OF_LINE // 2:
        cut = start - _SHOWN_OF_LINE // 4
        text, start = "…" + text[cut:], start - cut + 1
    text = _shortened(text)
    return text, start, min(start + len(pattern), len(text))
