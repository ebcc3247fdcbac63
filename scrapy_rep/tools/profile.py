"""The crawler whose decisions a command shows: its agents, dialect and settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import UsageError
from scrapy.spiderloader import get_spider_loader

from scrapy_rep.base.identity import default_header, tokens_of
from scrapy_rep.base.settings import DEFAULTS, OBEY, USER_AGENT, RepSettings
from scrapy_rep.exceptions import SettingError
from scrapy_rep.protocol.agents import EVERYONE
from scrapy_rep.protocol.dialect import DIALECTS
from scrapy_rep.protocol.reasons import evidence, words_of
from scrapy_rep.protocol.request_target import decide
from scrapy_rep.protocol.robotstxt.rules import Decision, Reason
from scrapy_rep.tools.output import notify

if TYPE_CHECKING:
    from argparse import Namespace

    from scrapy import Spider
    from scrapy.settings import Settings

    from scrapy_rep.protocol.dialect import Dialect
    from scrapy_rep.protocol.robots import RobotsTxt


@dataclass(frozen=True)
class Profile:
    """The agents, the dialect and the settings of a crawler."""

    settings: Settings
    rep: RepSettings

    agents: tuple[str, ...]
    """Product tokens; only ``*`` if the settings name no crawler."""

    is_named: bool = True
    """Whether an option or a setting names the crawler."""

    @property
    def dialect(self) -> Dialect:
        return self.rep.dialect

    @property
    def dialects(self) -> dict[str, Dialect]:
        """The dialect of the crawler, and then the others, by name."""
        own = {self.dialect.name: self.dialect}
        return own | DIALECTS | own

    @property
    def is_off(self) -> bool:
        """Whether the settings make a crawl ignore robots.txt. The add-on changes the default of
        Scrapy, which is False as well.
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
        """Tell the user what to know about the verdicts: that nothing names the crawler, or that
        the settings ignore robots.txt.
        """
        if not self.is_named:
            whom = "everyone" if self.agents == (EVERYONE,) else repr(self.agents[0])
            notify(
                f"no setting names your crawler, so the rules for {whom} are followed. Name the "
                "crawler with --agent"
            )
        if self.is_off:
            notify(
                f"{OBEY} is False in the settings: a crawl fetches also what robots.txt "
                "forbids. The verdicts are those of robots.txt"
            )

    def decide(self, robots: RobotsTxt, url: str) -> Decision:
        """Return the decision of the rules on *url*."""
        return decide(robots, url, self.agents, self.rep.clients)

    def decide_as_crawl(self, robots: RobotsTxt, url: str) -> Decision:
        """Return the decision of a crawl on *url*. It also refuses what the rules allow if *robots*
        asks for a longer delay than the settings accept.
        """
        decision = self.decide(robots, url)
        if not decision.allowed or decision.reason is Reason.ROBOTS_TXT:
            return decision
        pace = robots.pace(self.agents)
        return decision if self.rep.accepts(pace) else pace.refusal(decision.agent)


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
    rule, (words, setting, _) = decision.rule, words_of(decision.reason)
    if decision.reason is not Reason.CRAWL_DELAY:
        words = "" if rule else words
    elif profile is not None:
        words += f"; {setting} is {profile.settings.get(setting, DEFAULTS[setting])}"
    statement = None if rule is None else str(rule)
    return evidence(words, statement, rule and rule.line, decision.form)


def profile_of(arguments: Namespace, settings: Settings) -> Profile:
    """Return the profile that the *arguments* and the *settings* describe.

    Raises UsageError for an agent, a dialect, a purpose or a spider that does not exist. A command
    without ``--agent`` has the rules for everyone.
    """
    given = getattr(arguments, "agent", [EVERYONE])
    agent = ",".join(given).strip(", ")
    if agent != EVERYONE:
        # The group for everyone is followed last in any case.
        agent = agent.removesuffix(EVERYONE).rstrip(", ")
    is_everyone = agent == EVERYONE
    options = {
        "REP_DIALECT": ("--dialect", arguments.dialect),
        "REP_PURPOSES": ("--purpose", ",".join(getattr(arguments, "purpose", ()))),
        USER_AGENT: ("--agent", None if is_everyone else given and (agent or " ")),
    }
    settings = settings.copy()
    spider = _spider(getattr(arguments, "spider", None), settings)
    # Reading these settings would create the folder of a crawl and the file of its store.
    settings.setdict({"JOBDIR": None, "REP_STORE": "memory://"}, "cmdline")
    for name, (_, value) in options.items():
        if value:
            settings.set(name, value, "cmdline")
    if is_everyone:
        settings.set(USER_AGENT, None, "cmdline")
    try:
        rep = RepSettings.from_settings(settings)
    except SettingError as error:
        # An error names the option that was given.
        message = str(error)
        for name, (option, value) in options.items():
            if value:
                message = message.replace(f"{name} is", f"{option} is")
        raise UsageError(message) from None
    if is_everyone or rep.agents:
        return Profile(settings, rep, rep.agents or (EVERYONE,))
    header = default_header(settings, spider)
    agents = tokens_of(header, settings)
    is_default = agents == tokens_of("", settings)
    is_default = is_default and not settings.getpriority("USER_AGENT")
    is_named = bool(agents) and not is_default
    return Profile(settings, rep, agents or (EVERYONE,), is_named)


def _spider(name: str | None, settings: Settings) -> type[Spider] | None:
    """Return the class of the spider with this name, if one is named, and read its settings."""
    if name is None:
        return None
    try:
        spider = get_spider_loader(settings).load(name)
    except KeyError as error:
        raise UsageError(error.args[0]) from None
    spider.update_settings(settings)
    return spider
