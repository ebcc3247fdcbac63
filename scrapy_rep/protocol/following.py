"""The groups that one crawler follows, found without reading those of others.

::

    robotstxt = *other-line *group
    group     = user-agent-line *(user-agent-line / other-line)
                [rule-line *(rule-line / other-line)]

Where a group begins and ends can be told from its user-agent lines, and from whether a
rule stands between two of them. Both are found by expressions that never go back over
what they have read.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeAlias

from scrapy_rep.protocol.agents import EVERYONE

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from scrapy_rep.protocol.dialect import Dialect

# All of these are for text in lower case. The first begins with a literal, so that what
# lies between two user-agent lines is skipped at the speed of a search for a word; that
# it begins a line is looked at afterwards.
_EVERYONE_OR = rb"user-agent[ \t\v\f]*:[ \t\v\f]*(\*(?=[ \t\v\f#\n]|\Z)|%b)[^\n]*"
_USER_AGENT = {
    "token": re.compile(_EVERYONE_OR % rb"[^ \t\v\f/*#\n]*"),
    "letters": re.compile(_EVERYONE_OR % rb"[a-z_-]*"),
    "prefix": re.compile(_EVERYONE_OR % rb"[^ \t\v\f/*#\n]*"),
}
_RULE = re.compile(rb"\n[ \t\v\f]*(?:dis)?allow[ \t\v\f]*:")
_BLANK = re.compile(rb"\n[ \t\v\f]*(?=\n)")

_UserAgentLine: TypeAlias = tuple[int, int, bytes]
"""Where it starts and ends, and its token."""

Span: TypeAlias = tuple[int, int, int]
"""Where a group starts and ends, its user-agent lines included, or several that are
merged; and the number of its first line, from 1."""


def find_groups(
    text: bytes, agents: Sequence[str], dialect: Dialect
) -> tuple[str | None, tuple[Span, ...]]:
    """The first of *agents* that has groups in *text*, or ``*``, and where these are."""
    lowered = text.lower()
    found = _user_agent_lines(lowered, dialect)
    tokens = [token for _, _, token in found]
    for agent in (*agents, EVERYONE):
        named = _named(agent, tokens, dialect)
        if named:
            hits = [i for i, token in enumerate(tokens) if token in named]
            spans = _spans(lowered, found, hits, dialect)
            return agent, tuple(spans if dialect.merge_groups else spans[:1])
    return None, ()


def _user_agent_lines(lowered: bytes, dialect: Dialect) -> list[_UserAgentLine]:
    found = []
    for match in _USER_AGENT[dialect.agent_match].finditer(lowered):
        start, end = match.span()
        if start and lowered[start - 1] != 0x0A:
            # White space may stand before it, and nothing else. As the expression takes
            # the rest of its line, this is done once a line at most.
            word, start = start, lowered.rfind(b"\n", 0, start) + 1
            if lowered[start:word].strip():
                continue
        token = match[1]
        if not token.isascii():
            token = token.decode("utf-8", "replace").lower().encode()
        found.append((start, end, token))
    return found


def _named(agent: str, tokens: list[bytes], dialect: Dialect) -> Collection[bytes]:
    """Those of *tokens* that mean *agent*."""
    ours = agent.lower().encode("utf-8", "surrogatepass")
    if dialect.agent_match == "prefix" and agent != EVERYONE:
        return {token for token in tokens if token and ours.startswith(token)}
    return (ours,) if ours and ours in tokens else ()


def _spans(
    lowered: bytes, found: list[_UserAgentLine], hits: list[int], dialect: Dialect
) -> list[Span]:
    """The groups that the user-agent lines *hits* belong to, each once; those that follow
    each other as one, where groups are merged.
    """
    ours = frozenset(hits if dialect.merge_groups else ())

    def same_group(i: int) -> bool:
        between = found[i][1], found[i + 1][0]
        if dialect.blank_line_ends_group and _BLANK.search(lowered, *between):
            return False
        return _RULE.search(lowered, *between) is None

    def goes_on(i: int) -> bool:
        if i + 1 in ours and not dialect.blank_line_ends_group:
            return True  # whichever group it is
        return same_group(i)

    spans: list[Span] = []
    done = counted = 0
    line = 1
    for hit in hits:
        if hit < done:
            continue
        first = last = hit
        while first > done and same_group(first - 1):
            first -= 1
        while last + 1 < len(found) and goes_on(last):
            last += 1
        done = last + 1
        start = found[first][0]
        end = found[done][0] if done < len(found) else len(lowered)
        if dialect.blank_line_ends_group:
            blank = _BLANK.search(lowered, found[last][1], end)
            end = blank.start() if blank else end
        line += lowered.count(b"\n", counted, start)
        counted = start
        spans.append((start, end, line))
    return spans
