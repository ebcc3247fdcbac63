"""RFC 9309, sentence by sentence: lines and groups, sections 2.1 to 2.2.1."""

from __future__ import annotations

import pytest

from scrapy_rep.protocol.robotstxt.decisions import Reason
from tests.protocol.robotstxt.asking import ask

# 2.1 Protocol definition; 2.2 Formal syntax


def test_2_1_group_of_several_user_agent_lines() -> None:
    """Rules after a run of user-agent lines apply to each crawler named there."""
    body = "User-agent: a\nUser-agent: b\nDisallow: /x\nDisallow: /y"
    assert [ask(body, "/y", agent).line for agent in "abc"] == [4, 4, 0]


def test_2_1_user_agent_line_after_a_rule_ends_the_group() -> None:
    """A user-agent line after a rule begins another group."""
    body = "User-agent: a\nDisallow: /x\nUser-agent: b\nDisallow: /y"
    assert not ask(body, "/x", "a").allowed
    assert ask(body, "/y", "a").allowed
    assert ask(body, "/x", "b").allowed
    assert not ask(body, "/y", "b").allowed


@pytest.mark.parametrize("rule", ["Allow:", "Disallow:", "Allow: /z"])
def test_2_1_any_rule_line_ends_the_run_of_user_agent_lines(rule: str) -> None:
    """Even an empty rule ends the run, so the next user-agent line begins a new group."""
    body = f"User-agent: a\n{rule}\nUser-agent: b\nDisallow: /"
    assert ask(body, "/", "a").allowed
    assert not ask(body, "/", "b").allowed


def test_2_1_last_group_may_be_empty() -> None:
    """A group without rules at the end of the file allows everything."""
    body = "User-agent: *\nDisallow: /\nUser-agent: a"
    decision = ask(body, "/", "a")
    assert decision.allowed
    assert (decision.agent, decision.reason) == ("a", Reason.NO_RULE)


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_2_2_three_line_ends(end: str) -> None:
    """CR, LF and CRLF each end one line."""
    body = end.join(["User-agent: *", "", "Disallow: /a", "Disallow: /b"])
    assert [ask(body, path).line for path in ("/a", "/b")] == [3, 4]


@pytest.mark.parametrize("space", ["", " ", "\t", " \t  "])
def test_2_2_white_space_around_tokens(space: str) -> None:
    """Spaces and tabs around field, colon and value are optional."""
    line = space + "{}" + space + ":" + space + "{}" + space
    body = line.format("User-agent", "a") + "\n" + line.format("Disallow", "/x")
    assert not ask(body, "/x", "a").allowed
    assert ask(body, "/y", "a").allowed


def test_2_2_field_names_ignore_case() -> None:
    """Field names ignore case."""
    body = "uSER-aGENT: *\nDISALLOW: /\naLlOw: /a"
    assert [ask(body, path).line for path in ("/", "/a")] == [2, 3]


@pytest.mark.parametrize("between", ["", "\n\n", "# text\n", " \t\n", "\n# text\n\n"])
def test_2_2_empty_lines_and_comments_do_not_matter(between: str) -> None:
    """Empty lines and comments may be anywhere in a group, and do not end it."""
    lines = ["User-agent: b\n", "User-agent: a\n", "Allow: /x\n", "Disallow: /"]
    assert not ask(between.join(lines), "/", "b").allowed


@pytest.mark.parametrize("line", ["Disallow /", "Disalow: /", "Disallows: /", "/"])
def test_2_2_what_is_not_of_the_grammar_is_no_rule(line: str) -> None:
    """Misspelt fields, and lines without a colon, are no rules."""
    assert ask(f"User-agent: *\n{line}", "/").allowed


def test_2_2_byte_order_mark_is_skipped() -> None:
    """A byte order mark does not hide the first line."""
    assert not ask(b"\xef\xbb\xbfUser-agent: *\nDisallow: /", "/").allowed


# 2.2.1 The user-agent line


def test_2_2_1_example_of_the_token_in_the_user_agent_header() -> None:
    """A group named ExampleBot is for the crawler with that token."""
    assert not ask("user-agent: ExampleBot\ndisallow: /", "/", "ExampleBot").allowed


