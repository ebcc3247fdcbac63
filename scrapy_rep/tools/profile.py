"""The crawler for which a command judges URLs: its product tokens, dialect and settings. This module also
runs the fetches of a command.
"""

from __future__ import annotations

import signal
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from scrapy import Request, Spider
from scrapy.crawler import AsyncCrawlerProcess, CrawlerProcess
from scrapy.exceptions import UsageError
from scrapy.http.request import NO_CALLBACK
from scrapy.settings import SETTINGS_PRIORITIES, default_settings
from scrapy.spiderloader import get_spider_loader
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from scrapy.utils.misc import load_object
from twisted.internet.defer import DeferredList

from scrapy_rep.base import meta
from scrapy_rep.base.identity import default_header, tokens_of
from scrapy_rep.base.settings import (
    ADDON,
    DEFAULTS,
    DIALECT,
    OBEY,
    PARSER,
    USER_AGENT,
    RepSettings,
)
from scrapy_rep.crawl.fetching.fetcher import RobotsTxtFetcher
from scrapy_rep.crawl.fetching.request import FetchMiddleware
from scrapy_rep.exceptions import SettingError
from scrapy_rep.protocol.agents import EVERYONE
from scrapy_rep.protocol.dialect import DIALECTS
from scrapy_rep.protocol.reasons import evidence, words_of
from scrapy_rep.protocol.request_target import decide, forms
from scrapy_rep.protocol.robotstxt.rules import Decision, Reason
from scrapy_rep.protocol.usage.preferences import NOTHING_STATED
from scrapy_rep.protocol.usage.statements import CATEGORIES
from scrapy_rep.tools.output import notify, progress

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterable

    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from scrapy.settings import Settings

    from scrapy_rep.protocol.access.results import AccessResult
    from scrapy_rep.protocol.dialect import Dialect
    from scrapy_rep.protocol.robots import RobotsTxt
    from scrapy_rep.protocol.usage.preferences import UsagePreferences
    from scrapy_rep.protocol.usage.statements import UsageStatement


@dataclass(frozen=True)
class Profile:
    """The agents, the dialect and the settings of a crawler."""

    settings: Settings
    rep: RepSettings

    agents: tuple[str, ...]
    """The product tokens of the crawler; only ``*`` if the settings name no crawler."""

    is_named: bool = True
    """Whether an option or a setting names the crawler."""

    ignored: tuple[str, ...] = ()
    """The settings of this package that a crawl ignores, because the project does not use the add-on."""

    @property
    def dialect(self) -> Dialect:
        return self.rep.dialect

    @property
    def dialects(self) -> dict[str, Dialect]:
        """All dialects by name, that of the crawler first."""
        first = {self.dialect.name: self.dialect}
        return first | DIALECTS | first

    @property
    def is_off(self) -> bool:
        """Whether the project has set ROBOTSTXT_OBEY to False, so that a crawl ignores robots.txt. Scrapy's
        default, False too, does not count, since the add-on changes it.
        """
        return bool(self.settings.getpriority(OBEY)) and not self.rep.obey

    @property
    def record(self) -> dict[str, Any]:
        """The agents and the dialect, as a part of a JSON object."""
        return {
            "agents": list(self.agents),
            "agents_named": self.is_named,
            "dialect": self.dialect.name,
        }

    def notify(self) -> None:
        """Warn the user if nothing names the crawler, or if a crawl with these settings would ignore
        robots.txt or the settings of this package.
        """
        if self.ignored:
            notify(
                f"a crawl ignores {', '.join(self.ignored)}, because ADDONS does not have "
                f"scrapy_rep.Addon. Write ADDONS = {ADDON} in the settings"
            )
        if not self.is_named:
            whom = "everyone" if self.agents == (EVERYONE,) else repr(self.agents[0])
            notify(
                f"no setting names your crawler, so the rules for {whom} are followed. Name the "
                "crawler with --agent"
            )
        if self.is_off:
            notify(
                f"{OBEY} is False in the settings, so a crawl also fetches URLs that robots.txt "
                "forbids. The verdicts here are those of robots.txt"
            )

    def decide(self, robots: RobotsTxt, url: str) -> Decision:
        """Return the decision of *robots* on *url* for the crawler."""
        return decide(robots, url, self.agents, self.rep.clients)

    def decide_as_crawl(self, robots: RobotsTxt, url: str) -> Decision:
        """Return the decision of a crawl on *url*: a crawl also refuses URLs that the rules allow, if
        *robots* asks for a longer delay than the settings accept.
        """
        decision = self.decide(robots, url)
        if not decision.allowed or decision.reason is Reason.ROBOTS_TXT:
            return decision
        pace = robots.pace(self.agents)
        return decision if self.rep.accepts(pace) else pace.refusal(decision.agent)


