"""The crawler whose decisions a command shows: its agents, dialect and settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import UsageError

from scrapy_rep.exceptions import SettingError
from scrapy_rep.fetching.identity import default_header
from scrapy_rep.protocol.agents import EVERYONE, product_tokens
from scrapy_rep.protocol.request_target import decide
from scrapy_rep.settings import OBEY, USER_AGENT, RepSettings

if TYPE_CHECKING:
    from argparse import Namespace

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

    note: str
    """A message to the user if neither an option nor a setting names the crawler; or an empty
    string.
    """

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
    def notes(self) -> list[str]:
        """The messages to the user of a command that judges URLs."""
        found = [self.note] if self.note else []
        if self.is_off:
            found.append(
                f"{OBEY} is False in the settings: a crawl fetches also what robots.txt "
                "forbids. The verdicts are those of robots.txt"
            )
        return found

    @property
    def record(self) -> dict[str, Any]:
        """The agents, as a part of a JSON object."""
        return {"agents": list(self.agents), "agents_named": not self.note}

    def decide(self, robots: RobotsTxt, url: str) -> Decision:
        """Return the decision of this crawler on *url*."""
        return decide(robots, url, self.agents, self.rep.clients)


def profile_of(arguments: Namespace, settings: Settings) -> Profile:
    """Return the profile that the *arguments* and the *settings* describe.

    Raises UsageError for an agent, a dialect or a purpose that does not exist.
    """
    written = [name.strip() for each in arguments.agent for name in each.split(",")]
    names = [name for name in written if name] or written
    if len(names) > 1 and names[-1] == EVERYONE:
        # The group for everyone is followed last in any case.
        names.pop()
    settings = settings.copy()
    rep = _with_options(settings, arguments, names)
    if names == [EVERYONE]:
        return Profile(settings, rep, (EVERYONE,), "")
    if rep.agents:
        return Profile(settings, rep, rep.agents, "")
    header = default_header(settings)
    agents = product_tokens(header)
    note = ""
    if not agents:
        agents = (EVERYONE,)
        note = (
            f"the User-Agent {header!r} does not name a crawler, so the group for everyone "
            "(*) is followed. Name the crawler with --agent"
        )
    elif not settings.getpriority("USER_AGENT") and header == settings["USER_AGENT"]:
        note = (
            f"no setting names your crawler, so the rules for {agents[0]!r}, the default of "
            "USER_AGENT, are followed. Name the crawler with --agent"
        )
    return Profile(settings, rep, agents, note)


def _with_options(
    settings: Settings, arguments: Namespace, names: list[str]
) -> RepSettings:
    """Put the options into *settings*, and read them. An error names the option given."""
    # Reading these settings would create the folder of a crawl and the file of its store.
    changed: dict[str, Any] = {"JOBDIR": None, "REP_STORE": "memory://"}
    options = {}
    if names:
        # The User-Agent header of a browser has commas that do not separate tokens.
        given = arguments.agent if any("(" in name for name in names) else names
        changed[USER_AGENT] = None if names == [EVERYONE] else given
        options[USER_AGENT] = "--agent"
    if arguments.dialect is not None:
        changed["REP_DIALECT"] = arguments.dialect
        options["REP_DIALECT"] = "--dialect"
    purposes = [each for each in getattr(arguments, "purpose", ()) if each]
    if purposes:
        changed["REP_PURPOSES"] = ",".join(purposes)
        options["REP_PURPOSES"] = "--purpose"
    settings.setdict(changed, "cmdline")
    try:
        return RepSettings.from_settings(settings)
    except SettingError as error:
        message = str(error)
        for setting, option in options.items():
            message = message.replace(f"{setting} is", f"{option} is")
        raise UsageError(message) from None
