"""Product tokens: the names by which a robots.txt addresses crawlers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from scrapy_rep.protocol.text import WHITE_SPACE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from collections.abc import Set as AbstractSet

    from scrapy_rep.protocol.dialect import Dialect

EVERYONE = "*"

_LETTERS = re.compile(rb"([A-Za-z_-]*)[A-Za-z0-9_.-]*").match
_TOKEN = re.compile(rb"[^\s/*]*").match
_WHITE_SPACE = WHITE_SPACE.encode()

# Matches a comment of a User-Agent header: text in parentheses; the closing one may be missing.
_COMMENT = re.compile(r"\(([^()]*)\)?")

_PRODUCT_TOKEN = re.compile(r"[A-Za-z0-9_.-]+").fullmatch
_RFC_TOKEN = re.compile(r"[A-Za-z_-]+").fullmatch

# The names of browsers and their engines, in lower case. Such a name in a header is not a crawler's.
_BROWSERS = frozenset(
    {
        "applewebkit", "android", "chrome", "chromium", "crios", "cros", "dalvik",
        "edg", "edga", "edge", "edgios", "firefox", "fxios", "gecko", "headlesschrome",
        "iemobile", "instagram", "iphone", "ipad", "ipod", "khtml", "linux", "macintosh",
        "mobile", "mozilla", "msie", "navigator", "netscape", "opera", "opios", "opr",
        "presto", "safari", "samsungbrowser", "seamonkey", "trident", "ubuntu",
        "ucbrowser", "version", "vivaldi", "webkit", "windows", "x",
    }
)  # fmt: skip


def is_product_token(token: str) -> bool:
    """Whether *token* has only letters, digits, ``_``, ``-`` and ``.``, the characters of the names
    in real robots.txt files. RFC 9309 allows fewer (see :func:`is_rfc_token`).
    """
    return bool(_PRODUCT_TOKEN(token))


def is_rfc_token(token: str) -> bool:
    """Whether *token* has only letters, ``_`` and ``-`` (RFC 9309, 2.2.1)."""
    return bool(_RFC_TOKEN(token))


def product_tokens(user_agent: str) -> tuple[str, ...]:
    """Return the product tokens in a crawler's ``User-Agent`` header.

    ``mybot`` and ``mybot/1.0`` give ``mybot``. In a header that begins like a browser's, the
    crawler's name is in a comment: ``compatible; mybot/1.0; +url``. The result leaves out the
    names of browsers, and names that are not product tokens.
    """
    user_agent = user_agent[:2048]
    tokens = _names(_COMMENT.sub(" ", user_agent).split())
    if not tokens:
        for comment in _COMMENT.findall(user_agent):
            parts = [part.strip() for part in comment.split(";")]
            if "compatible" in parts:
                tokens += _names(parts[parts.index("compatible") + 1 :])
            elif any("://" in part for part in parts):
                tokens += _names(parts)
    return tuple(dict.fromkeys(tokens))


def _names(products: list[str]) -> list[str]:
    """Return the names in *products*, such as ``mybot/1.0``, without those of browsers. A name without
    a version counts only if it is the first.
    """
    names = []
    for position, product in enumerate(products):
        name, slash, _ = product.partition("/")
        if not is_product_token(name) or " " in product or name.lower() in _BROWSERS:
            continue
        if slash or not position:
            names.append(name)
    return names


def choose_agent(
    agents: Iterable[str], tokens: Collection[str], dialect: Dialect
) -> tuple[str | None, AbstractSet[str]]:
    """Choose the groups that a crawler follows (RFC 9309, 2.2.1). Return the agent to which these
    groups are addressed, and all tokens of user-agent lines that match the agent.

    *agents* are the product tokens of the crawler, in order of preference. *tokens* are the product
    tokens of the user-agent lines of a robots.txt, in lower case. The result is the first agent
    that a token matches, or else ``*``. If there is no group for ``*`` either, the agent is None.
    """
    for agent in (*agents, EVERYONE):
        name = agent.lower()
        if dialect.agent_match == "prefix" and name != EVERYONE:
            matching = {token for token in tokens if token and name.startswith(token)}
        else:
            matching = {name} if name and name in tokens else set()
        if matching:
            return agent, matching
    return None, frozenset()


def agents_of_line(value: bytes, dialect: Dialect) -> tuple[str, ...]:
    """Return the crawlers that the value of a user-agent line names, as product tokens in lower
    case, or ``*``. If the line names no crawler, return one empty string: the line still begins a
    group, which no crawler follows.
    """
    names = value.split(b",") if dialect.comma_separated_agents else [value]
    tokens = [token for name in names for token in _agents_of_name(name, dialect)]
    return tuple(dict.fromkeys(filter(None, tokens))) or ("",)


def _agents_of_name(name: bytes, dialect: Dialect) -> tuple[str, ...]:
    name = name.strip(_WHITE_SPACE)
    if name[:1] == b"*" and (len(name) == 1 or name[1:2] in _WHITE_SPACE):
        return (EVERYONE,)
    match = (_LETTERS if dialect.agent_match == "letters" else _TOKEN)(name)
    tokens = (match[0], *match.groups()) if match else ()
    return tuple(token.decode("utf-8", "replace").lower() for token in tokens)
