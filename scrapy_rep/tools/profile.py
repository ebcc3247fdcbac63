"""Determines the product tokens, dialect and settings with which a command judges URLs. This module also fetches
pages and robots.txt files for commands.
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
    """The product tokens, the dialect and the settings with which a command judges URLs."""

    settings: Settings
    rep: RepSettings

    agents: tuple[str, ...]
    """The product tokens of the crawler; only ``*`` if the settings name no crawler."""

    is_named: bool = True
    """Whether an option or a setting names the crawler."""

    ignored: tuple[str, ...] = ()
    """The names of this package's settings that a crawl would ignore, because the project does not use the add-on."""

    @property
    def dialect(self) -> Dialect:
        return self.rep.dialect

    @property
    def dialects(self) -> dict[str, Dialect]:
        """The ways to read robots.txt, by name: first the dialect of the crawler, then the other dialects of this
        package, such as ``google``.
        """
        first = {self.dialect.name: self.dialect}
        return first | DIALECTS | first

    @property
    def is_off(self) -> bool:
        """Whether the project sets ROBOTSTXT_OBEY to False, so that a crawl ignores robots.txt. Scrapy's default, also
        False, does not count, because the add-on replaces it with True.
        """
        return bool(self.settings.getpriority(OBEY)) and not self.rep.obey

    @property
    def record(self) -> dict[str, Any]:
        """The product tokens and the dialect, as a dict to add to a command's JSON object. Its keys are ``agents``,
        ``agents_named`` and ``dialect``.
        """
        return {
            "agents": list(self.agents),
            "agents_named": self.is_named,
            "dialect": self.dialect.name,
        }

    def notify(self) -> None:
        """Warn the user if neither an option nor a setting names the crawler. Also warn if a crawl with the project's
        settings would ignore robots.txt, or would ignore some ``REP_`` settings.
        """
        if self.ignored:
            notify(
                f"a crawl ignores {', '.join(self.ignored)}, because ADDONS does not contain "
                f"scrapy_rep.Addon; add ADDONS = {ADDON} to the settings"
            )
        if not self.is_named:
            whom = "everyone" if self.agents == (EVERYONE,) else repr(self.agents[0])
            notify(
                f"no setting names your crawler, so this command follows the rules for {whom}; name the "
                "crawler with --agent"
            )
        if self.is_off:
            notify(
                f"{OBEY} is False in the settings, so a crawl also fetches URLs that robots.txt "
                "forbids; the verdicts of this command still follow robots.txt"
            )

    def decide(self, robots: RobotsTxt, url: str) -> Decision:
        """Return whether the rules *robots* let this crawler fetch *url*, and which rule decides."""
        return decide(robots, url, self.agents, self.rep.clients)

    def decide_as_crawl(self, robots: RobotsTxt, url: str) -> Decision:
        """Return the decision of a crawl on *url*. *robots* contains the rules of the site. A crawl refuses a URL if a
        rule forbids it. A crawl also refuses a URL if *robots* states a longer delay than ``REP_SKIP_DELAY_OVER``.
        """
        decision = self.decide(robots, url)
        if not decision.allowed or decision.reason is Reason.ROBOTS_TXT:
            return decision
        pace = robots.pace(self.agents)
        return decision if self.rep.accepts(pace) else pace.refusal(decision.agent)


def decision_record(
    decision: Decision, profile: Profile | None = None, *, is_known: bool = True
) -> dict[str, Any]:
    """Return a decision as a JSON object. Its keys are the fields of Decision, and ``why``, the reason in words. If
    the reason is that the delay of the site is too long, and *profile* is given, ``why`` includes the maximum delay
    in the settings. If *is_known* is False, because the site's robots.txt is not known, the value of ``allowed`` is
    None.
    """
    return {
        **decision._asdict(),
        "allowed": decision.allowed if is_known else None,
        "rule": decision.rule and decision.rule._asdict(),
        "form": decision.form or None,
        "why": _why(decision, profile),
    }


