"""Checks user-agent lines, and the groups that they begin."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from scrapy_rep.protocol.agents import (
    EVERYONE,
    agents_of_line,
    is_product_token,
    is_rfc_token,
    product_tokens,
)
from scrapy_rep.protocol.grammar import RULES, USER_AGENT
from scrapy_rep.protocol.lint.findings import quoted

if TYPE_CHECKING:
    from scrapy_rep.protocol.dialect import Dialect
    from scrapy_rep.protocol.lint.findings import LintedFile
    from scrapy_rep.protocol.robotstxt.groups import Group
    from scrapy_rep.protocol.robotstxt.lines import Line

_HEADER = re.compile(
    rb"mozilla/\d|.{0,200}\((?:compatible|windows|x11|macintosh)\b",
    re.IGNORECASE | re.DOTALL,
)
_LIST = re.compile(rb"[a-z0-9_*-]+\s*[,;|]\s*[a-z*]", re.IGNORECASE)
_VERSION = re.compile(rb"(?:/v?[0-9.x]*)?\*?", re.IGNORECASE)
# The number of octets of a value that are checked.
_MAX_CHECKED = 2000


def check_agents(file: LintedFile) -> None:
    """Check each user-agent line, and each rule that is in no group."""
    in_groups = {rule.line for group in file.groups for rule in group.rules}
    first = file.groups[0].lines[0] if file.groups else 0
    for line in file.lines:
        if line.field == USER_AGENT:
            _check_agent(line, file)
        elif line.field in RULES and line.number not in in_groups:
            if 0 < first < line.number:
                message = "a blank line ends the group above, so crawlers ignore this"
                message += " rule: delete the blank line"
                file.add(line.number, "rule-after-blank-line", message)
            else:
                message = "no user-agent line stands above, so crawlers ignore this"
                meant = "move it below one" if first else "write User-agent: * above it"
                file.add(line.number, "rule-before-group", f"{message} rule: {meant}")


def _check_agent(line: Line, file: LintedFile) -> None:
    number, _, whole = line
    dialect = file.dialect
    value = whole[:_MAX_CHECKED]
    tokens = agents_of_line(value, dialect)
    token = tokens[0]
    if dialect.agent_match == "letters" and token != EVERYONE:
        # Google's parser reads only the letters, "-" and "_" at the beginning.
        token = next(filter(is_rfc_token, tokens), "")
    rest = value[len(token.encode()) :]
    is_list = dialect.comma_separated_agents and len(tokens) > 1
    if not value:
        message = "the line names no crawler: write a product token, or * for all of"
        file.add(number, "no-agent", f"{message} them")
    elif _HEADER.match(value):
        names = product_tokens(value.decode("utf-8", "replace"))
        message = f"crawlers read only {quoted(token.encode())} of this header"
        meant = names[0] if names else "the crawler's product token"
        file.add(number, "browser-header", f"{message}: write {meant}")
    elif is_list or _LIST.match(value):
        message = "few crawlers split a list of names"
        if is_list:
            message = "Google reads only the first of several names in one line"
        message += ": write a user-agent line for each"
        file.add(number, "agent-list", message)
    elif not token:
        message = f"{quoted(value)} names no crawler: write a product token, which has"
        file.add(number, "no-agent", f"{message} only letters, - and _")
    elif rest.strip() and _VERSION.fullmatch(rest):
        message = f"crawlers ignore {quoted(rest)} after the name: write"
        file.add(number, "agent-version", f"{message} {quoted(token.encode())}")
    elif rest:
        file.add(number, "agent-cut", _how_cut(value, token))


def _how_cut(value: bytes, token: str) -> str:
    read = quoted(token.encode())
    if token == EVERYONE:
        return "crawlers read only '*', for everyone: write only *, or a product token"
    if is_product_token(value.decode("utf-8", "replace")):
        remedy = "use a product token of letters, - and _, if the crawler has one"
        return f"Google reads only {read}: {remedy}"
    return f"crawlers read only {read}: write the crawler's product token"


def check_groups(file: LintedFile) -> None:
    """Check each group, and compare its names with the groups above it."""
    everyone_is_restricted = any(
        rule.kind == "disallow" and rule.pattern
        for group in file.groups
        if EVERYONE in group.agents
        for rule in group.rules
    )
    seen: dict[str, int] = {}
    for group in file.groups:
        _check_names(group, seen, file)
        for token, number in zip(group.agents, group.lines, strict=True):
            seen.setdefault(token, number)
        if not group.rules:
            _check_no_rules(group, everyone_is_restricted, file)
        forbids = any(rule.kind == "disallow" and rule.pattern for rule in group.rules)
        for rule in group.rules:
            if forbids and rule.kind == "disallow" and not rule.pattern:
                message = "an empty Disallow has no effect beside one with a path"
                if file.dialect.empty_disallow == "allow-all":
                    message = "an empty Disallow allows everything from here on"
                file.add(rule.line, "empty-disallow", f"{message}: delete it")


def _check_names(group: Group, seen: dict[str, int], file: LintedFile) -> None:
    dialect = file.dialect
    if not dialect.merge_groups and any(group.agents):
        earlier = [_earlier(token, seen, dialect) for token in group.agents if token]
        if all(earlier):
            message = f"crawlers follow the group of line {earlier[0]} and ignore this"
            remedy = "move this group above that one"
            if group.agents[0] in seen:
                remedy = "move the rules there, and delete this group"
            file.add(group.lines[0], "hidden-group", f"{message} one: {remedy}")
    ours: set[str] = set()
    for token, number in zip(group.agents, group.lines, strict=True):
        if token and token in ours:
            message = "the group already has this name: delete the line"
            file.add(number, "repeated-agent", message)
        elif token and token in seen and dialect.merge_groups:
            message = "most crawlers, but not all, merge this group with the one of"
            message += f" line {seen[token]}: move the rules there, and delete this"
            file.add(number, "merged-group", f"{message} line")
        ours.add(token)


def _earlier(token: str, seen: dict[str, int], dialect: Dialect) -> int:
    """The first line that names all crawlers that *token* names; 0 if there is none."""
    if dialect.agent_match != "prefix" or token == EVERYONE:
        return seen.get(token, 0)
    beginnings = (token[:end] for end in range(1, min(len(token), 200) + 1))
    return min((seen[name] for name in beginnings if name in seen), default=0)


def _check_no_rules(
    group: Group, everyone_is_restricted: bool, file: LintedFile
) -> None:
    if group.records and not everyone_is_restricted:
        return
    if not any(group.agents):
        return
    message = "the group has no rules, so it allows everything"
    if everyone_is_restricted and EVERYONE not in group.agents:
        message += ", even what the * group forbids: repeat those rules here"
    else:
        message += ": write Disallow: / to forbid everything, or an empty Disallow: to"
        message += " make clear that the group allows it"
    file.add(group.lines[-1], "group-without-rules", message)
