"""Text that strangers wrote, made fit to be printed on a terminal."""

from __future__ import annotations

import unicodedata


def visible(text: str) -> str:
    r"""*text* on one line, with everything in it visible.

    Control characters (C0, DEL, C1), those that turn the direction of writing, those
    without a width, line separators, spaces other than the common one and lone surrogates
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
