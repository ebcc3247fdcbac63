"""Simulates a version of Scrapy without one of the private names of Scrapy that scrapy_rep uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy.core.engine import ExecutionEngine

from scrapy_rep.base import compat

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from typing_extensions import Self

_find = compat._find


class WithoutAttribute:
    """Wraps the object *owner*, and hides its attribute *name*."""

    def __init__(self, owner: Any, name: str) -> None:
        self._owner = owner
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name == self._name:
            raise AttributeError(name)
        return getattr(self._owner, name)


class SlotsWithoutAttribute:
    """Wraps the dict of download slots, and hides the attribute *name* of each slot."""

    def __init__(self, slots: dict[str, Any], name: str) -> None:
        self._slots = slots
        self._name = name

    def get(self, key: str, default: Any = None) -> Any:
        slot = self._slots.get(key)
        return default if slot is None else WithoutAttribute(slot, self._name)


class HidePrivateName:
    """An extension that hides one of Scrapy's private names from scrapy_rep. The setting MISSING contains the name,
    such as ``"slot.delay"``.

    Scrapy itself still finds the name, since Scrapy needs it.
    """

    def __init__(self, crawler: Crawler) -> None:
        missing = crawler.settings["MISSING"]
        # If scrapy_rep cannot wake the engine up, the engine asks for requests only at its heartbeats. They must be
        # frequent, or the test would be slow.
        ExecutionEngine._SLOT_HEARTBEAT_INTERVAL = 0.5

        def find(owner: Any, path: str) -> Any:
            if missing.startswith("slot.") and path.endswith("slots"):
                return SlotsWithoutAttribute(
                    _find(owner, path), missing.removeprefix("slot.")
                )
            *before, last = missing.split(".")
            if path == missing or (path == last and before):
                return _find(WithoutAttribute(object(), path), path)
            return _find(owner, path)

        compat._find = find

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)
