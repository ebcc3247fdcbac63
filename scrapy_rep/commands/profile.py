"""The crawler whose decisions a command shows: its agents, dialect and settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import UsageError

from scrapy_rep.exceptions import SettingError
from scrapy_rep.fetching.identity import default_header
from scrapy_rep.protocol.agents import EVERYONE, product_tokens
from scrapy_rep.protocol.request_target import decide
from scrapy_rep.protocol.robotstxt.decisions import Reason
from scrapy_rep.settings import OBEY, USER_AGENT, RepSettings

if TYPE_CHECKING:
    from argparse import Namespace
    from datetime import datetime

    from scrapy.settings import Settings

    from scrapy_rep.protocol.dialect import Dialect
    from scrapy_rep.protocol.robots import RobotsTxt
    from scrapy_rep.protocol.robotstxt.decisions import Decision


@dataclass(frozen=True)
class Profile:
    """The agents, the dialect and the settings of a crawler."""

    settings: Settings
    rep: RepSettings

    agents: tuple[str, ...]
    """Product tokens; only ``*`` if the settings name no crawler."""

    notes: tuple[str, ...] = ()
    """What the user should know about the verdicts: that nothing names the crawler, or that the
    settings ignore robots.txt."""

    is_named: bool = True
    """Whether an option or a setting names the crawler."""

    @property
    def dialect(self) -> Dialect:
        return self.rep.dialect

    @property
    def is_off(self) -> bool:
        """Whether the settings make a crawl ignore robots.txt. The add-on changes the default of
        Scrapy, which is False as well.
        """
        return bool(self.settings.getpriority(OBEY)) and not self.rep.obey

    @property
    def record(self) -> dict[str, Any]:
        """The agents, as a part of a JSON object."""
        return {"agents": list(self.agents), "agents_named": self.is_named}

    def decide(
        self, robots: RobotsTxt, url: str, now: datetime | None = None
    ) -> Decision:
        """Return the decision on *url*: of the rules, or at the time *now* (UTC) that of a crawl.

        A crawl also refuses what the rules allow, if *robots* asks for a longer delay than the
        settings accept, or for visiting hours that are too far away.
        """
        decision = decide(robots, url, self.agents, self.rep.clients)
        if now is None or not decision.allowed or decision.reason is Reason.ROBOTS_TXT:
            return decision
        pace = robots.pace(self.agents)
        reason = self.rep.demand(pace, now).refusal
        return pace.refusal(reason, now, decision.agent) if reason else decision


def profile_of(arguments: Namespace, settings: Settings) -> Profile:
    """Return the profile that the *arguments* and the *settings* describe.

    Raises UsageError for an agent, a dialect or a purpose that does not exist. A command without
    ``--agent`` has the rules for everyone.
    """
    given = getattr(arguments, "agent", [EVERYONE])
    written = [name.strip() for each in given for name in each.split(",")]
    names = [name for name in written if name] or written
    if len(names) > 1 and names[-1] == EVERYONE:
        # The group for everyone is followed last in any case.
        names.pop()
    settings = settings.copy()
    # Reading these settings would create the folder of a crawl and the file of its store.
    settings.setdict({"JOBDIR": None, "REP_STORE": "memory://"}, "cmdline")
    options = {
        "REP_DIALECT": ("--dialect", arguments.dialect),
        "REP_PURPOSES": ("--purpose", ",".join(getattr(arguments, "purpose", ()))),
    }
    if names:
        # The User-Agent header of a browser has commas that do not separate tokens.
        value = given if any("(" in name for name in names) else names
        options[USER_AGENT] = ("--agent", None if names == [EVERYONE] else value)
    for name, (_, value) in options.items():
        if value or name == USER_AGENT:
            settings.set(name, value, "cmdline")
    try:
        rep = RepSettings.from_settings(settings)
    except SettingError as error:
        # An error names the option that was given.
        message = str(error)
        for name, (option, value) in options.items():
            if value:
                message = message.replace(f"{name} is", f"{option} is")
        raise UsageError(message) from None
    return _with_notes(Profile(settings, rep, rep.agents), names)


def _with_notes(profile: Profile, names: list[str]) -> Profile:
    settings, rep, agents = profile.settings, profile.rep, profile.agents
    note = ""
    if names == [EVERYONE]:
        agents = (EVERYONE,)
    elif not agents:
        header = default_header(settings)
        agents = product_tokens(header)
        if not agents:
            agents = (EVERYONE,)
            note = (
                f"the User-Agent {header!r} does not name a crawler, so the group for everyone "
                "(*) is followed. Name the crawler with --agent"
            )
        elif (
            not settings.getpriority("USER_AGENT") and header == settings["USER_AGENT"]
        ):
            note = (
                f"no setting names your crawler, so the rules for {agents[0]!r}, the default "
                "of USER_AGENT, are followed. Name the crawler with --agent"
            )
    notes = [note] if note else []
    if profile.is_off:
        notes.append(
            f"{OBEY} is False in the settings: a crawl fetches also what robots.txt forbids. The "
            "verdicts are those of robots.txt"
        )
    return Profile(settings, rep, agents, tuple(notes), is_named=not note)
