"""Product tokens: the names of crawlers in user-agent lines and ``User-Agent`` headers."""

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

# Matches a comment of a User-Agent header: text in parentheses. The closing parenthesis may be missing.
_COMMENT = re.compile(r"\(([^()]*)\)?")

_PRODUCT_TOKEN = re.compile(r"[A-Za-z0-9_.-]+").fullmatch
_RFC_TOKEN = re.compile(r"[A-Za-z_-]+").fullmatch

# Names, in lower case, of browsers, their engines and their platforms. None of them is the name of a crawler.
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
    """Whether *token* consists only of letters, digits, ``_``, ``-`` and ``.``. Real robots.txt files use
    all these characters; RFC 9309 allows fewer (see :func:`is_rfc_token`).
    """
    return bool(_PRODUCT_TOKEN(token))


def is_rfc_token(token: str) -> bool:
    """Whether *token* consists only of letters, ``_`` and ``-``, as RFC 9309, 2.2.1, requires."""
    return bool(_RFC_TOKEN(token))


def product_tokens(user_agent: str) -> tuple[str, ...]:
    """Return the product tokens in a crawler's ``User-Agent`` header, without duplicates.

    The result for ``mybot`` and for ``mybot/1.0`` is ``("mybot",)``. If the header imitates a browser's
    header, the crawler's name is in a comment: ``Mozilla/5.0 (compatible; mybot/1.0; +url)``. The
    result contains no names of browsers. It is empty if the header names no crawler.
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
    """Return the crawlers' names in *products*, a list of texts such as ``mybot/1.0``. Names of browsers
    are left out. A name without a version is left out too, unless it is the first text in the list.
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
    """Choose which groups of a robots.txt a crawler follows (RFC 9309, 2.2.1).

    *agents* are the crawler's product tokens, in order of preference. *tokens* are all product tokens in
    the user-agent lines of the robots.txt, in lower case.

    Return the first of *agents* that matches any of *tokens*, and the set of all *tokens* that it matches. The
    crawler follows the groups whose user-agent lines contain one of the returned tokens.

    If none of *agents* matches, the result depends on whether *tokens* contain ``*``. If they do, the crawler follows
    the groups for ``*``: return ``*`` as the agent and as the only token. If they do not, the crawler follows no
    group: return None and an empty set.

    In a dialect whose ``agent_match`` is ``"prefix"``, an agent matches each token that it starts with. In other
    dialects, it matches only the equal token. Letter case is ignored.
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
    """Return the product tokens in the *value* of a user-agent line, in lower case; ``*`` means all
    crawlers. If the value contains no token, return a tuple with an empty string. This string matches no
    crawler, but it shows that the line is a user-agent line, which can begin a group.
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
