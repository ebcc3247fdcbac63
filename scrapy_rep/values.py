"""Values of settings, read and checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_rep.exceptions import SettingError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy.settings import BaseSettings


class Values:
    """The values of settings by their names, or else of *defaults*.

    Each method raises SettingError for a value that is not what it reads.
    """

    def __init__(self, settings: BaseSettings, defaults: Mapping[str, object]) -> None:
        self._settings = settings
        self._defaults = defaults

    def get(self, name: str) -> object:
        return self._settings.get(name, self._defaults[name])

    def flag(self, name: str) -> bool:
        try:
            return self._settings.getbool(name, bool(self._defaults[name]))
        except ValueError:
            raise SettingError(name, self._settings[name], "True or False") from None

    def one_of(self, name: str, *allowed: str) -> str:
        value = self.get(name)
        if value not in allowed:
            raise SettingError(name, value, " or ".join(map(repr, allowed)))
        return str(value)

    def name(self, name: str) -> str:
        value = self.get(name)
        if not isinstance(value, str) or not value:
            raise SettingError(name, value, "a name")
        return value

    def names(self, name: str) -> list[str]:
        """A list, or a text with commas between the names."""
        value = self.get(name)
        if isinstance(value, str):
            value = [part.strip() for part in value.split(",") if part.strip()]
        if not isinstance(value, (list, tuple)) or not all(
            isinstance(part, str) for part in value
        ):
            raise SettingError(name, value, "a list of names")
        return list(value)

    def seconds(self, name: str, *, least: float | None = None) -> float:
        """A number greater than 0, or not less than *least*."""
        value = self.get(name)
        try:
            seconds = float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            seconds = -1
        good = seconds > 0 if least is None else seconds >= least
        if not good or seconds == float("inf"):
            allowed = "greater than 0" if least is None else f"{least:g} or greater"
            raise SettingError(name, value, f"a number of seconds, {allowed}")
        return seconds

    def whole(self, name: str, *, least: int) -> int:
        value = self.get(name)
        try:
            number = int(str(value))
        except ValueError:
            number = least - 1
        if number < least:
            raise SettingError(name, value, f"a whole number, {least} or greater")
        return number
