"""Parses the groups of a robots.txt: their agents, rules and other records (RFC 9309, 2.1)."""

from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple, TypeAlias
from urllib.parse import urljoin, urlsplit

from scrapy_rep.protocol.agents import agents_of_line, choose_agent
from scrapy_rep.protocol.dialect import Dialect
from scrapy_rep.protocol.robotstxt.lines import (
    GroupText,
    Line,
    PlainLine,
    decoded_text,
    octets,
    plain_lines,
    read_line,
    user_agent_lines,
)
from scrapy_rep.protocol.robotstxt.rules import Rule
from scrapy_rep.protocol.text import PACE_FIELDS, RULES, SITEMAP, USER_AGENT


class OtherRecord(NamedTuple):
    """A line of a group that is neither a user-agent line nor a rule (RFC 9309, 2.2.4)."""

    field: str
    """The field, in lower case."""

    value: str
    line: int

    run: int = 0
    """The line number at which the closest user-agent lines above this record begin; 0 if there are none. In the
    following file, the value is 1 for the first ``Crawl-delay``, and 3 for the second::

        User-agent: a
        Crawl-delay: 1
        User-agent: b
        User-agent: c
        Crawl-delay: 5
        Disallow: /x

    A ``Crawl-delay`` applies only to the agents in these user-agent lines: the second delay to b and c. The same is
    true for the other fields in :data:`~scrapy_rep.protocol.text.RUN_FIELDS`."""


class Group(NamedTuple):
    """One or more user-agent lines, and the rules and records that follow them."""

    agents: tuple[str, ...]
    """The product tokens in the user-agent lines, in lower case. A line that names no crawler adds an empty
    token."""

    rules: tuple[Rule, ...]
    """The rules in file order, including rules with an empty value."""

    records: tuple[OtherRecord, ...]

    lines: tuple[int, ...]
    """For each of :attr:`agents`, the number of the user-agent line that names it."""

    runs: tuple[int, ...]
    """For each of :attr:`agents`, the run of user-agent lines that names the agent. A run is a sequence of user-agent
    lines, and is identified by the number of its first line. Blank lines, comments and sitemap lines do
    not end a run. Other records, such as a ``Crawl-delay``, end a run, but do not end the group."""

    def runs_of(self, tokens: AbstractSet[str]) -> set[int]:
        """Return the runs of user-agent lines that name one of *tokens*. A run is a sequence of user-agent
        lines without another record between them; it is identified by the number of its first line.
        """
        agents_and_runs = zip(self.agents, self.runs, strict=True)
        return {run for agent, run in agents_and_runs if agent in tokens}


_Agent: TypeAlias = tuple[str, int, int]
"""An agent of a group: the product token, the number of its user-agent line, and the number of the first line in the
run of user-agent lines to which that line belongs."""

_PACE_FIELDS = tuple(field.encode() for field in PACE_FIELDS)


def groups_of(
    lines: Iterable[Line], dialect: Dialect, rule_fields: Collection[str] = RULES
) -> tuple[Group, ...]:
    """Return the groups of a robots.txt, in file order.

    *rule_fields* are the fields of the lines that count as rules. A user-agent line after a rule begins the
    next group.
    """
    parts: list[tuple[list[_Agent], list[Rule], list[OtherRecord]]] = []
    is_in_group = has_rules = False
    run = latest_run = 0
    for number, field, value in lines:
        if field == USER_AGENT:
            if has_rules or not is_in_group:
                parts.append(([], [], []))
                run = 0
            is_in_group, has_rules = True, False
            run = latest_run = run or number
            for agent in agents_of_line(value, dialect):
                parts[-1][0].append((agent, number, run))
        elif not field:
            is_in_group = False
        elif is_in_group and field != SITEMAP:
            # The condition skips rules before the first user-agent line, which belong to no group (RFC 9309, 2.2.2).
            has_rules = has_rules or field in rule_fields
            run, text = 0, value.decode("utf-8", "replace")
            if field in RULES:
                parts[-1][1].append(Rule(field, text, number))
            else:
                parts[-1][2].append(OtherRecord(field, text, number, latest_run))
    groups = []
    for group_agents, rules, records in parts:
        agents, numbers, runs = zip(*group_agents, strict=True)
        groups.append(Group(agents, tuple(rules), tuple(records), numbers, runs))
    return tuple(groups)


def follow(
    body: bytes, agents: Sequence[str], dialect: Dialect
) -> tuple[str | None, list[GroupText], list[OtherRecord]]:
    """Find the groups that a crawler follows. *agents* are the crawler's product tokens, in order of preference.
    Return the agent to which the groups apply, the texts of the groups, and the ``Crawl-delay`` and
    ``Request-rate`` lines that apply to this agent.

    The agent is the first of *agents* that has groups. If none of them has groups, the agent is ``*``
    (RFC 9309, 2.2.1), or None if ``*`` has no groups either. The texts are in file order. A text can
    contain several adjacent groups.

    For speed, most rules are not parsed. Lines other than user-agent lines are parsed only where this is
    needed to find the end of a group, or a ``Crawl-delay`` or ``Request-rate``.
    """
    text = decoded_text(body, dialect)
    agent_lines = user_agent_lines(text, dialect)
    tokens = {token for _, names in agent_lines for token in names}
    agent, matching = choose_agent(agents, tokens, dialect)
    if agent is None:
        return None, [], []
    is_ours = [not matching.isdisjoint(names) for _, names in agent_lines]
    starts = [start for start, _ in agent_lines]
    texts = _texts_of(is_ours, starts, text, dialect)
    if not dialect.merge_groups:
        del texts[1:]
    records: list[OtherRecord] = []
    if dialect.crawl_delay:
        for group, first in texts:
            records += _pace_records(matching, group, first, dialect)
    return agent, texts, records


