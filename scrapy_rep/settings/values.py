"""Values of settings, read and checked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from scrapy.utils.misc import load_object

from scrapy_rep.exceptions import SettingError
from scrapy_rep.protocol.agents import is_product_token, product_tokens
from scrapy_rep.protocol.usage.vocabulary import CATEGORIES

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

_ALLOWED_TOKENS = (
    "the name of the crawler, a product token of letters, digits, '_', '-' and '.' alone "
    "(RFC 9309, 2.2.1), or a list of such names"
)

_FLAGS = {
    "1": True, "True": True, "true": True, "0": False, "False": False, "false": False
}  # fmt: skip


class Values:
    """The values of settings by their names, or else of *defaults*.

    Each method raises SettingError for a value that is not what it reads.
    """

    def __init__(self, settings: BaseSettings, defaults: Mapping[str, object]) -> None:
        self.settings = settings
        self._defaults = defaults

    def get(self, name: str) -> object:
        return self.settings.get(name, self._defaults[name])

    def is_set(self, name: str) -> bool:
        return self.settings.get(name) is not None

    def error(self, name: str, allowed: str) -> SettingError:
        return SettingError(name, self.get(name), allowed)

    def flag(self, name: str) -> bool:
        value = self.get(name)
        found = _FLAGS.get(str(value)) if isinstance(value, (int, str)) else None
        if found is None:
            allowed = "True or False"
            for number in (f"{name}_MAX", f"{name}_WAIT"):
                if number in self._defaults:
                    allowed += f"; {number} is the setting that takes seconds"
            raise self.error(name, allowed)
        return found

    def one_of(self, name: str, *allowed: str) -> str:
        value = self.get(name)
        if value not in allowed:
            raise self.error(name, " or ".join(map(repr, allowed)))
        return str(value)

    def name(self, name: str) -> str:
        value = self.get(name)
        if not isinstance(value, str) or not value:
            raise self.error(name, "a name")
        return value

    def names(self, name: str) -> tuple[str, ...]:
        """A list, or a text with commas between the names, or a list in JSON."""
        found = _listed(self.get(name))
        if found is None:
            raise self.error(name, "a list of names")
        return tuple(found)

    def mapping(self, name: str, allowed: str) -> dict[str, object]:
        """A dictionary with texts for keys, or one in JSON; an empty text is an empty one."""
        value = self.get(name)
        if isinstance(value, str):
            value = _json(value) if value.strip() else {}
        if not isinstance(value, Mapping) or not all(
            isinstance(key, str) for key in value
        ):
            raise self.error(name, allowed)
        return dict(value)

    def purposes(self, name: str) -> tuple[str, ...]:
        """Categories of use, each once."""
        found = self.names(name)
        if not CATEGORIES.keys() >= set(found):
            allowed = f"a list of purposes, each one of {', '.join(CATEGORIES)}"
            raise self.error(name, allowed)
        return tuple(dict.fromkeys(found))

    def agents(self, name: str) -> dict[str, tuple[str, ...]]:
        """The product tokens for categories of use."""
        allowed = f"a dictionary of names by purpose: {', '.join(CATEGORIES)}"
        written = self.mapping(name, allowed)
        if not CATEGORIES.keys() >= written.keys() or not all(
            isinstance(value, (str, list, tuple)) and value
            for value in written.values()
        ):
            raise self.error(name, allowed)
        return {
            purpose: tokens_in(f"{name}[{purpose!r}]", value)
            for purpose, value in written.items()
        }

    def seconds(self, name: str, *, least: float | None = None) -> float:
        """A number greater than 0, or not less than *least*."""
        value = self.get(name)
        try:
            # True is no number of seconds, although Python counts with it.
            seconds = -1.0 if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError):
            seconds = -1.0
        good = seconds > 0 if least is None else seconds >= least
        if not good or seconds == float("inf"):
            allowed = "greater than 0" if least is None else f"{least:g} or greater"
            raise self.error(name, f"a number of seconds, {allowed}")
        return seconds

    def whole(self, name: str, *, least: int) -> int:
        value = self.get(name)
        try:
            number = int(str(value))  # Of a bool, or of a float, the text is no number.
        except ValueError:
            number = least - 1
        if number < least:
            raise self.error(name, f"a whole number, {least} or greater")
        return number

    def named(self, name: str, names: Mapping[str, object] | None = None) -> object:
        """The object that a setting chooses: by one of *names*, or by its import path.

        A value that is not a string is the object itself. None for a string that names
        nothing.
        """
        value = self.get(name)
        if not isinstance(value, str):
            return value
        if names and value in names:
            return names[value]
        try:
            return load_object(value)
        except (ImportError, NameError, TypeError, ValueError):
            return None


def tokens_in(setting: str, value: object) -> tuple[str, ...]:
    """The product tokens in the value of a *setting*: in a header, or in a list."""
    names = _listed(value)
    if isinstance(value, str) and names is not None:
        # A header of a browser has commas too; a list has tokens between them.
        names = names if names and all(map(is_product_token, names)) else [value]
    if names is None:
        raise SettingError(setting, value, _ALLOWED_TOKENS)
    tokens: list[str] = []
    for name in names:
        found = product_tokens(name)
        # A header says more than names; words alone are an attempt at one name.
        are_words = len(name.split()) > 1 and not set("/(;") & set(name)
        if are_words or not found:
            allowed = _ALLOWED_TOKENS
            if are_words and found:
                allowed += f"; as a token, {name!r} would be {found[0]!r}"
            raise SettingError(setting, value, allowed)
        tokens += found
    return tuple(dict.fromkeys(tokens))


def _listed(value: object) -> list[str] | None:
    """The texts of a list, of a list in JSON, or those between commas; None for all else."""
    if isinstance(value, str):
        if not value.lstrip().startswith("["):
            return [part.strip() for part in value.split(",") if part.strip()]
        value = _json(value)
    if not isinstance(value, (list, tuple)):
        return None
    return list(value) if all(isinstance(part, str) for part in value) else None


def _json(text: str) -> object:
    """What *text* is in JSON; None where it is none."""
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found
