"""Finds the groups that one crawler follows without parsing the other groups.

It needs only the user-agent lines, and whether a rule stands between two of them. It finds
both with regular expressions that do not backtrack. :mod:`~scrapy_rep.protocol.grammar` has
measurements.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.protocol.agents import EVERYONE, agents_of_line, tokens_for
from scrapy_rep.protocol.grammar import (
    PACE_FIELDS,
    RULES,
    USER_AGENT,
    WHITE_SPACE,
    WS,
    line_of,
)
from scrapy_rep.protocol.robotstxt.delayrecords import delays_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy_rep.protocol.dialect import Dialect
    from scrapy_rep.protocol.robotstxt.delayrecords import Span, UserAgentLine
    from scrapy_rep.protocol.robotstxt.groups import Record


def _user_agent_lines_with(token: str, more_ends: str = "") -> re.Pattern[bytes]:
    """Return an expression for user-agent lines in text in lower case; group 1 is the token.

    It begins with a literal, so that it skips the text between matches as fast as a search
    for a word does. The caller checks that a match begins a line.
    """
    everyone = rf"\*(?=[{WHITE_SPACE}#\n{more_ends}]|\Z)"
    return re.compile(rf"{USER_AGENT}{WS}:{WS}({everyone}|{token})[^\n]*".encode())


_USER_AGENT = _user_agent_lines_with(rf"[^{WHITE_SPACE}/*#\n]*").finditer
_USER_AGENT_OR_LIST = _user_agent_lines_with(
    rf"[^{WHITE_SPACE}/*,#\n]*", more_ends=","
).finditer
# Group 1 has the letters that the token begins with, and group 2 the rest of the token.
_USER_AGENT_LETTERS = _user_agent_lines_with(r"[a-z_-]*)([a-z0-9_.-]*").finditer
_RULE = re.compile(line_of(*RULES).encode())
_PACE_FIELDS = tuple(field.encode() for field in PACE_FIELDS)
_BLANK = re.compile(rf"\n{WS}(?=\n)".encode())


class FollowedGroups(NamedTuple):
    """The groups of a text that one crawler follows."""

    agent: str | None
    """The first of its product tokens that has groups, or ``*``; None if there are none."""

    spans: tuple[Span, ...]
    """The spans of these groups, in the order of the text."""

    records: tuple[Record, ...]
    """The delay, rate and window lines for the crawler."""


def follow(text: bytes, agents: Sequence[str], dialect: Dialect) -> FollowedGroups:
    """Return the groups of the first of *agents* that has any, or else the groups of ``*``."""
    lowered = text.lower()
    found = _user_agent_lines(lowered, dialect)
    tokens = [token for _, _, token in found]
    for agent in (*agents, EVERYONE):
        ours = agent.lower().encode("utf-8", "surrogatepass")
        named = tokens_for(ours, tokens, dialect)
        if named:
            hits = [i for i, token in enumerate(tokens) if token in named]
            spans = _spans(lowered, found, hits, dialect)
            if not dialect.merge_groups:
                del spans[1:]
            records: tuple[Record, ...] = ()
            start, end = spans[0][0], spans[-1][1]
            # A search for the words takes less time than a search for such lines.
            if dialect.crawl_delay and any(
                lowered.find(field, start, end) >= 0 for field in _PACE_FIELDS
            ):
                lines = [found[hit] for hit in hits]
                records = delays_of(text, lowered, spans, lines, dialect)
            return FollowedGroups(agent, tuple(spans), records)
    return FollowedGroups(None, (), ())


def _user_agent_lines(lowered: bytes, dialect: Dialect) -> list[UserAgentLine]:
    found: list[UserAgentLine] = []
    has_lists = dialect.comma_separated_agents and b"," in lowered
    has_letters = dialect.agent_match == "letters"
    expression = _USER_AGENT_OR_LIST if has_lists else _USER_AGENT
    for match in (_USER_AGENT_LETTERS if has_letters else expression)(lowered):
        start, end = match.span()
        if start and lowered[start - 1] != 0x0A:
            # Only white space may stand before a match. A match extends to the end of its
            # line, so this runs at most once per line.
            word, start = start, lowered.rfind(b"\n", 0, start) + 1
            if lowered[start:word].strip():
                continue
        token = match[1]
        if has_lists and b"," in match[0]:
            value = match[0].partition(b":")[2].partition(b"#")[0]
            names = agents_of_line(value, dialect)
            found += [(start, end, name.encode()) for name in names]
            continue
        if has_letters and match[2]:
            found.append((start, end, token + match[2]))
        elif not token.isascii():
            token = token.decode("utf-8", "replace").lower().encode()
        found.append((start, end, token))
    return found


def _spans(
    lowered: bytes, found: list[UserAgentLine], hits: list[int], dialect: Dialect
) -> list[Span]:
    """Return the span of each group to which the user-agent lines *hits* belong. If the dialect
    merges groups, adjacent groups form one span.
    """
    ours = frozenset(hits if dialect.merge_groups else ())

    def same_group(i: int) -> bool:
        between = found[i][1], found[i + 1][0]
        if dialect.blank_line_ends_group and _BLANK.search(lowered, *between):
            return False
        return _RULE.search(lowered, *between) is None

    def goes_on(i: int) -> bool:
        if i + 1 in ours and not dialect.blank_line_ends_group:
            return True  # in the same group or the next one
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
