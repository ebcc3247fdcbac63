"""Tests of ``scrapy rep diff``, on files, on the ledgers of past crawls, and on live servers."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_rep import CLASSIC, RFC9309, RobotsTxt
from scrapy_rep.tools import diff
from scrapy_rep.tools.diff import rule_changes, sample_paths
from tests.crawl.answers import Answer
from tests.protocol.growth import assert_linear, steps
from tests.tools.rep import ROBOTS, Rep, new_ledger, scrapy_rep, write_ledger

if TYPE_CHECKING:
    from tests.crawl.server import Site
    from tests.tools.report.ledgers import Ledger

ORIGIN, CAFE = "https://shop.example", "https://cafe.example"
FORBIDDEN, ALLOWED = f"{ORIGIN}/basket/1", f"{ORIGIN}/tea"
ADDRESS = "http://127.0.0.1:8080"
VIRTUAL_HOST = f"{ADDRESS}#Host:v.example"

NEW = """\
User-agent: mybot
Allow: /basket/help
Disallow: /basket/
Disallow: /private/
User-agent: newbot
Disallow:
User-agent: *
Disallow: /
Sitemap: https://shop.example/new.xml
"""
TEXTS = {
    "new.txt": NEW,
    "open.txt": "User-agent: *\nDisallow:\n",
    "order.txt": "User-agent: *\nDisallow: /basket\nAllow: /basket/1\n",
    "fast.txt": "User-agent: *\nCrawl-delay: 1\n",
    "slow.txt": "User-agent: *\nCrawl-delay: 901\n",
    "same.txt": "# New\n\nUser-agent: *\nDisallow: / # all\n\n" + ROBOTS[:-27],
    "old usage.txt": "User-agent: *\nContent-Usage: /a/ train-ai=y\n",
    "new usage.txt": (
        "Content-Signal: search=yes\nUser-agent: *\nContent-Usage: /a/ train-ai=n\n"
    ),
    "urls": f"{ORIGIN}/private/1\n{CAFE}/private/2\n/private/3\n",
    "basket": FORBIDDEN,
}


def changes(records: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return the kind and the URL of each change. If a change concerns a whole host, the origin of the host takes the
    place of the URL.
    """
    return [
        (change["kind"], change.get("url", change["origin"])) for change in records if "origin" in change
    ]  # fmt: skip


def make_ledger(
    *decisions: tuple[str, str], path: str = "ledger", **options: Any
) -> Ledger:
    """Return an open ledger of one crawl. Each of *decisions* is a URL and the verdict on it;
    *options* are those of :func:`new_ledger`.
    """
    return new_ledger(path, decisions, **options)


def add_override(ledger: Ledger, url: str, reason: str, **columns: object) -> None:
    """Add a decision that allowed *url* because of an override. *reason* is the name of the
    override's setting or meta key.
    """
    values = {"verdict": "allowed", "layer": "override", "reason": reason, "time": 9}
    ledger.decision(url, **values, **columns)


@pytest.fixture(autouse=True)
def files(rep: Rep) -> None:
    """Write the files of TEXTS to the current folder."""
    for name, text in TEXTS.items():
        Path(name).write_text(text)


# Two robots.txt files.


def test_changed_rules_are_shown_with_urls_whose_verdict_changes(rep: Rep) -> None:
    """Added and removed rules are shown by group, followed by URLs whose verdict changes; these
    URLs are made from the patterns. Comments, blank lines and the order of groups do not count as
    changes.
    """
    result = rep("diff", "robots.txt", "new.txt")
    assert result.status == 1
    assert result.out == (
        "User-agent: otherbot   (group removed)\n"
        "  - Disallow: /basket/   (line 5)\n"
        "  - Allow: /basket/help   (line 6)\n"
        "  - Crawl-delay: 2   (line 4)\n"
        "User-agent: mybot   (group changed)\n"
        "  - Crawl-delay: 2   (line 4)\n"
        "  + Disallow: /private/   (line 4)\n"
        "User-agent: newbot   (group added)\n"
        "  + Disallow:    (line 6)\n"
        "Outside of the groups\n"
        "  - Sitemap: https://shop.example/sitemap.xml   (line 7)\n"
        "  + Sitemap: https://shop.example/new.xml   (line 9)\n"
        "now denied\t/private/\twas: no rule matches; now: line 4, Disallow: /private/\n"
        "now denied\t/private/x\twas: no rule matches; now: line 4, Disallow: /private/\n"
        "8 URLs compared\n"
        "  now denied: 2\n"
        "  unchanged: 6\n"
    )
    rule = {"field": "disallow", "value": "/basket/", "rule": "Disallow: /basket/"}
    first, *_ = rep.records("diff", "robots.txt", "new.txt")
    assert first["removed"][0] == rule | {"line": 5}
    result = rep("diff", "robots.txt", "same.txt")
    assert (result.status, result.out) == (0, "6 URLs compared\n  unchanged: 6\n")
    assert rep.record("diff", "robots.txt", "same.txt")["changed"] is False


