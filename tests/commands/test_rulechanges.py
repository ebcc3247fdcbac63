"""The differences between two robots.txt files, against their definition."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scrapy_rep import CLASSIC, RFC9309, RobotsTxt
from scrapy_rep.commands.rulechanges import rule_changes, sample_paths

PATTERNS = ["/a", "/b", "/c*", "/d$"]
rules = st.lists(
    st.tuples(st.sampled_from(["Allow", "Disallow"]), st.sampled_from(PATTERNS))
)
files = st.lists(st.tuples(st.sampled_from(["a", "b", "*"]), rules), max_size=4)


def robots(groups: list[tuple[str, list[tuple[str, str]]]]) -> RobotsTxt:
    lines = []
    for agent, said in groups:
        lines += ["", f"User-agent: {agent}", *(": ".join(rule) for rule in said)]
    return RobotsTxt.parse("\n".join(lines).encode())


@given(files, files)
def test_changes_make_the_new_from_the_old(
    old: list[tuple[str, list[tuple[str, str]]]],
    new: list[tuple[str, list[tuple[str, str]]]],
) -> None:
    """The old rules of an agent, without the removed and with the added ones, are the new
    rules. An agent that is not listed has the same rules as before.
    """
    before, after = robots(old), robots(new)
    changes, is_all = rule_changes(before, after)
    assert is_all
    changed = {agent: change for change in changes for agent in change["agents"]}
    for agent in ("a", "b", "*"):
        was, now = rules_of(before, agent), rules_of(after, agent)
        if agent not in changed:
            assert was == now
            continue
        added, removed = (
            {(said["field"], said["value"]) for said in changed[agent][how]}
            for how in ("added", "removed")
        )
        assert (was - removed) | added == now
        assert added.isdisjoint(was)
        assert removed <= was


def rules_of(found: RobotsTxt, agent: str) -> set[tuple[str, str]]:
    """Return all rules of an agent."""
    return {
        (rule.kind, rule.pattern)
        for group in found.groups
        if agent in group.agents
        for rule in group.rules
    }


def test_first_group_alone() -> None:
    """If a dialect follows only the first group of an agent, only that group is compared."""
    old = b"User-agent: a\nDisallow: /1\n\nUser-agent: a\nDisallow: /2\n"
    new = old.replace(b"/2", b"/3")
    for dialect, count in ((RFC9309, 1), (CLASSIC, 0)):
        changes, _ = rule_changes(
            RobotsTxt.parse(old, dialect), RobotsTxt.parse(new, dialect)
        )
        assert len(changes) == count


def test_sample_paths() -> None:
    """Sample paths are made from patterns: the paths that they name, and paths below."""
    found = RobotsTxt.parse(b"User-agent: *\nDisallow: /a*/b$\nAllow: c\nAllow: /a/b\n")
    assert list(sample_paths(found)) == ["/a/b", "/a/bx", "/c", "/cx"]


def test_pace_of_one_of_several_agents() -> None:
    """A changed delay below the user-agent line of one agent is a change for that agent only;
    a changed usage record is a change for all agents of the group.
    """
    old = (
        b"User-agent: a\nCrawl-delay: 1\nUser-agent: b\nUser-agent: b\n"
        b"Content-Signal: search=yes\nDisallow: /1\n"
    )
    new = old.replace(b"Crawl-delay: 1", b"Crawl-delay: 2").replace(b"=yes", b"=no")
    changes, _ = rule_changes(RobotsTxt.parse(old), RobotsTxt.parse(new))
    found = {
        tuple(change["agents"]): {
            (each["field"], each["value"]) for each in change["added"]
        }
        for change in changes
    }
    assert found == {
        ("a",): {("crawl-delay", "2"), ("content-signal", "search=no")},
        ("b",): {("content-signal", "search=no")},
    }