def decision_record(
    decision: Decision, profile: Profile | None = None, *, is_known: bool = True
) -> dict[str, Any]:
    """Return a decision as a JSON object, with its reason in words. *profile* is used to show the value
    of a setting in the reason. If *is_known* is False, because the robots.txt of the site is not known,
    the URL is neither allowed nor denied.
    """
    return {
        **decision._asdict(),
        "allowed": decision.allowed if is_known else None,
        "rule": decision.rule and decision.rule._asdict(),
        "form": decision.form or None,
        "why": _why(decision, profile),
    }


def _why(decision: Decision, profile: Profile | None) -> str:
    """Return the reason of a decision in words, on one line."""
    rule, (words, setting, _) = decision.rule, words_of(decision.reason)
    if decision.reason is not Reason.CRAWL_DELAY:
        words = "" if rule else words
    elif profile is not None:
        words += f"; {setting} is {profile.settings.get(setting, DEFAULTS[setting])}"
    statement = None if rule is None else str(rule)
    return evidence(words, statement, rule and rule.line, decision.form)


# The use of content.

USAGE_ROWS = (
    ("usage[purposes]", ("  for {name:bold}: {why}",)),
    "  licences and policies: {usage[licenses]}",
)
"""The rows that show the JSON object ``usage`` as text."""

_OUTCOMES = {True: "allowed", False: "disallowed", None: "unknown"}


def robotstxt_usage(robots: RobotsTxt, url: str, profile: Profile) -> UsagePreferences:
    """Return the usage preferences that *robots* states for a URL."""
    preferences = NOTHING_STATED
    for form in forms(url, profile.rep.clients):
        preferences |= robots.usage(form, profile.agents)
    return preferences


def _purposes(profile: Profile) -> tuple[str, ...]:
    """Return the purposes of the crawl, or all purposes if the crawl has none."""
    return profile.rep.purposes or tuple(CATEGORIES)


def usage_record(preferences: UsagePreferences, profile: Profile) -> dict[str, Any]:
    """Return the preferences as a JSON object. If the crawl has no purposes, purposes without a statement
    have no text, so that they are not shown.
    """
    rep = profile.rep
    has_purposes = bool(rep.purposes)
    denial = preferences.denial(rep.purposes, unknown=rep.usage_unknown)
    return {
        "purposes": {
            purpose: {
                "allowed": preferences.get(purpose),
                "because": because and _statement(because),
                "why": _usage_why(preferences, purpose)
                if has_purposes or because
                else "",
            }
            for purpose in _purposes(profile)
            for because in [preferences.because(purpose)]
        },
        "statements": [_statement(statement) for statement in preferences.statements],
        "licenses": list(preferences.licenses),
        "denied": denial is not None,
    }


def _statement(statement: UsageStatement) -> dict[str, Any]:
    return {**statement._asdict(), "why": str(statement)}


def usage_change(
    old: RobotsTxt, new: RobotsTxt, url: str, profile: Profile
) -> dict[str, Any] | None:
    """Return the purposes for which two robots.txt files state different preferences for a URL, as a JSON
    object that also has the changes in words; None if they agree.
    """
    before = robotstxt_usage(old, url, profile)
    after = robotstxt_usage(new, url, profile)
    changed = [
        purpose
        for purpose in _purposes(profile)
        if before.get(purpose) != after.get(purpose)
    ]
    if not changed:
        return None
    words = [
        f"{purpose} was {_usage_why(before, purpose)}, is now {_usage_why(after, purpose)}"
        for purpose in changed
    ]
    return {
        "old": {purpose: before.get(purpose) for purpose in changed},
        "new": {purpose: after.get(purpose) for purpose in changed},
        "why": "; ".join(words),
    }


