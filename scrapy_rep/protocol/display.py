"""Makes text from other sources safe to display in a terminal, a log or a report."""

from __future__ import annotations

import re

MASK = "***"
"""The text that replaces user names and passwords."""

# The user information of a URL ends at the last "@" of its authority.
_USERINFO = re.compile(r"(?<=//)[^/?#\s]*(?=@)")

# The Redis client also takes credentials from the query of an address.
_CREDENTIAL = re.compile(r"((?:username|password)=)[^&\s]*")


def visible(text: str) -> str:
    r"""Return *text* on one line, with invisible characters as escapes.

    Control characters (C0, DEL, C1), characters that change the direction of writing,
    characters without a width, line separators, spaces except U+0020 and lone surrogates
    become Python escapes: ``\x1b``, ``\u202e``. Backslashes are not changed.
    """
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode()
        for each in text
    )


def without_credentials(text: str) -> str:
    """Return *text* with the user names and passwords of all URLs in it masked."""
    return _USERINFO.sub(MASK, text) if "@" in text else text


def address_without_credentials(address: str) -> str:
    """Return the address of a store with its credentials masked: everything between ``//``
    (or the start, if it lacks them) and the last ``@``, and user names and passwords in the
    query. *address* may be malformed.
    """
    before, at, after = address.rpartition("@")
    if at:
        scheme, slashes, _ = before.partition("//")
        address = f"{scheme if slashes else ''}{slashes}{MASK}@{after}"
    return _CREDENTIAL.sub(rf"\1{MASK}", address)