def test_urls_whose_permitted_purposes_change_are_shown(rep: Rep) -> None:
    """Usage preferences in robots.txt are compared like rules. For each URL whose permitted purposes change, the output
    has the old and the new statement.
    """
    result = rep("diff", "old usage.txt", "new usage.txt")
    assert result.status == 1
    assert "  - Content-usage: /a/ train-ai=y   (line 2)\n" in result.out
    assert (
        "use changes\t/a/\ttrain-ai was allowed by Content-Usage: /a/ train-ai=y "
        "(robots.txt, line 2), is now disallowed by Content-Usage: /a/ train-ai=n "
        "(robots.txt, line 3); search was unknown, is now allowed by Content-Signal: "
        "search=yes (robots.txt, line 1)\n"
    ) in result.out
    *_, usage, _, summary = rep.records("diff", "old usage.txt", "new usage.txt")
    assert usage["old"] == {"train-ai": True, "search": None}
    assert usage["new"] == {"train-ai": False, "search": True}
    assert (summary["usage"], summary["denied"]) == (2, 0)


def test_agents_that_share_their_groups_are_shown_together(
    rep: Rep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """User agents with the same change of rules are shown as one entry, which names the first few
    of them. If the comparison would take too long, it is skipped, and a message says so.
    """
    agents = "".join(f"User-agent: a{'b' * n}\n" for n in range(500))
    Path("new.txt").write_text(ROBOTS + agents + "Disallow: /\n" * 5)
    out = rep("diff", "robots.txt", "new.txt").out
    assert "User-agent: a, ab, abb, abbb, abbbb and 495 more   (group added)" in out
    Path("newer.txt").write_text(ROBOTS + agents + "Disallow: /\n" * 5 + "Allow: /a\n")
    monkeypatch.setattr(diff, "_MAX_COMPARED", 30)
    assert "+ Allow: /a" in rep("diff", "new.txt", "newer.txt").out
    monkeypatch.setattr(diff, "_MAX_COMPARED", 5)
    assert rep("diff", "new.txt", "new.txt").status == 0
    result = rep("diff", "robots.txt", "new.txt")
    assert result.status == 1
    assert "too many groups to compare" in result.err


def test_the_time_of_a_comparison_is_linear_in_the_number_of_groups() -> None:
    def changes(count: int) -> list[dict[str, Any]] | None:
        text = "".join(f"User-agent: a{n}\nDisallow: /{n}\n\n" for n in range(count))
        old, new = RobotsTxt.parse(text), RobotsTxt.parse(f"{text}User-agent: b\n")
        return rule_changes(old, new)

    assert len(changes(10) or ()) == 1
    assert steps(lambda: changes(400)) < 6 * steps(lambda: changes(100))


@pytest.mark.slow
def test_the_time_of_a_comparison_is_linear_in_the_number_of_user_agents() -> None:
    """In these files, hundreds of user agents share a group of hundreds of rules, and each rule
    changes.
    """

    def files(size: int) -> tuple[RobotsTxt, RobotsTxt]:
        agents = "".join(f"User-agent: a{n}\n" for n in range(size // 40))
        rules = "".join(f"Disallow: /{n}\n" for n in range(size // 40))
        return tuple(
            RobotsTxt.parse(agents + text) for text in (rules, rules.replace("/", "/b"))
        )

    assert_linear(lambda pair: rule_changes(*pair), files, size=512_000)


def test_sample_paths_are_limited(rep: Rep, monkeypatch: pytest.MonkeyPatch) -> None:
    """If it would take too long to match all sample paths with all patterns, only the first paths
    are compared. A message says how many are left out.
    """
    wildcards = "User-agent: *\n" + "".join(f"Disallow: /*a{n}*b\n" for n in range(100))
    Path("wild.txt").write_text(wildcards)
    Path("more.txt").write_text(wildcards + "Disallow: /c\n")
    assert "not compared" not in rep("diff", "wild.txt", "more.txt").err
    monkeypatch.setattr(diff, "_MAX_OCTETS", 1_000_000)
    result = rep("diff", "wild.txt", "more.txt")
    assert result.status == 1
    *_, summary = rep.records("diff", "wild.txt", "more.txt")
    compared = summary["urls"]
    assert 0 < compared < 202
    assert f"{202 - compared:,} sample paths are not compared" in result.err


def test_one_large_group_and_many_small_ones_exceed_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The limit applies to the number of comparisons, also if one large group is compared with many
    small ones.
    """
    monkeypatch.setattr(diff, "_MAX_COMPARED", 100)
    agents = [f"User-agent: a{'b' * n}\n" for n in range(50)]
    rules = "".join(f"Disallow: /{n}\n" for n in range(50))
    old = RobotsTxt.parse("".join(agents) + rules)
    new = RobotsTxt.parse("".join(agent + "Disallow: /\n" for agent in agents))
    assert rule_changes(old, new) is None


def test_sitemaps_are_compared_by_url() -> None:
    """Relative and absolute URLs of the same sitemap are equal. A Sitemap line without a URL is
    ignored.
    """
    robots_url = f"{ORIGIN}/robots.txt"
    relative = RobotsTxt.parse("Sitemap:\nSitemap: /s.xml\n", url=robots_url)
    for equal_line in (f"Sitemap: {ORIGIN}/s.xml\n", "Sitemap: s.xml\n"):
        for url in (robots_url, None):
            assert rule_changes(RobotsTxt.parse(equal_line, url=url), relative) == []
    [change] = rule_changes(RobotsTxt.parse("", url=robots_url), relative) or []
    assert [(added["value"], added["line"]) for added in change["added"]] == [
        (f"{ORIGIN}/s.xml", 2)
    ]


Groups: TypeAlias = "list[tuple[str, list[tuple[str, str]]]]"
PATTERNS = ["/a", "/b", "/c*", "/d$"]
rules = st.tuples(st.sampled_from(["Allow", "Disallow"]), st.sampled_from(PATTERNS))
groups = st.lists(st.tuples(st.sampled_from("ab*"), st.lists(rules)), max_size=4)


@given(groups, groups)
def test_old_rules_with_the_listed_changes_are_the_new_rules(
    old: Groups, new: Groups
) -> None:
    """For each user agent, the old rules without the removed ones and with the added ones are the
    new rules. A user agent that is not listed has the same rules in both files.
    """
    files, rules_of = [], []
    for version in (old, new):
        lines = []
        for agent, rules in version:
            lines += ["", f"User-agent: {agent}", *(": ".join(rule) for rule in rules)]
        files.append(RobotsTxt.parse("\n".join(lines).encode()))
        rules_of.append({
            agent: {
                (rule.kind, rule.pattern)
                for group in files[-1].groups if agent in group.agents for rule in group.rules
            }
            for agent in "ab*"
        })  # fmt: skip
    change_list = rule_changes(*files)
    assert change_list is not None
    changed = {agent: change for change in change_list for agent in change["agents"]}
    for agent in "ab*":
        old_rules, new_rules = (rules[agent] for rules in rules_of)
        added, removed = (
            {(rule["field"], rule["value"]) for rule in changed.get(agent, {}).get(kind, ())}
            for kind in ("added", "removed")
        )  # fmt: skip
        assert (old_rules - removed) | added == new_rules
        assert added.isdisjoint(old_rules)
        assert removed <= old_rules


def test_only_the_group_that_the_dialect_follows_is_compared() -> None:
    """The classic dialect follows only the first group of a user agent, so a change in a second
    group does not count.
    """
    old = b"User-agent: a\nDisallow: /1\n\nUser-agent: a\nDisallow: /2\n"
    new = old.replace(b"/2", b"/3")
    for dialect, number in ((RFC9309, 1), (CLASSIC, 0)):
        files = [RobotsTxt.parse(body, dialect) for body in (old, new)]
        assert len(rule_changes(*files) or ()) == number


def test_sample_paths_are_made_from_patterns() -> None:
    """For each pattern, the sample paths contain a path that the pattern matches, and a path below this path."""
    robots = RobotsTxt.parse(
        b"User-agent: *\nDisallow: /a*/b$\nAllow: c\nAllow: /a/b\n"
    )
    assert list(sample_paths(robots)) == ["/a/b", "/a/bx", "/c", "/cx"]


def test_a_changed_delay_only_concerns_the_user_agent_lines_directly_above() -> None:
    """Crawl-delay and Content-Signal apply to the user-agent lines directly above them. Other
    records apply to all user agents of the group.
    """
    old = (
        b"User-agent: a\nCrawl-delay: 1\nUser-agent: b\nUser-agent: b\n"
        b"Content-Signal: search=yes\nLicense: https://a.example/1\nDisallow: /1\n"
    )
    new = old.replace(b"Crawl-delay: 1", b"Crawl-delay: 2").replace(b"=yes", b"=no")
    new = new.replace(b"a.example/1", b"a.example/2")
    change_list = rule_changes(RobotsTxt.parse(old), RobotsTxt.parse(new)) or []
    license_ = "https://a.example/2"
    assert {
        tuple(change["agents"]): {added["value"] for added in change["added"]} for change in change_list
    } == {("a",): {"2", license_}, ("b",): {"search=no", license_}}  # fmt: skip


# Selection of the URLs and rules to compare.


@pytest.fixture
def ledgers() -> None:
    """Write the ledgers for the cases of COMPARED, which differ in their URLs, hosts, times or
    rules.
    """
    decision = f"{ORIGIN}/private/4", "allowed"
    make_ledger(decision, path="one").close()
    make_ledger(decision, (f"{CAFE}/private/5", "allowed"), path="two").close()
    unusual = make_ledger(
        (FORBIDDEN, "allowed"), ("nonsense://a/b", "allowed"), path="odd"
    )
    add_override(unusual, f"{FORBIDDEN}/page", "REP_NOINDEX", page=FORBIDDEN)
    unusual.close()
    virtual = make_ledger((f"{ADDRESS}/basket/", "allowed"), path="virtual")
    virtual.allowed(f"{ADDRESS}/basket/", origin=VIRTUAL_HOST)
    virtual.close()
    first = [(FORBIDDEN, "allowed"), (ALLOWED, "allowed")]
    last = [(ALLOWED, "refused"), (FORBIDDEN, "refused"), (FORBIDDEN, "allowed")]
    for path, decisions, time, body in (
        ("ordered", first[:1], 0, TEXTS["order.txt"]),
        ("first", first, 100, ROBOTS),
        ("second", last, 200, TEXTS["open.txt"]),
    ):
        ledger = make_ledger(*decisions, path=path, time=time)
        ledger.snapshot(ORIGIN, body.encode(), fetched=time)
        ledger.close()
    times = make_ledger(*first, path="times", time=1000)
    times.snapshot(ORIGIN, b"User-agent: *\nDisallow: /coffee\n", fetched=1000)
    times.snapshot(ORIGIN, ROBOTS.encode(), fetched=100_000)
    times.crawl(spider="shop", started=0)
    times.snapshot(ORIGIN, b"User-agent: *\nDisallow: /tea\n", fetched=200_000)
    times.close()


DENIED = [("denied", FORBIDDEN)]
PRIVATE = [("denied", f"{ORIGIN}/private/4")]
DENIED_OF_LIST = [
    ("denied", f"{ORIGIN}/private/1"), ("denied", f"{CAFE}/private/2"), ("denied", "/private/3")
]  # fmt: skip


COMPARED = {
    "a list of URLs and paths": ("robots.txt new.txt --urls urls", DENIED_OF_LIST),
    "a list, limited to one host": (f"robots.txt new.txt --urls urls --origin {ORIGIN}/", DENIED_OF_LIST[::2]),
    "URLs of a ledger": ("robots.txt new.txt --urls one", PRIVATE),
    "URLs of a ledger, limited to one host": (f"robots.txt new.txt --urls two --origin {ORIGIN}", PRIVATE),
    "a host without a robots.txt, and an invalid origin":
        ("odd google", [("unknown", ORIGIN), ("unknown", "nonsense://a")]),
    "decisions on the content of pages are ignored": (f"odd robots.txt --origin {ORIGIN}", DENIED),
    "a host without its virtual hosts":
        (f"virtual robots.txt --origin {ADDRESS}", [("denied", f"{ADDRESS}/basket/")]),
    "a virtual host":
        (f"virtual robots.txt --origin {VIRTUAL_HOST}", [("denied", f"{ADDRESS}/basket/")]),
    "the last decision of several ledgers":
        ("first second robots.txt", [*DENIED, ("allowed", ALLOWED)]),
    "the last decision, in any order": ("second first robots.txt", [*DENIED, ("allowed", ALLOWED)]),
    "the last robots.txt of several ledgers": ("first second robots.txt --urls basket", DENIED),
    "a time before the first URL": ("times@1970-01-01 times", []),
    "the last robots.txt of a crawl": ("times#1 times#1", DENIED),
    "two crawls": ("times#1 times#2", [("denied", ALLOWED)]),
    "one crawl and all crawls": ("times#1 times", [("denied", ALLOWED)]),
    "rules of a ledger in a dialect with the same verdict": ("ordered google", []),
    "rules of a ledger in a dialect with another verdict": ("ordered classic", DENIED),
    "a file, and the same file in a dialect":
        ("order.txt classic", [("denied", "/basket/1"), ("denied", "/basket/1x")]),
    "a file in a dialect, and the same file":
        ("classic order.txt", [("allowed", "/basket/1"), ("allowed", "/basket/1x")]),
}  # fmt: skip


@pytest.mark.usefixtures("ledgers")
@pytest.mark.parametrize("name", COMPARED)
def test_the_arguments_select_the_urls_and_rules_to_compare(
    rep: Rep, name: str
) -> None:
    """The URLs are those of the list or ledger, and the rules those of the files, crawls or parts
    of crawls that the arguments name. A dialect in place of a file stands for the rules of the
    other side, read in that dialect.
    """
    arguments, expected = COMPARED[name]
    assert changes(rep.records("diff", *arguments.split())) == expected


@pytest.mark.usefixtures("ledgers")
def test_rules_that_changed_between_two_times_are_shown(rep: Rep) -> None:
    """Two times of one ledger are compared: the output has the changed rules, and the URLs whose
    verdict changes.
    """
    result = rep("diff", "times#1@1970-01-02", "times#1")
    assert result.status == 2, "an argument must not name both a crawl and a time"
    result = rep("diff", "times@1970-01-02", "times@1970-01-03")
    assert result.status == 1
    assert "User-agent: otherbot, mybot   (group added)\n" in result.out
    assert "  - Disallow: /coffee   (line 2)\n" in result.out
    reasons = "was: line 3, Disallow: /; now: line 5, Disallow: /basket/"
    end_of_output = f"now denied\t{FORBIDDEN}\t{reasons}\n2 URLs compared\n  now denied: 1\n  unchanged: 1\n"
    assert result.out.endswith(end_of_output)


def test_a_line_that_is_no_url_makes_the_exit_status_2(rep: Rep) -> None:
    """The other lines of the list are compared."""
    Path("urls").write_text(TEXTS["urls"] + "nonsense\n")
    result = rep("diff", "robots.txt", "new.txt", "--urls", "urls")
    assert result.status == 2
    assert "urls, line 4: 'nonsense' is not an http, https or ftp URL" in result.err
    assert result.out.endswith("\n3 URLs compared\n  now denied: 3\n")


# Crawls and robots.txt files.


def test_urls_whose_verdict_changed_since_a_crawl_are_shown(rep: Rep) -> None:
    """``diff LEDGER robots.txt`` lists the URLs that the crawl fetched and the robots.txt now denies, and those that
    the crawl refused and the robots.txt now allows. Each URL comes with the recorded and the new reason. If the
    recorded reason is an override, the output shows the override. The purge list contains the fetched URLs that are now
    denied.
    """
    unnormalized = FORBIDDEN.replace("/basket", "/tea/../basket")
    ledger = make_ledger(
        (FORBIDDEN, "allowed"),
        (f"{ORIGIN}/basket/2", "refused"),
        (ALLOWED, "refused"),
        (f"{unnormalized}2", "allowed"),
    )
    entry = "shop.example: ignore"
    add_override(ledger, f"{FORBIDDEN}/1", "override", statement=entry)
    add_override(ledger, f"{FORBIDDEN}/2", "dont_obey_robotstxt")
    add_override(ledger, f"{ALLOWED}/3", "ROBOTSTXT_OBEY")
    ledger.close()
    before = {path.name for path in Path().iterdir()}
    result = rep("diff", "ledger", "robots.txt", "--purge-list", "purge")
    assert (result.status, result.err) == (1, "")
    old_reason = "was: line 3, Disallow: /; now"
    new_reason = "line 5, Disallow: /basket/"
    assert result.out == (
        f"now denied\t{FORBIDDEN}\t{old_reason}: {new_reason}\n"
        f"now denied\t{FORBIDDEN}/1\twas: REP_OVERRIDES decides: {entry}; now: {new_reason}\n"
        f"now denied\t{FORBIDDEN}/2\twas: the request ignores robots.txt; now: {new_reason}\n"
        f"now allowed\t{ALLOWED}\t{old_reason}: no rule matches\n"
        f"now denied\t{unnormalized}2\t{old_reason}: {new_reason} (as {FORBIDDEN}2)\n"
        "7 URLs compared\n"
        "  now denied: 4\n"
        "  now allowed: 1\n"
        "  unchanged: 2\n"
    )
    purged = [FORBIDDEN, f"{FORBIDDEN}/1", f"{FORBIDDEN}/2", f"{unnormalized}2"]
    assert Path("purge").read_text().splitlines() == purged
    assert {path.name for path in Path().iterdir()} == before | {"purge"}
    record, *other_records, summary = rep.records("diff", "ledger", "robots.txt")
    assert record["old"] == {
        "allowed": True, "reason": "rule", "agent": None, "form": None,
        "why": "line 3, Disallow: /", "override": None, "time": "1970-01-01T00:00:00Z",
    }  # fmt: skip
    overridden = [change["old"]["override"] for change in other_records[:2]]
    assert overridden == [entry, "dont_obey_robotstxt"]
    rule = {"kind": "disallow", "pattern": "/basket/", "line": 5}
    assert (record["new"]["rule"], record["new"]["time"]) == (rule, None)
    counts = {"denied": 4, "allowed": 1, "usage": 0, "crawls": 1, "complete_crawls": 1}
    assert counts.items() <= summary.items()


def test_a_crawl_in_a_ledger_and_its_copy_counts_once(rep: Rep) -> None:
    ledger = make_ledger(
        (FORBIDDEN, "allowed"), (f"{FORBIDDEN}/1", "allowed"), path="full"
    )
    ledger.close()
    shutil.copy("full", "copy")
    *_, summary = rep.records("diff", "full", "copy", "robots.txt")
    counts = {"urls": 2, "denied": 2, "crawls": 1, "complete_crawls": 1}
    assert counts.items() <= summary.items()


def test_refusals_for_a_delay_are_judged_again(rep: Rep) -> None:
    """URLs that were refused because of a long delay are now allowed if the delay is gone. URLs
    that a crawl would now refuse because of a delay are counted by host, and are not in the purge
    list, since the site does not forbid them.
    """
    ledger = make_ledger((f"{ALLOWED}/1", "allowed"), (f"{ALLOWED}/2", "allowed"))
    delay = {"layer": "delay", "line": 2, "statement": "Crawl-delay: 900"}
    ledger.decision(ALLOWED, reason="crawl-delay", **delay)
    ledger.close()
    reason = "robots.txt sets a longer delay than the crawl accepts"
    assert rep("diff", "ledger", "fast.txt").out == (
        f"now allowed\t{ALLOWED}\twas: line 2, Crawl-delay: 900 ({reason}); now: no rule matches\n"
        "3 URLs compared\n"
        "  now allowed: 1\n"
        "  unchanged: 2\n"
    )
    result = rep("diff", "ledger", "slow.txt", "--purge-list", "purge")
    assert (result.status, Path("purge").read_text()) == (1, "")
    assert result.out == (
        f"now delayed\t{ORIGIN}\t2 URLs: line 2, Crawl-delay: 901 ({reason}; "
        "REP_SKIP_DELAY_OVER is 180)\n"
        "3 URLs compared\n"
        "  now delayed: 2\n"
        "  unchanged: 1\n"
    )


def test_fetched_urls_with_changed_purposes_are_shown(rep: Rep) -> None:
    ledger = make_ledger()
    ledger.snapshot(ORIGIN, b"Content-Signal: /c/ ai-train=no", fetched=0)
    for folder in "abc":
        ledger.allowed(f"{ORIGIN}/{folder}/1", time=0)
    ledger.close()
    arguments = ("diff", "ledger", "new usage.txt", "--purpose=train-ai")
    *records, summary = rep.records(*arguments)
    assert [(record["url"], record["new"]) for record in records if record["kind"] == "usage"] == [
        (f"{ORIGIN}/a/1", {"train-ai": False}), (f"{ORIGIN}/c/1", {"train-ai": None})
    ]  # fmt: skip
    assert summary["usage"] == 2


def test_the_output_says_that_fetched_urls_were_not_recorded(rep: Rep) -> None:
    """If a crawl recorded only refusals and overrides, a message says so. The message appears if the command compares
    the rules in the ledger, and if it takes only the URLs from the ledger (``--urls``).
    """
    make_ledger((ALLOWED, "refused"), path="partial", level="denied").close()
    make_ledger((f"{ALLOWED}/2", "refused"), path="full").close()
    message = (
        "scrapy rep: {} crawls recorded only refusals and overrides, because REP_LEDGER_LEVEL was not "
        "'all'; changed verdicts on their other URLs are not shown\n"
    )
    for arguments, crawls_named in (
        ("partial robots.txt", "1 of 1"),
        ("partial full robots.txt", "1 of 2"),
        ("robots.txt robots.txt --urls partial", "1 of 1"),
        ("full robots.txt", ""),
    ):
        result = rep("diff", *arguments.split())
        assert result.err == (message.format(crawls_named) if crawls_named else "")
        summary = rep.records("diff", *arguments.split())[-1]
        assert (summary["complete_crawls"] < summary["crawls"]) is bool(crawls_named)


@pytest.mark.parametrize(
    ("options", "crawl", "denied"),
    [
        ([], {}, True),
        ([], {"agents": ("nobot",)}, True),
        ([], {"agents": ()}, True),
        (["--agent", "openbot"], {}, False),
        ([], {"dialect": "classic"}, False),
        (["--dialect", "rfc9309"], {"dialect": "classic"}, True),
        ([], {"dialect": "of a project"}, True),
    ],
)
def test_agents_and_dialect_are_those_of_the_crawl(
    rep: Rep, options: list[str], crawl: dict[str, Any], denied: bool
) -> None:
    """The options ``--agent`` and ``--dialect`` have precedence over those of the crawl."""
    Path("robots.txt").write_text(
        "User-agent: *\nAllow: /basket\nDisallow: /basket/1\n\n"
        "User-agent: openbot\nDisallow:\n"
    )
    path = make_ledger((FORBIDDEN, "allowed"), **crawl).close()
    assert rep("diff", path, "robots.txt", *options).status == denied


def test_a_ledger_that_only_has_the_urls_does_not_set_the_crawler(
    rep: Rep,
) -> None:
    """If two files are compared on the URLs of a ledger, the crawler is that of the settings. If the settings name no
    crawler, a note says so.
    """
    make_ledger((FORBIDDEN, "denied")).close()
    arguments = ("open.txt", "--origin", ORIGIN)
    note, unnamed = "no setting names your crawler", {"USER_AGENT": "Mozilla/5.0"}
    result = rep("diff", "robots.txt", *arguments, "--urls", "ledger", **unnamed)
    assert note in result.err
    assert note not in rep("diff", "ledger", *arguments, **unnamed).err


def test_a_list_of_urls_is_judged_by_the_robots_txt_files_of_a_ledger(rep: Rep) -> None:
    """The verdicts are those for the crawler of the ledger."""
    ledger = make_ledger((ALLOWED, "allowed"), agents=("otherbot",))
    ledger.snapshot(ORIGIN, ROBOTS.encode(), fetched=0)
    ledger.decision("https://x.example/", time=0)
    ledger.close()
    urls = "\n".join([f"{FORBIDDEN}/2", f"{CAFE}/1", f"{CAFE}/2", ALLOWED])
    arguments = ("diff", "ledger", "open.txt", "--urls", "-")
    *_, record, _, _ = rep.records(*arguments, stdin=urls)
    assert changes([record]) == [("allowed", f"{FORBIDDEN}/2")]
    assert record["agents"] == ["otherbot"]
    assert rep("diff", "ledger", "google", "--urls", "-", stdin=urls).out == (
        f"unknown\t{CAFE}\t2 URLs: the robots.txt of this host is not known\n"
        "4 URLs compared\n"
        "  unknown: 2\n"
        "  unchanged: 2\n"
    )


# Live servers.


def test_two_live_robots_txt_files_are_compared(site: Site, tmp_path: Path) -> None:
    """The first host is the old side, the second is the new side. Listed URLs of hosts other than the new one are
    ignored. If one of the two robots.txt files is unreachable, the verdicts are unknown.
    """
    old, new = site.add(ROBOTS), site.add("User-agent: *\nDisallow: /tea")
    urls = "\n".join([new.url("/tea"), new.url("/basket/"), old.url("/tea"), "/coffee"])
    arguments = ("diff", old.origin, new.origin, "--agent", "mybot", "--urls", "-")
    result = scrapy_rep(*arguments, "--json", stdin=urls, cwd=tmp_path)
    assert result.status == 1
    records = result.records("diff")
    changed = [(record["kind"], record["url"]) for record in records if "url" in record]
    assert changed == [("denied", new.url("/tea")), ("allowed", new.url("/basket/"))]
    assert records[-1]["urls"] == 3
    new.answers["/robots.txt"] = Answer(status=503)
    result = scrapy_rep(*arguments, stdin=urls, cwd=tmp_path)
    assert result.status == 3
    assert result.out == (
        f"unknown\t{new.origin}\t3 URLs: robots.txt is unreachable (status 503)\n"
        "3 URLs compared\n  unknown: 3\n"
    )


def test_a_crawl_is_compared_with_the_present_robots_txt_files(
    site: Site, tmp_path: Path
) -> None:
    """``diff LEDGER live`` fetches each robots.txt once. Fetched URLs that are denied now are written to the purge
    list. If a robots.txt is unreachable now, the new verdicts on its URLs are unknown, and the URLs are not written to
    the purge list. A URL that was refused in the crawl because robots.txt was unreachable counts as unchanged.

    A URL that the present REP_OVERRIDES allow is shown as overridden. It does not count as a change, and is not written
    to the purge list. A URL that the present REP_OVERRIDES deny is written to the purge list.
    """
    shop, down = site.add(ROBOTS), site.add(Answer(status=500))
    basket, tea = shop.url("/basket/1"), shop.url("/tea")
    decisions = [
        (basket, "allowed"), (tea, "refused"), (shop.url("/coffee"), "allowed"),
        (down.url("/a"), "allowed"), (down.url("/b"), "allowed"),
    ]  # fmt: skip
    ledger = new_ledger(tmp_path / "ledger", decisions)
    ledger.decision(down.url("/c"), reason="unreachable")
    ledger.close()
    arguments = ("diff", "ledger", "live", "--purge-list", "purge")
    result = scrapy_rep(*arguments, "--json", cwd=tmp_path)
    *records, summary = result.records("diff")
    assert changes(records) == [
        ("denied", basket), ("allowed", tea), ("unknown", down.origin)
    ]  # fmt: skip
    counts = {"denied": 1, "allowed": 1, "unknown": 2, "urls": 6}
    assert counts.items() <= summary.items()
    assert (result.status, (tmp_path / "purge").read_text()) == (1, f"{basket}\n")
    assert (len(shop.robots_hits), len(shop.pages)) == (1, 0)

    write_ledger(tmp_path / "fetched", [(basket, "allowed"), (tea, "allowed")])
    arguments = ("diff", "fetched", "live", "--purge-list", "purge", "-s")
    entry = '{"obey": false, "reason": "agreed", "until": "9000-01-01"}'
    ended_entry = '"shop.example": {"obey": false, "until": "2026-01-01"}'
    entries = f'REP_OVERRIDES={{"127.0.0.1": {entry}, {ended_entry}}}'
    result = scrapy_rep(*arguments, entries, cwd=tmp_path)
    assert (result.status, (tmp_path / "purge").read_text()) == (0, "")
    assert (
        "REP_OVERRIDES['shop.example'] has ended and no longer has an effect"
        in result.err
    )
    assert result.out == (
        f"overridden\t{basket}\twas: line 3, Disallow: /; now: line 5, Disallow: /basket/ "
        "(overridden: 127.0.0.1: ignore (agreed; until 9000-01-01))\n"
        "2 URLs compared\n"
        "  overridden: 1\n"
        "  unchanged: 1\n"
    )
    denying = 'REP_OVERRIDES={"127.0.0.1": "User-agent: *\\nDisallow: /tea"}'
    result = scrapy_rep(*arguments, denying, "--json", cwd=tmp_path)
    assert changes(result.records("diff")) == [("overridden", basket), ("denied", tea)]
    assert (result.status, (tmp_path / "purge").read_text()) == (1, f"{tea}\n")
