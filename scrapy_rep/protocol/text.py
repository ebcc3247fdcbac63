r"""The grammar of robots.txt, and functions that make text safe to display and log.

The grammar is a lenient form of RFC 9309, 2.2::

    robotstxt = *(line EOL)
    line      = WS [field WS ":" WS [value] WS] ["#" comment]
    WS        = *(SP / HTAB / VT / FF)
    EOL       = CR / LF / CRLF

    robotstxt = *other-line *group          ; how lines form groups
    group     = user-agent-line *(user-agent-line / other-line)
                [rule-line *(rule-line / other-line)]

:mod:`~scrapy_rep.protocol.robotstxt.lines` parses lines, and
:mod:`~scrapy_rep.protocol.robotstxt.groups` parses groups.
"""

from __future__ import annotations

import re

WHITE_SPACE = " \t\v\f"
"""The white space characters that may surround a field and its value."""

WS = rf"[{WHITE_SPACE}]*"
"""A regular expression for optional white space."""

NUL, CR, ESCAPE = b"\0\r\x1b"
"""Octets as integers, because the operator ``in`` searches 2 KB of bytes for an integer in 80 ns, but for a
bytes object in 500 ns."""

USER_AGENT = "user-agent"
RULES = ("allow", "disallow")
PACE_FIELDS = ("crawl-delay", "request-rate")
RUN_FIELDS = frozenset({*PACE_FIELDS, "content-signal"})
"""The fields of records that do not apply to all crawlers of a group, but only to those in the closest user-agent lines
above the record. In the following group, the first delay applies only to ``a``, and the second only to ``b``::

    User-agent: a
    Crawl-delay: 1
    User-agent: b
    Crawl-delay: 5
    Disallow: /x
"""

SITEMAP = "sitemap"
"""The field of sitemap lines. A sitemap line belongs to no group. User-agent lines above and below it
belong together, as if the sitemap line were not there."""


MASK = "***"
"""The text that replaces user names and passwords."""

# Matches the user information of a URL, which ends at the last "@" of the authority.
_USERINFO = r"(?<=//)[^/?#\s]*(?=@)"

# Matches a user name or password in the query of an address, where the Redis client accepts them too.
_CREDENTIAL = r"((?:username|password)=)[^&\s]*"


def visible(text: str) -> str:
    r"""Return *text* as one line in which invisible characters are Python escapes, such as ``\x1b``.

    The escaped characters are control characters (C0, DEL, C1), characters that change the writing
    direction, zero-width characters, line separators, spaces except U+0020, and lone surrogates.
    So text from a server cannot control a terminal or forge a log line. Backslashes are not changed.
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
    """Return *text*, with the user name and password in each URL replaced by ``***``."""
    return re.sub(_USERINFO, MASK, text) if "@" in text else text


def address_without_credentials(address: str) -> str:
    """Return *address* with its credentials replaced by ``***``, so that it can be logged. *address* is where a
    crawl stores data, such as the URL of a Redis server.

    The text between ``//`` and the last ``@`` is replaced. If there is no ``//``, all text before the last
    ``@`` is replaced. User names and passwords in the query are replaced, too. The address may be
    malformed.
    """
    before, at, after = address.rpartition("@")
    if at:
        scheme, slashes, _ = before.partition("//")
        address = f"{scheme if slashes else ''}{slashes}{MASK}@{after}"
    return re.sub(_CREDENTIAL, rf"\1{MASK}", address)