def lines_naming(body: bytes, agent: str, dialect: Dialect) -> Sequence[int]:
    """Return the numbers of the user-agent lines that name *agent*, in ascending order. *agent* is a
    crawler's product token or ``*``. For speed, no other lines are parsed.
    """
    text = decoded_text(body, dialect)
    agent_lines = user_agent_lines(text, dialect)
    tokens = {token for _, names in agent_lines for token in names}
    _, matching = choose_agent((agent,), tokens, dialect)
    numbers, number, counted = array("I"), 1, 0
    for start, names in agent_lines:
        if matching.isdisjoint(names):
            continue
        number += text.count(b"\n", counted, start)
        counted = start
        numbers.append(number)
    return numbers


def value_of_line(body: bytes, number: int, dialect: Dialect) -> str:
    """Return the value of line *number* as written, or an empty string if the line has no field."""
    raw = decoded_text(body, dialect).split(b"\n", number)[number - 1]
    line = read_line(number, raw, dialect)
    return "" if line is None else line.value.decode("utf-8", "replace")


def rule_lines(texts: Iterable[GroupText], dialect: Dialect) -> list[PlainLine]:
    """Return the allow and disallow lines of the groups in *texts*."""
    return [
        line
        for text, first in texts
        for line in plain_lines(text, dialect, first, to_blank=True)
        if line[1] in RULES
    ]


def _texts_of(
    is_ours: list[bool], starts: list[int], text: bytes, dialect: Dialect
) -> list[GroupText]:
    """Return the texts of the groups that the crawler follows. In a dialect that merges groups, and in which
    blank lines do not end groups, adjacent groups form one text. Otherwise, each text contains one group.

    *starts* are the offsets of all user-agent lines in *text*, the text of the file. *is_ours* contains,
    for each of these lines, whether it names the crawler.
    """

    def begins_group(number: int) -> bool:
        """Whether the user-agent line with index *number* begins a group. It does if there is a rule, or a
        blank line that ends a group, between the previous user-agent line and this line.
        """
        before = text[starts[number - 1] : starts[number] - 1]
        between = plain_lines(before, dialect, to_blank=True)
        return any(field in RULES or not field for _, field, _ in between)

    share_text = dialect.merge_groups and not dialect.blank_line_ends_group
    texts: list[GroupText] = []
    end = counted = 0
    line = 1
    for number, names_crawler in enumerate(is_ours):
        if not names_crawler or number < end:
            continue
        end = number + 1
        while end < len(starts) and (
            (share_text and is_ours[end]) or not begins_group(end)
        ):
            end += 1
        start = starts[number]
        line += text.count(b"\n", counted, start)
        counted = start
        stop = starts[end] - 1 if end < len(starts) else None
        texts.append((text[start:stop], line))
    return texts


def sitemap_urls(lines: Iterable[Line], url: str | None) -> Iterator[str]:
    """Yield the absolute http, https and ftp URLs in the sitemap lines, without duplicates.

    *url* is the URL of the robots.txt, the base for relative URLs. If *url* is None, relative URLs are
    left out.
    """
    seen = set()
    for _, field, value in lines:
        if field != SITEMAP:
            continue
        written = value.decode("utf-8", "replace")
        try:
            absolute = urljoin(url, written) if url else written
            parts = urlsplit(absolute)
        except ValueError:  # For example, "http://[".
            continue
        is_of_the_web = parts.scheme in {"http", "https", "ftp"} and parts.netloc
        if written and is_of_the_web and absolute not in seen:
            seen.add(absolute)
            yield absolute


def _pace_records(
    tokens: AbstractSet[str], text: bytes, first: int, dialect: Dialect
) -> Iterator[OtherRecord]:
    """Yield the ``Crawl-delay`` and ``Request-rate`` lines that apply to the agents *tokens*. *text* contains
    groups for these agents, and *first* is the number of the first line of *text* in the file.

    Such a line applies only to the run of user-agent lines directly above it. The reason is that a site that
    writes a delay below each of several user-agent lines means each delay for a single crawler. Rules are
    different: they apply to all user-agent lines of the group, even if other records stand between these
    lines (RFC 9309, 2.2.4).
    """
    lowered = text.lower()
    last = max(map(lowered.rfind, _PACE_FIELDS))
    if last < 0:
        return
    # For speed, the text after the last delay line is not parsed.
    end = last + len(lowered[last:].partition(b"\n")[0])
    lines = (
        Line(number, field, octets(rest))
        for number, field, rest in plain_lines(text[:end], dialect, first)
    )
    for group in groups_of(lines, dialect):
        runs = group.runs_of(tokens)
        for record in group.records:
            if record.field in PACE_FIELDS and record.run in runs:
                yield record
