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
from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.protocol.agents import EVERYONE, agents_of_line
from scrapy_rep.protocol.robotstxt.pace import FIELDS
from scrapy_rep.protocol.robotstxt.pacerecords import delays_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from scrapy_rep.protocol.dialect import Dialect
    from scrapy_rep.protocol.robotstxt.groups import Record
    from scrapy_rep.protocol.robotstxt.pacerecords import Span, UserAgentLine

# All of these are for text in lower case. The first begins with a literal, so that what
# lies between two user-agent lines is skipped at the speed of a search for a word; that
# it begins a line is looked at afterwards.
_LINE = rb"user-agent[ \t\v\f]*:[ \t\v\f]*(\*(?=[ \t\v\f#\n%b]|\Z)|%b)[^\n]*"
_USER_AGENT = re.compile(_LINE % (b"", rb"[^ \t\v\f/*#\n]*")).finditer
_USER_AGENT_OR_LIST = re.compile(_LINE % (b",", rb"[^ \t\v\f/*,#\n]*")).finditer
_USER_AGENT_LETTERS = re.compile(_LINE % (b"", rb"[a-z_-]*)([a-z0-9_.-]*")).finditer
_RULE = re.compile(rb"\n[ \t\v\f]*(?:dis)?allow[ \t\v\f]*:")
_PACE_FIELDS = tuple(field.encode() for field in sorted(FIELDS))
_BLANK = re.compile(rb"\n[ \t\v\f]*(?=\n)")


class Following(NamedTuple):
    """What in a text one crawler follows."""

    agent: str | None
    """The first of its product tokens that has groups, or ``*``, or None."""

    spans: tuple[Span, ...]
    """Where these groups are, in the order of the text."""

    records: tuple[Record, ...]
    """What is said of how fast and when, to this crawler."""


def follow(text: bytes, agents: Sequence[str], dialect: Dialect) -> Following:
    """The groups of the first of *agents* that has any in *text*, or of everyone."""
    lowered = text.lower()
    found = _user_agent_lines(lowered, dialect)
    tokens = [token for _, _, token in found]
    for agent in (*agents, EVERYONE):
        named = _named(agent, tokens, dialect)
        if named:
            hits = [i for i, token in enumerate(tokens) if token in named]
            spans = _spans(lowered, found, hits, dialect)
            if not dialect.merge_groups:
                del spans[1:]
            records: tuple[Record, ...] = ()
            start, end = spans[0][0], spans[-1][1]
            if dialect.crawl_delay and _may_have_pace(lowered, start, end):
                whose = spans, found, frozenset(hits)
                records = delays_of(text, lowered, *whose, dialect=dialect)
            return Following(agent, tuple(spans), records)
    return Following(None, (), ())


def _may_have_pace(lowered: bytes, start: int, end: int) -> bool:
    """Whether a part of a text has a line about pace; a search says so faster than the
    expression that reads these lines.
    """
    return any(lowered.find(field, start, end) >= 0 for field in _PACE_FIELDS)


def _user_agent_lines(lowered: bytes, dialect: Dialect) -> list[UserAgentLine]:
    found: list[UserAgentLine] = []
    has_lists = dialect.comma_separated_agents and b"," in lowered
    has_letters = dialect.agent_match == "letters"
    expression = _USER_AGENT_OR_LIST if has_lists else _USER_AGENT
    for match in (_USER_AGENT_LETTERS if has_letters else expression)(lowered):
        start, end = match.span()
        if start and lowered[start - 1] != 0x0A:
            # White space may stand before it, and nothing else. As the expression takes
            # the rest of its line, this is done once a line at most.
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


def _named(agent: str, tokens: list[bytes], dialect: Dialect) -> Collection[bytes]:
    """Those of *tokens* that mean *agent*."""
    ours = agent.lower().encode("utf-8", "surrogatepass")
    if dialect.agent_match == "prefix" and agent != EVERYONE:
        return {token for token in tokens if token and ours.startswith(token)}
    return (ours,) if ours and ours in tokens else ()


def _spans(
    lowered: bytes, found: list[UserAgentLine], hits: list[int], dialect: Dialect
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