def _why(decision: Decision, profile: Profile | None) -> str:
    """Return the reason for a decision in words, as one line, such as ``line 3, Disallow: /shop``. If the reason is
    that the delay of the site is too long, and *profile* is given, the line includes the maximum delay in the settings.
    """
    rule, (words, setting, _) = decision.rule, words_of(decision.reason)
    if decision.reason is not Reason.CRAWL_DELAY:
        words = "" if rule else words
    elif profile is not None:
        words += f"; {setting} is {profile.settings.get(setting, DEFAULTS[setting])}"
    statement = None if rule is None else str(rule)
    return evidence(words, statement, rule and rule.line, decision.form)


# Usage preferences.

USAGE_ROWS = (
    ("usage[purposes]", ("  for {name:bold}: {why}",)),
    "  licences and policies: {usage[licenses]}",
)
"""The rows (see :class:`~scrapy_rep.tools.output.Output`) that print the usage preferences for a URL. A command's JSON
object contains these preferences under the key ``usage``, in the form that :func:`usage_record` returns."""

_OUTCOMES = {True: "allowed", False: "disallowed", None: "unknown"}


def robotstxt_usage(robots: RobotsTxt, url: str, profile: Profile) -> UsagePreferences:
    """Return the usage preferences that *robots* states for *url*. HTTP clients differ in which characters of a URL
    they percent-encode. The result combines the preferences for all forms in which *url* can be sent.
    """
    preferences = NOTHING_STATED
    for form in forms(url, profile.rep.clients):
        preferences |= robots.usage(form, profile.agents)
    return preferences


def _purposes(profile: Profile) -> tuple[str, ...]:
    """Return the purposes of the crawl. If the settings contain no purposes, return all purposes."""
    return profile.rep.purposes or tuple(CATEGORIES)


def usage_record(preferences: UsagePreferences, profile: Profile) -> dict[str, Any]:
    """Return usage preferences as a JSON object with these keys:

    - ``purposes``: whether the page may be used for each purpose, such as ``{"search": {"allowed": True, "because":
      {...}, "why": "allowed by ..."}}``. ``because`` is the statement on which ``allowed`` is based, or None. The
      purposes are those in the settings, or all known purposes if the settings contain none.
    - ``statements``: the statements on which the preferences are based.
    - ``licenses``: the URLs of licences and policies.
    - ``denied``: whether a purpose in the settings is not allowed.
    """
    # The text output leaves out the purposes with an empty "why". The purposes in the settings are always shown, so
    # their "why" is never empty. If the settings contain no purposes, only the purposes about which the site states
    # something are shown.
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
    """Return the usage preferences for *url* that differ between the robots.txt files *old* and *new*, as a JSON
    object. Return None if there is no difference. The purposes in the settings are compared, or all known purposes if
    the settings contain none.

    The keys ``old`` and ``new`` each contain a dict with the purposes that differ. The values are True (allowed), False
    (disallowed) or None (unknown). The key ``why`` contains the differences in words.
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
    """Return the profile that the *arguments* and the *settings* define. For a subcommand without the option
    ``--agent``, return the profile of a crawler that follows the rules for everyone.

    Raises UsageError for an invalid agent, dialect or purpose, and for a spider that does not exist.
    """
    agent_options = getattr(arguments, "agent", [EVERYONE])
    agent = ",".join(agent_options).strip(", ")
    if agent != EVERYONE:
        # "*" at the end is redundant, because every crawler falls back to the groups for everyone.
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
    # JOBDIR and REP_STORE are reset, because reading them could create the job's folder and the file of the store.
    settings.setdict({"JOBDIR": None, "REP_STORE": "memory://"}, "cmdline")
    for name, (_, value) in options.items():
        if value:
            settings.set(name, value, "cmdline")
    if is_everyone:
        settings.set(USER_AGENT, None, "cmdline")
    try:
        rep = RepSettings(settings)
    except SettingError as error:
        # If the user gave an option, the message must name the option, not the setting.
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
    """Return the names of this package's settings that a crawl would ignore.

    If *settings* enable the add-on or a downloader middleware of this package, the result is empty. Otherwise, a crawl
    ignores all settings of this package that the project or the spider sets. If ``ROBOTSTXT_PARSER`` is the parser of
    this package, ``REP_DIALECT`` is not ignored, and is left out of the result.
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
            # The component cannot be imported, so it could belong to this package. To avoid a wrong warning, no
            # settings count as ignored.
            return ()
        if any(kind.__module__.startswith("scrapy_rep.") for kind in kinds):
            return ()
    return tuple(names)


