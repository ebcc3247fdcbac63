"""Values of settings, read and checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.utils.misc import load_object

from scrapy_rep.exceptions import SettingError
from scrapy_rep.protocol.agents import is_product_token, product_tokens
from scrapy_rep.protocol.usage.vocabulary import CATEGORIES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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

    def purposes(self, name: str) -> tuple[str, ...]:
        """Categories of use, each once."""
        found = self.names(name)
        if not CATEGORIES.keys() >= set(found):
            allowed = f"a list of purposes, each one of {', '.join(CATEGORIES)}"
            raise SettingError(name, self.get(name), allowed)
        return tuple(dict.fromkeys(found))

    def agents(self, name: str) -> dict[str, tuple[str, ...]]:
        """The product tokens for categories of use."""
        try:
            written = self._settings.getdict(name, self._defaults[name])  # type: ignore[arg-type]
        except (TypeError, ValueError):
            written = {"": None}
        if not CATEGORIES.keys() >= written.keys() or not all(
            isinstance(value, (str, list, tuple)) and value
            for value in written.values()
        ):
            allowed = f"a dictionary of names by purpose: {', '.join(CATEGORIES)}"
            raise SettingError(name, self.get(name), allowed)
        return {
            purpose: tokens_in(f"{name}[{purpose!r}]", value)
            for purpose, value in written.items()
        }

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


def named(value: object, names: Mapping[str, object]) -> object:
    """The object that a setting chooses: by one of *names*, or by its import path.

    A value that is not a string is the object itself. None for a string that names nothing.
    """
    if not isinstance(value, str):
        return value
    if value in names:
        return names[value]
    try:
        return load_object(value)
    except (ImportError, NameError, TypeError, ValueError):
        return None


def tokens_in(setting: str, value: str | Iterable[object]) -> tuple[str, ...]:
    """The product tokens in the value of a *setting*: in a header, or in a list."""
    if isinstance(value, str):
        names = [name.strip() for name in value.split(",")]
        # A header of a browser has commas too; a list has tokens between them.
        names = names if all(map(is_product_token, names)) else [value]
    else:
        names = [str(name) for name in value]
    tokens: list[str] = []
    for name in names:
        found = product_tokens(name)
        # A header says more than names; words alone are an attempt at one name.
        are_words = len(name.split()) > 1 and not set("/(;") & set(name)
        if are_words or not found:
            allowed = (
                "the name of the crawler, a product token of letters, digits, '_', '-' "
                "and '.' alone (RFC 9309, 2.2.1), or a list of such names"
            )
            if are_words and found:
                allowed += f"; as a token, {name!r} would be {found[0]!r}"
            raise SettingError(setting, value, allowed)
        tokens += found
    return tuple(dict.fromkeys(tokens))
