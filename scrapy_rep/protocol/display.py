"""Text from elsewhere, made fit to be displayed: in a terminal, a log or a report."""

from __future__ import annotations

import re
import unicodedata

MASK = "***"
"""What is displayed in the place of a user name or password."""

# The user information of a URL goes up to the last "@" of its authority.
_USERINFO = re.compile(r"(?<=//)[^/?#\s]*(?=@)")

# The client of Redis takes credentials from the query of an address too.
_CREDENTIAL = re.compile(r"((?:username|password)=)[^&\s]*")


def visible(text: str) -> str:
    r"""*text* on one line, with everything in it visible.

    Control characters (C0, DEL, C1), characters that change the direction of writing,
    characters without a width, line separators, spaces except U+0020 and lone surrogates
    become escapes as in Python: ``\x1b``, ``\u202e``. A backslash stays as it is.
    """
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode()
        for each in text
    )


def columns(text: str) -> int:
    """How many columns of a terminal visible text takes."""
    if text.isascii():
        return len(text)
    return sum(
        2 if unicodedata.east_asian_width(each) in "WF" else 1
        for each in text
        if not unicodedata.combining(each)
    )


def without_credentials(text: str) -> str:
    """*text* with the user names and passwords of all URLs in it masked."""
    return _USERINFO.sub(MASK, text) if "@" in text else text


def address_without_credentials(address: str) -> str:
    """The address of a store, which may be malformed, with user name and password masked:
    in the query, and all that stands before the last ``@``.
    """
    before, at, after = address.rpartition("@")
    if at:
        address = f"{before.partition('//')[0]}//{MASK}@{after}"
    return _CREDENTIAL.sub(rf"\1{MASK}", address)