@pytest.mark.parametrize("agent", ["foobot", "FOOBOT", "FooBot"])
def test_2_2_1_groups_are_found_ignoring_case(agent: str) -> None:
    """Product tokens ignore case on both sides."""
    assert not ask("User-agent: fOObOT\nDisallow: /", "/", agent).allowed
    assert ask("User-agent: fOObOT\nDisallow: /", "/", agent).agent == agent


MERGED = """\
user-agent: ExampleBot
disallow: /foo
disallow: /bar

user-agent: OtherBot
disallow: /

user-agent: ExampleBot
disallow: /baz
"""


def test_2_2_1_groups_of_one_token_are_combined() -> None:
    """All groups that name the crawler are combined, wherever they are in the file."""
    paths = ("/foo", "/bar", "/baz", "/x")
    assert [ask(MERGED, path).line for path in paths] == [2, 3, 9, 0]


def test_2_2_1_group_of_everyone_is_the_fallback() -> None:
    """If no group names the crawler, the groups for everyone are followed."""
    body = (
        "user-agent: *\ndisallow: /foo\ndisallow: /bar\n\n"
        "user-agent: BazBot\ndisallow: /baz\n\nuser-agent: *\ndisallow: /qux"
    )
    assert [ask(body, path).line for path in ("/foo", "/bar", "/qux")] == [2, 3, 9]
    decision = ask(body, "/baz")
    assert decision.allowed
    assert decision.agent == "*"


@pytest.mark.parametrize("rules", ["", "Disallow:", "Disallow: /a"])
def test_2_2_1_own_group_replaces_that_of_everyone(rules: str) -> None:
    """A crawler with a group of its own, even an empty one, ignores the groups for everyone."""
    body = f"User-agent: *\nDisallow: /b\n\nUser-agent: ExampleBot\n{rules}"
    assert ask(body, "/b").allowed


@pytest.mark.parametrize("body", ["", "User-agent: x\nDisallow: /", "# text", "\n"])
def test_2_2_1_without_a_group_no_rules_apply(body: str) -> None:
    """If no group is for the crawler, everything is allowed."""
    decision = ask(body, "/")
    assert decision.allowed
    assert (decision.rule, decision.line, decision.agent) == (None, 0, None)
    assert decision.reason is Reason.NO_GROUP


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ("bot", "bot"), ("bot/1.0", "bot"), ("bot 2", "bot"), ("bot\tx", "bot"),
        ("bot*", "bot"), ("*", None), ("* x", None), ("*\tx", None),
    ],
)  # fmt: skip
def test_2_2_1_whom_a_line_names(value: str, named: str | None) -> None:
    """A token ends at white space, a slash or an asterisk; ``*`` is everyone."""
    decision = ask(f"User-agent: {value}\nDisallow: /", "/", "bot")
    assert decision.agent == (named or "*")


@pytest.mark.parametrize("value", ["", "bots", "bo", "my bot", "*bot", "**", "/bot"])
def test_2_2_1_whom_a_line_does_not_name(value: str) -> None:
    """A group matches only an equal token: neither a part of it nor a longer one matches."""
    decision = ask(f"User-agent: {value}\nDisallow: /", "/", "bot")
    assert decision.reason is Reason.NO_GROUP


def test_2_2_1_line_in_vain_does_not_hide_its_neighbours() -> None:
    """A user-agent line that names no crawler does not change the rest of its group."""
    body = "User-agent:\nUser-agent: bot\nUser-agent: /\nDisallow: /"
    assert not ask(body, "/", "bot").allowed


def test_2_2_1_tokens_in_order_of_preference() -> None:
    """Of several product tokens, the first that has a group is followed."""
    body = (
        "User-agent: b\nDisallow: /\nUser-agent: a\nAllow:\nUser-agent: *\nDisallow: /"
    )
    assert ask(body, "/", ["a", "b"]).agent == "a"
    assert ask(body, "/", ["a", "b"]).allowed
    assert ask(body, "/", ["x", "b", "a"]).agent == "b"
    assert ask(body, "/", ("x", "y")).agent == "*"