def _spider(name: str | None, settings: Settings) -> type[Spider] | None:
    """Return the class of the spider *name*, and add the spider's settings to *settings*. Return None if *name* is
    None. Raises UsageError if the spider does not exist.
    """
    if name is None:
        return None
    try:
        spider = get_spider_loader(settings).load(name)
    except KeyError as error:
        raise UsageError(error.args[0]) from None
    spider.update_settings(settings)
    return spider


# Commands fetch in a separate crawl. This crawl uses the project's settings, such as proxies and User-Agent, but not
# the project's extensions, pipelines, feeds and queues.

_T = TypeVar("_T")

_ASYNCIO = "twisted.internet.asyncioreactor.AsyncioSelectorReactor"

# The settings that turn off everything that the project's crawls do besides fetching.
_QUIET: dict[str, Any] = {
    "DUPEFILTER_CLASS": default_settings.DUPEFILTER_CLASS,
    "EXTENSIONS": {},
    "EXTENSIONS_BASE": {},
    "FEEDS": {},
    "ITEM_PIPELINES": {},
    # True would redirect the command's results to the log.
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
        """Fetch the robots.txt files at *urls* concurrently. Return the results in the order of *urls*."""
        urls = list(urls)
        progress.say(f"fetching robots.txt of {len(urls):,} hosts")
        fetches = [
            deferred_from_coro(self._fetcher.fetch(url, [Request(url)])) for url in urls
        ]
        done = DeferredList(fetches, fireOnOneErrback=True, consumeErrors=True)
        return [result for _, result in await maybe_deferred_to_future(done)]

    async def page(self, url: str) -> Response:
        """Fetch *url*, and return the response. Redirects are not followed, so the response can be a redirect. If the
        download fails, its exception is raised.
        """
        progress.say(f"fetching {url}")
        request = Request(
            url,
            callback=NO_CALLBACK,
            dont_filter=True,
            meta={
                # The command checked the URL against robots.txt before this call.
                meta.DONT_OBEY_ROBOTSTXT: True,
                meta.DONT_OBEY_NOINDEX: True,
                # The crawl of a command has none of the purposes in REP_PURPOSES: the command shows the usage
                # preferences of the page, but does not use its content.
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
    """Run *job* in a crawl, and return the job's result or raise its exception. The job receives a :class:`Web`, with
    which it can fetch. Raises UsageError if Scrapy cannot start the crawl.

    With *offline*, *job* runs without a crawl and without an event loop. The job receives None in place of the Web, and
    must end without waiting: it cannot fetch or sleep.
    """
    if offline:
        try:
            job(None).send(None)
        except StopIteration as stop:
            result: _T = stop.value
            return result
        raise AssertionError(
            "a command that runs without a crawl has waited for an asynchronous result. This is a bug in scrapy-rep; "
            "please report it with this traceback"
        )
    settings = profile.settings.copy()
    settings.setdict(_QUIET, "cmdline")
    name = "DOWNLOADER_MIDDLEWARES"
    fetch_middleware = {FetchMiddleware: FetchMiddleware.ORDER}
    settings.set(name, {**settings.getdict(name), **fetch_middleware}, "cmdline")
    # Scrapy uses the same conditions to choose between AsyncCrawlerProcess and CrawlerProcess for its own commands.
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
    # With SIG_DFL, Ctrl-C ends the process immediately, even while it reads standard input. Scrapy's own handler would
    # wait for the requests in flight.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    process.start(install_signal_handlers=False)
    if not outcome.done():
        raise UsageError(
            "Scrapy could not start a crawl with these settings; its log contains the error"
        )
    return outcome.result()
