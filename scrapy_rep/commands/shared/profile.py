"""The crawler in whose name a question is asked: its agents, dialect and settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scrapy.exceptions import UsageError

from scrapy_rep.exceptions import SettingError
from scrapy_rep.fetching.identity import default_header
from scrapy_rep.protocol.agents import EVERYONE, product_tokens
from scrapy_rep.protocol.request_target import decide
from scrapy_rep.settings import USER_AGENT, RepSettings

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

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
    """Product tokens; ``*`` alone where the settings name no crawler."""

    note: str
    """A message to the user about the agents, or an empty string."""

    @property
    def dialect(self) -> Dialect:
        return self.rep.dialect

    def decide(
        self, robots: RobotsTxt, url: str, agents: Sequence[str] | None = None
    ) -> Decision:
        """What such a crawler decides; *agents* ask in the place of its own."""
        asking = self.agents if agents is None else agents
        return decide(robots, url, asking, self.rep.clients)


def profile_of(arguments: Namespace, settings: Settings) -> Profile:
    """The profile that the *arguments* and the *settings* describe.

    Raises UsageError for an agent, a dialect or a purpose that does not exist.
    """
    settings = settings.copy()
    # Reading these settings would create the folder of a crawl and the file of its store.
    settings.setdict({"JOBDIR": None, "REP_STORE": "memory://"}, "cmdline")
    written = [name.strip() for each in arguments.agent for name in each.split(",")]
    names = [name for name in written if name] or written
    if len(names) > 1 and names[-1] == EVERYONE:
        # The group for everyone is followed last in any case.
        names.pop()
    if names == [EVERYONE]:
        settings.set(USER_AGENT, None, "cmdline")
    elif names:
        # The header of a browser has commas that separate nothing.
        given = arguments.agent if any("(" in name for name in names) else names
        settings.set(USER_AGENT, given, "cmdline")
    if arguments.dialect is not None:
        settings.set("REP_GOOGLE_COMPATIBLE", False, "cmdline")
        settings.set("REP_DIALECT", arguments.dialect, "cmdline")
    purposes = [each for each in getattr(arguments, "purpose", ()) if each]
    if purposes:
        settings.set("REP_PURPOSES", ",".join(purposes), "cmdline")
    rep = _settings(settings, arguments)
    if names == [EVERYONE]:
        return Profile(settings, rep, (EVERYONE,), "")
    if rep.agents:
        return Profile(settings, rep, rep.agents, "")
    header = default_header(settings)
    agents = product_tokens(header)
    if agents:
        return Profile(settings, rep, agents, "")
    note = (
        f"The User-Agent {header!r} does not say which crawler this is; the group for everyone "
        "(*) is followed. Name the crawler with --agent."
    )
    return Profile(settings, rep, (EVERYONE,), note)


def _settings(settings: Settings, arguments: Namespace) -> RepSettings:
    """The settings of this package. An error names the option that was given, not its
    setting.
    """
    options = {
        USER_AGENT: ("--agent", arguments.agent),
        "REP_DIALECT": ("--dialect", arguments.dialect is not None),
        "REP_PURPOSES": ("--purpose", getattr(arguments, "purpose", None)),
    }
    try:
        return RepSettings.from_settings(settings)
    except SettingError as error:
        message = str(error)
        for setting, (option, is_given) in options.items():
            if is_given:
                message = message.replace(f"{setting} is", f"{option} is")
        raise UsageError(message) from None