def _usage_why(preferences: UsagePreferences, purpose: str) -> str:
    word = _OUTCOMES[preferences.get(purpose)]
    statement = preferences.because(purpose)
    return word if statement is None else f"{word} by {str(statement)[:200]}"


def profile_of(arguments: Namespace, settings: Settings) -> Profile:
    """Return the crawler that the *arguments* and the *settings* describe. For a subcommand that has no
    option ``--agent``, it is the crawler that follows the rules for everyone.

    Raises UsageError for an agent, a dialect, a purpose or a spider that does not exist.
    """
    agent_options = getattr(arguments, "agent", [EVERYONE])
    agent = ",".join(agent_options).strip(", ")
    if agent != EVERYONE:
        # "*" at the end is redundant: a crawler falls back to the group for everyone in any case.
        agent = agent.removesuffix(EVERYONE).rstrip(", ")
    is_everyone = agent == EVERYONE
    options = {
        "REP_DIALECT": ("--dialect", arguments.dialect),
        "REP_PURPOSES": ("--purpose", ",".join(getattr(arguments, "purpose", ()))),
        USER_AGENT: (
            "--agent",
            None if is_everyone else agent_options and (agent or " "),
        ),
    }
    settings = settings.copy()
    spider = _spider(getattr(arguments, "spider", None), settings)
    ignored = _ignored(settings)
    # Reading these settings would create the folder of a crawl and the file of its store.
    settings.setdict({"JOBDIR": None, "REP_STORE": "memory://"}, "cmdline")
    for name, (_, value) in options.items():
        if value:
            settings.set(name, value, "cmdline")
    if is_everyone:
        settings.set(USER_AGENT, None, "cmdline")
    try:
        rep = RepSettings(settings)
    except SettingError as error:
        # The message should name the option that the user has given, not the setting.
        message = str(error)
        for name, (option, value) in options.items():
            if value:
                message = message.replace(f"{name} is", f"{option} is")
        raise UsageError(message) from None
    if is_everyone or rep.agents:
        return Profile(settings, rep, rep.agents or (EVERYONE,), ignored=ignored)
    header = default_header(settings, spider)
    agents = tokens_of(header, settings)
    is_default = agents == tokens_of("", settings)
    is_default = is_default and not settings.getpriority("USER_AGENT")
    is_named = bool(agents) and not is_default
    return Profile(settings, rep, agents or (EVERYONE,), is_named, ignored)


def _ignored(settings: Settings) -> tuple[str, ...]:
    """Return the settings of this package that a crawl ignores: the project or its spider sets them, but
    enables neither the add-on nor a middleware of this package.
    """
    priorities = SETTINGS_PRIORITIES["project"], SETTINGS_PRIORITIES["spider"]
    names = [name for name in DEFAULTS if settings.getpriority(name) in priorities]
    if not names:
        return ()
    enabled = [*settings.getdict("ADDONS").items()]
    enabled += settings.getdict("DOWNLOADER_MIDDLEWARES").items()
    if str(settings[PARSER]).startswith("scrapy_rep."):
        names = [name for name in names if name != DIALECT]
    for key, order in enabled:
        if order is None:
            continue
        try:
            kinds = getattr(load_object(key), "__mro__", ())
        except (ImportError, NameError, TypeError, ValueError):
            return ()  # This component might be one of this package.
        if any(kind.__module__.startswith("scrapy_rep.") for kind in kinds):
            return ()
    return tuple(names)


def _spider(name: str | None, settings: Settings) -> type[Spider] | None:
    """Return the class of the spider *name*, and add its settings to *settings*; None without a name."""
    if name is None:
        return None
    try:
        spider = get_spider_loader(settings).load(name)
    except KeyError as error:
        raise UsageError(error.args[0]) from None
    spider.update_settings(settings)
    return spider


# A command fetches in a crawl of its own. This crawl has the settings of the project, such as proxies and
# User-Agent, but not its extensions, pipelines, feeds and queues.

_T = TypeVar("_T")

_ASYNCIO = "twisted.internet.asyncioreactor.AsyncioSelectorReactor"

