"""A Scrapy without one of the private names that this package uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy.core.engine import ExecutionEngine

from scrapy_rep.base import compat

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from typing_extensions import Self

_find = compat._find


class Without:
    """An object without one attribute."""

    def __init__(self, owner: Any, name: str) -> None:
        self._owner = owner
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name == self._name:
            raise AttributeError(name)
        return getattr(self._owner, name)


class SlotsWithout:
    """Download slots without one attribute."""

    def __init__(self, slots: dict[str, Any], name: str) -> None:
        self._slots = slots
        self._name = name

    def get(self, key: str, default: Any = None) -> Any:
        slot = self._slots.get(key)
        return default if slot is None else Without(slot, self._name)


class Missing:
    """An extension that hides the name in MISSING from this package, not from Scrapy: its own components
    need it.
    """

    def __init__(self, crawler: Crawler) -> None:
        missing = crawler.settings["MISSING"]
        # Without a wake-up, the engine asks its scheduler at each heartbeat.
        ExecutionEngine._SLOT_HEARTBEAT_INTERVAL = 0.5

        def find(owner: Any, path: str) -> Any:
            if missing.startswith("slot.") and path.endswith("slots"):
                return SlotsWithout(_find(owner, path), missing.removeprefix("slot."))
            *before, last = missing.split(".")
            if path == missing or (path == last and before):
                return _find(Without(object(), path), path)
            return _find(owner, path)

        compat._find = find

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)
