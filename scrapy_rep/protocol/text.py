r"""The grammar of robots.txt, and functions that make text from servers safe to display.

The grammar is a lenient form of RFC 9309, 2.2::

    robotstxt = *(line EOL)
    line      = WS [field WS ":" WS [value] WS] ["#" comment]
    WS        = *(SP / HTAB / VT / FF)
    EOL       = CR / LF / CRLF

    robotstxt = *other-line *group          ; how lines form groups
    group     = user-agent-line *(user-agent-line / other-line)
                [rule-line *(rule-line / other-line)]

:mod:`~scrapy_rep.protocol.robotstxt.lines` reads lines, and
:mod:`~scrapy_rep.protocol.robotstxt.groups` reads groups.
"""

from __future__ import annotations

import re

WHITE_SPACE = " \t\v\f"
"""The white space characters that may surround a field and its value."""

WS = rf"[{WHITE_SPACE}]*"
"""A regular expression for optional white space."""

NUL, CR, ESCAPE = b"\0\r\x1b"
"""Octets as integers: in 2 KB, ``in`` finds an integer in 80 ns, a bytes object in 500 ns."""

USER_AGENT = "user-agent"
RULES = ("allow", "disallow")
PACE_FIELDS = ("crawl-delay", "request-rate")
RUN_FIELDS = frozenset({*PACE_FIELDS, "content-signal"})
"""The fields of records that apply only to the run of user-agent lines directly above the record."""

SITEMAP = "sitemap"
"""A sitemap line belongs to no group. It ends neither a group nor a run of user-agent lines."""


MASK = "***"
"""The text that replaces user names and passwords."""

# The user information of a URL ends at the last "@" of its authority.
_USERINFO = r"(?<=//)[^/?#\s]*(?=@)"

# Matches credentials in the query of an address, which the Redis client also accepts.
_CREDENTIAL = r"((?:username|password)=)[^&\s]*"


def visible(text: str) -> str:
    r"""Return *text* on one line, with invisible characters as escapes.

    Control characters (C0, DEL, C1), characters that change the direction of writing,
    characters without a width, line separators, spaces except U+0020 and lone surrogates
    become Python escapes: ``\x1b``, ``\u202e``. So text from a server cannot control a terminal, or
    forge a log line. Backslashes are not changed.
    """
    if text.isprintable():
        return text
    return "".join(
        character
        if character.isprintable()
        else character.encode("unicode_escape").decode()
        for character in text
    )


def without_credentials(text: str) -> str:
    """Return *text* with the user names and passwords of all URLs in it masked."""
    return re.sub(_USERINFO, MASK, text) if "@" in text else text


def address_without_credentials(address: str) -> str:
    """Return the address of a store with its credentials masked, so that it can be logged.

    Masked are everything between ``//`` (or the start, if the address has no ``//``) and the last
    ``@``, and user names and passwords in the query. *address* may be malformed.
    """
    before, at, after = address.rpartition("@")
    if at:
        scheme, slashes, _ = before.partition("//")
        address = f"{scheme if slashes else ''}{slashes}{MASK}@{after}"
    return re.sub(_CREDENTIAL, rf"\1{MASK}", address)
