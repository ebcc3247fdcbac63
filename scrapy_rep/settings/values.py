"""Reads and checks the values of settings."""

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
    "the name of the crawler, a product token of only letters, digits, '_', '-' and '.' "
    "(RFC 9309, 2.2.1), or a list of such names"
)

_FLAGS = {
    "1": True, "True": True, "true": True, "0": False, "False": False, "false": False
}  # fmt: skip


class Values:
    """Reads settings by name, with *defaults* for those that are not set.

    Each method raises SettingError for a value of another kind.
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
                    allowed += f"; to set seconds, use {number}"
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
            raise self.error(name, "a string that is not empty")
        return value

    def names(self, name: str) -> tuple[str, ...]:
        """A list, a string of names with commas between them, or a list in JSON."""
        found = _listed(self.get(name))
        if found is None:
            raise self.error(name, "a list of strings, or one string with commas")
        return tuple(found)

    def mapping(self, name: str, allowed: str) -> dict[str, object]:
        """A dictionary with strings as keys, or one in JSON; empty for an empty string."""
        value = self.get(name)
        if isinstance(value, str):
            value = _json(value) if value.strip() else {}
        if not isinstance(value, Mapping) or not all(
            isinstance(key, str) for key in value
        ):
            raise self.error(name, allowed)
        return dict(value)

    def purposes(self, name: str) -> tuple[str, ...]:
        """A list of categories of use, without duplicates."""
        found = self.names(name)
        if not CATEGORIES.keys() >= set(found):
            allowed = f"a list of purposes, each one of {', '.join(CATEGORIES)}"
            raise self.error(name, allowed)
        return tuple(dict.fromkeys(found))

    def agents(self, name: str) -> dict[str, tuple[str, ...]]:
        """The product tokens by category of use."""
        allowed = (
            "a dict of crawler names, or lists of them, by purpose, each purpose one of "
            f"{', '.join(CATEGORIES)}"
        )
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
            # A bool is an int in Python, but not a number of seconds.
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
            number = int(str(value))  # Rejects bools and floats too.
        except ValueError:
            number = least - 1
        if number < least:
            raise self.error(name, f"a whole number, {least} or greater")
        return number

    def named(self, name: str, names: Mapping[str, object] | None = None) -> object:
        """The object that a setting names: by a key of *names*, or by an import path.

        A value that is not a string is the object itself. None for a string that names no
        object.
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
    """The product tokens in the *value* of *setting*: a User-Agent header or a list of names."""
    names = _listed(value)
    if isinstance(value, str) and names is not None:
        # A browser's User-Agent has commas too; only a list has product tokens between them.
        names = names if names and all(map(is_product_token, names)) else [value]
    if names is None:
        raise SettingError(setting, value, _ALLOWED_TOKENS)
    tokens: list[str] = []
    for name in names:
        found = product_tokens(name)
        # Several words without the punctuation of a User-Agent are an invalid name.
        are_words = len(name.split()) > 1 and not set("/(;") & set(name)
        if are_words or not found:
            allowed = _ALLOWED_TOKENS
            if are_words and found:
                allowed += f"; as a token, {name!r} would be {found[0]!r}"
            raise SettingError(setting, value, allowed)
        tokens += found
    return tuple(dict.fromkeys(tokens))


def _listed(value: object) -> list[str] | None:
    """The strings in a list, a list in JSON, or a string with commas; None for other values."""
    if isinstance(value, str):
        if not value.lstrip().startswith("["):
            return [part.strip() for part in value.split(",") if part.strip()]
        value = _json(value)
    if not isinstance(value, (list, tuple)):
        return None
    return list(value) if all(isinstance(part, str) for part in value) else None


def _json(text: str) -> object:
    """The value of *text* in JSON; None if it is not JSON."""
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found