# The settings that switch off everything that a crawl of the project does besides fetching.
_QUIET: dict[str, Any] = {
    "DUPEFILTER_CLASS": default_settings.DUPEFILTER_CLASS,
    "EXTENSIONS": {},
    "EXTENSIONS_BASE": {},
    "FEEDS": {},
    "ITEM_PIPELINES": {},
    # With True, the results of the command would go to the log.
    "LOG_STDOUT": False,
    "REP_LEDGER": None,
    "SCHEDULER": default_settings.SCHEDULER,
    "SPIDER_MIDDLEWARES": {},
    "STATS_CLASS": default_settings.STATS_CLASS,
}


class Web:
    """Fetches pages and robots.txt files through the engine of a running crawl."""

    def __init__(self, crawler: Crawler, settings: RepSettings) -> None:
        self._crawler = crawler
        self._fetcher = RobotsTxtFetcher(crawler, settings)

    async def robotstxts(self, urls: Iterable[str]) -> list[AccessResult]:
        """Fetch the robots.txt files at *urls* concurrently, and return the results in the same order."""
        urls = list(urls)
        progress.say(f"fetching robots.txt of {len(urls):,} hosts")
        fetches = [
            deferred_from_coro(self._fetcher.fetch(url, [Request(url)])) for url in urls
        ]
        done = DeferredList(fetches, fireOnOneErrback=True, consumeErrors=True)
        return [result for _, result in await maybe_deferred_to_future(done)]

    async def page(self, url: str) -> Response:
        """Fetch *url* without following redirects. Raises the exception of the download if it fails."""
        progress.say(f"fetching {url}")
        request = Request(
            url,
            callback=NO_CALLBACK,
            dont_filter=True,
            meta={
                # The command has already checked the URL against robots.txt.
                meta.DONT_OBEY_ROBOTSTXT: True,
                meta.DONT_OBEY_NOINDEX: True,
                # The command reads usage preferences; it does not use the content.
                meta.PURPOSES: [],
                "allow_offsite": True,
                "dont_cache": True,
                "dont_redirect": True,
                "handle_httpstatus_all": True,
            },
        )
        assert self._crawler.engine is not None
        return await self._crawler.engine.download_async(request)


def ask(
    profile: Profile,
    job: Callable[[Web | None], Coroutine[None, None, _T]],
    *,
    offline: bool = False,
) -> _T:
    """Run *job* in a crawl, so that it can fetch, and return its result or raise its exception.

    With *offline*, no crawl is started: the job gets None in place of a :class:`Web`, and must not
    wait for anything.
    """
    if offline:
        try:
            job(None).send(None)
        except StopIteration as stop:
            result: _T = stop.value
            return result
        raise AssertionError("the job waits for something")
    settings = profile.settings.copy()
    settings.setdict(_QUIET, "cmdline")
    name = "DOWNLOADER_MIDDLEWARES"
    fetch_middleware = {FetchMiddleware: FetchMiddleware.ORDER}
    settings.set(name, {**settings.getdict(name), **fetch_middleware}, "cmdline")
    # Scrapy chooses the process for its own commands in the same way.
    wants_asyncio = settings["TWISTED_REACTOR"] == _ASYNCIO
    wants_none = not settings.getbool("TWISTED_REACTOR_ENABLED", True)
    wants_asyncio = wants_asyncio and not settings.getbool("FORCE_CRAWLER_PROCESS")
    process = (
        AsyncCrawlerProcess(settings)
        if wants_none or wants_asyncio
        else CrawlerProcess(settings)
    )
    outcome: Future[_T] = Future()

    class FetchingSpider(Spider):
        name = "scrapy_rep"

        async def start(self) -> AsyncIterator[Any]:
            try:
                outcome.set_result(await job(Web(self.crawler, profile.rep)))
            except BaseException as error:  # noqa: BLE001  raised again below
                outcome.set_exception(error)
            return
            yield

    process.crawl(FetchingSpider)
    # Ctrl-C ends the process at once, even while it waits for standard input. Scrapy's own handler
    # would first wait for the requests in flight.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    process.start(install_signal_handlers=False)
    if not outcome.done():
        raise UsageError("Scrapy could not start with these settings; see its log")
    return outcome.result()
