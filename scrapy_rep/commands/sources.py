"""The two sources of rules that ``scrapy rep diff`` compares."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from scrapy.exceptions import UsageError

from scrapy_rep.commands.pastcrawls import PastCrawls, Rules
from scrapy_rep.commands.robotstxt import PresentFiles, of_arguments
from scrapy_rep.commands.urls import is_url
from scrapy_rep.protocol.dialect import DIALECTS
from scrapy_rep.protocol.origins import Origin, origin_of

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Mapping

    from scrapy_rep.commands.pastcrawls import Ledger
    from scrapy_rep.commands.profile import Profile
    from scrapy_rep.commands.robotstxt import LoadedRobotsTxt
    from scrapy_rep.commands.web import Web
    from scrapy_rep.protocol.dialect import Dialect

LIVE = "live"
"""The name of the present robots.txt files."""


class OneFile:
    """One robots.txt, for all URLs."""

    def __init__(self, loaded: LoadedRobotsTxt) -> None:
        self.loaded = loaded
        self.origin = origin_of(loaded.result.url) if loaded.result else None

    async def load(self, origins: Iterable[Origin]) -> None:
        pass

    def rules(self, origin: Origin | None) -> Rules:
        return Rules(self.loaded)


class Live:
    """The present robots.txt of each origin."""

    origin: Origin | None = None

    def __init__(self, present: PresentFiles) -> None:
        self._present = present
        self._rules: dict[Origin | None, Rules] = {}

    async def load(self, origins: Iterable[Origin]) -> None:
        self._rules = {None: Rules(None)}
        for origin, site in (await self._present.of(origins)).items():
            override = self._present.override(origin)
            self._rules[origin] = (
                Rules(override, site=site) if override else Rules(site)
            )

    def rules(self, origin: Origin | None) -> Rules:
        return self._rules[origin]


class Side(NamedTuple):
    """The old or the new rules."""

    name: str
    source: OneFile | Live | PastCrawls

    dialect: Dialect | None
    """The dialect to read them in, if this side names one."""


def needs_web(arguments: Namespace, profile: Profile) -> bool:
    """Whether robots.txt files must be fetched."""
    names = [*arguments.old, arguments.new]
    dialects = DIALECTS.keys() | {profile.dialect.name}
    return LIVE in names or any(map(is_url, names)) or dialects >= set(names)


async def sides_of(
    arguments: Namespace,
    profile: Profile,
    ledgers: Mapping[str, Ledger],
    web: Web | None,
) -> tuple[Side, Side]:
    """Load the sources that *arguments* name. Raises UsageError for those that can't be."""
    dialects = DIALECTS | {profile.dialect.name: profile.dialect}

    async def source(names: list[str]) -> OneFile | Live | PastCrawls | None:
        if all(name in ledgers for name in names):
            return PastCrawls([ledgers[name] for name in names])
        if len(names) > 1:
            raise UsageError("of several OLD, each must be a ledger")
        if names[0] in dialects:
            return None
        if names == [LIVE]:
            assert web is not None
            return Live(PresentFiles(profile, web))
        (loaded,) = await of_arguments(names, web)
        if isinstance(loaded, UsageError):
            raise loaded
        return OneFile(loaded)

    old, new = await source(arguments.old), await source([arguments.new])
    # A dialect reads the rules of the other side; two dialects read the present files.
    common = old or new or await source([LIVE])
    assert common is not None
    return (
        Side(", ".join(arguments.old), old or common, dialects.get(arguments.old[0])),
        Side(arguments.new, new or common, dialects.get(arguments.new)),
    )
