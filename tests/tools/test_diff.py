"""``scrapy rep diff``, on files, on the ledgers of past crawls, and on live servers."""

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
    """Return the kind and URL of each change, in place of which a host may stand."""
    return [
        (change["kind"], change.get("url", change["origin"])) for change in records if "origin" in change
    ]  # fmt: skip


def ledger(*decisions: tuple[str, str], path: str = "ledger", **more: Any) -> Ledger:
    """Return an open ledger: URLs, and the verdict on each."""
    return new_ledger(path, decisions, **more)


def override(ledger: Ledger, url: str, reason: str, **columns: object) -> None:
    values = {"verdict": "allowed", "layer": "override", "reason": reason, "time": 9}
    ledger.decision(url, **values, **columns)


@pytest.fixture(autouse=True)
def files(rep: Rep) -> None:
    for name, text in TEXTS.items():
        Path(name).write_text(text)


# Files.


def test_changed_rules_are_shown_with_urls_whose_verdict_changes(rep: Rep) -> None:
    """Rules that were added or removed are shown by group, and URLs made from the patterns
    whose verdict changes. Comments, blank lines and the order of groups are no difference.
    """
    ended = rep("diff", "robots.txt", "new.txt")
    assert ended.status == 1
    assert ended.out == (
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
    ended = rep("diff", "robots.txt", "same.txt")
    assert (ended.status, ended.out) == (0, "6 URLs compared\n  unchanged: 6\n")
    assert rep.record("diff", "robots.txt", "same.txt")["changed"] is False


def test_urls_whose_permitted_purposes_change_are_shown(rep: Rep) -> None:
    """Usage records are compared like rules, and URLs are shown whose permitted purposes change."""
    ended = rep("diff", "old usage.txt", "new usage.txt")
    assert ended.status == 1
    assert "  - Content-usage: /a/ train-ai=y   (line 2)\n" in ended.out
    assert (
        "use changes\t/a/\ttrain-ai was allowed by Content-Usage: /a/ train-ai=y "
        "(robots.txt, line 2), is now disallowed by Content-Usage: /a/ train-ai=n "
        "(robots.txt, line 3); search was unknown, is now allowed by Content-Signal: "
        "search=yes (robots.txt, line 1)\n"
    ) in ended.out
    *_, usage, _, summary = rep.records("diff", "old usage.txt", "new usage.txt")
    assert usage["old"] == {"train-ai": True, "search": None}
    assert usage["new"] == {"train-ai": False, "search": True}
    assert (summary["usage"], summary["denied"]) == (2, 0)


def test_agents_that_share_their_groups_are_shown_together(
    rep: Rep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Agents that share their groups are shown together; only the first few are named.
    Comparisons that would take too long are skipped, and the output says so.
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
    ended = rep("diff", "robots.txt", "new.txt")
    assert ended.status == 1
    assert "too many groups to compare" in ended.err


def test_the_time_grows_with_the_size_of_the_files() -> None:
    """The time to compare two files grows with their size, however many groups they have."""

    def changes(count: int) -> list[dict[str, Any]] | None:
        text = "".join(f"User-agent: a{n}\nDisallow: /{n}\n\n" for n in range(count))
        old, new = RobotsTxt.parse(text), RobotsTxt.parse(f"{text}User-agent: b\n")
        return rule_changes(old, new)

    assert len(changes(10) or ()) == 1
    assert steps(lambda: changes(400)) < 6 * steps(lambda: changes(100))


@pytest.mark.slow
def test_the_time_grows_with_the_size_for_many_agents_too() -> None:
    """The time to compare the rules of two files grows with their size, also if thousands of agents
    follow thousands of rules that change.
    """

    def files(size: int) -> tuple[RobotsTxt, RobotsTxt]:
        agents = "".join(f"User-agent: a{n}\n" for n in range(size // 40))
        rules = "".join(f"Disallow: /{n}\n" for n in range(size // 40))
        return tuple(
            RobotsTxt.parse(agents + text) for text in (rules, rules.replace("/", "/b"))
        )

    assert_linear(lambda both: rule_changes(*both), files, size=512_000)


def test_sample_paths_are_limited(rep: Rep, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of files whose patterns take too long to compare with paths made of all of them, the first
    paths are compared, and a notice says how many are not.
    """
    wild = "User-agent: *\n" + "".join(f"Disallow: /*a{n}*b\n" for n in range(100))
    Path("wild.txt").write_text(wild)
    Path("more.txt").write_text(wild + "Disallow: /c\n")
    assert "not compared" not in rep("diff", "wild.txt", "more.txt").err
    monkeypatch.setattr(diff, "_MAX_OCTETS", 1_000_000)
    ended = rep("diff", "wild.txt", "more.txt")
    assert ended.status == 1
    *_, summary = rep.records("diff", "wild.txt", "more.txt")
    compared = summary["urls"]
    assert 0 < compared < 202
    assert f"{202 - compared:,} sample paths are not compared" in ended.err


def test_comparisons_of_large_and_small_groups_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Comparisons of one large group with many small ones are counted."""
    monkeypatch.setattr(diff, "_MAX_COMPARED", 100)
    agents = [f"User-agent: a{'b' * n}\n" for n in range(50)]
    rules = "".join(f"Disallow: /{n}\n" for n in range(50))
    old = RobotsTxt.parse("".join(agents) + rules)
    new = RobotsTxt.parse("".join(agent + "Disallow: /\n" for agent in agents))
    assert rule_changes(old, new) is None


def test_sitemaps_are_compared_by_url() -> None:
    """A sitemap changes with its URL, however it is written; an empty line is none."""
    at = f"{ORIGIN}/robots.txt"
    relative = RobotsTxt.parse("Sitemap:\nSitemap: /s.xml\n", url=at)
    for same in (f"Sitemap: {ORIGIN}/s.xml\n", "Sitemap: s.xml\n"):
        for url in (at, None):
            assert rule_changes(RobotsTxt.parse(same, url=url), relative) == []
    [change] = rule_changes(RobotsTxt.parse("", url=at), relative) or []
    assert [(added["value"], added["line"]) for added in change["added"]] == [
        (f"{ORIGIN}/s.xml", 2)
    ]


Groups: TypeAlias = "list[tuple[str, list[tuple[str, str]]]]"
PATTERNS = ["/a", "/b", "/c*", "/d$"]
rules = st.tuples(st.sampled_from(["Allow", "Disallow"]), st.sampled_from(PATTERNS))
groups = st.lists(st.tuples(st.sampled_from("ab*"), st.lists(rules)), max_size=4)


@given(groups, groups)
def test_changes_make_the_new_from_the_old(old: Groups, new: Groups) -> None:
    """The old rules of an agent, without the removed and with the added ones, are the new
    rules. An agent that is not listed has the same rules as before.
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
    listed = rule_changes(*files)
    assert listed is not None
    changed = {agent: change for change in listed for agent in change["agents"]}
    for agent in "ab*":
        was, now = (of_version[agent] for of_version in rules_of)
        added, removed = (
            {(rule["field"], rule["value"]) for rule in changed.get(agent, {}).get(how, ())}
            for how in ("added", "removed")
        )  # fmt: skip
        assert (was - removed) | added == now
        assert added.isdisjoint(was)
        assert removed <= was


def test_only_the_group_that_the_dialect_follows_is_compared() -> None:
    """If a dialect follows only the first group of an agent, only that group is compared."""
    old = b"User-agent: a\nDisallow: /1\n\nUser-agent: a\nDisallow: /2\n"
    new = old.replace(b"/2", b"/3")
    for dialect, number in ((RFC9309, 1), (CLASSIC, 0)):
        files = [RobotsTxt.parse(body, dialect) for body in (old, new)]
        assert len(rule_changes(*files) or ()) == number


def test_sample_paths_are_made_from_patterns() -> None:
    """Sample paths are made from patterns: the paths that they name, and paths below."""
    robots = RobotsTxt.parse(
        b"User-agent: *\nDisallow: /a*/b$\nAllow: c\nAllow: /a/b\n"
    )
    assert list(sample_paths(robots)) == ["/a/b", "/a/bx", "/c", "/cx"]


def test_a_delay_changes_for_the_agents_directly_above_only() -> None:
    """A changed delay or Content-Signal is a change for the agents directly above it only; other
    changed records are for all agents of the group.
    """
    old = (
        b"User-agent: a\nCrawl-delay: 1\nUser-agent: b\nUser-agent: b\n"
        b"Content-Signal: search=yes\nLicense: https://a.example/1\nDisallow: /1\n"
    )
    new = old.replace(b"Crawl-delay: 1", b"Crawl-delay: 2").replace(b"=yes", b"=no")
    new = new.replace(b"a.example/1", b"a.example/2")
    listed = rule_changes(RobotsTxt.parse(old), RobotsTxt.parse(new)) or []
    license_ = "https://a.example/2"
    assert {
        tuple(change["agents"]): {added["value"] for added in change["added"]} for change in listed
    } == {("a",): {"2", license_}, ("b",): {"search=no", license_}}  # fmt: skip


# What is compared.


@pytest.fixture
def ledgers() -> None:
    """Write ledgers of which the URLs, the hosts, the times or the rules matter."""
    ours = f"{ORIGIN}/private/4", "allowed"
    ledger(ours, path="one").close()
    ledger(ours, (f"{CAFE}/private/5", "allowed"), path="two").close()
    odd = ledger((FORBIDDEN, "allowed"), ("nonsense://a/b", "allowed"), path="odd")
    override(odd, f"{FORBIDDEN}/page", "REP_NOINDEX", page=FORBIDDEN)
    odd.close()
    virtual = ledger((f"{ADDRESS}/basket/", "allowed"), path="virtual")
    virtual.allowed(f"{ADDRESS}/basket/", origin=VIRTUAL_HOST)
    virtual.close()
    first = [(FORBIDDEN, "allowed"), (ALLOWED, "allowed")]
    last = [(ALLOWED, "refused"), (FORBIDDEN, "refused"), (FORBIDDEN, "allowed")]
    for path, decisions, time, body in (
        ("ordered", first[:1], 0, TEXTS["order.txt"]),
        ("first", first, 100, ROBOTS),
        ("second", last, 200, TEXTS["open.txt"]),
    ):
        made = ledger(*decisions, path=path, time=time)
        made.snapshot(ORIGIN, body.encode(), fetched=time)
        made.close()
    times = ledger(*first, path="times", time=1000)
    times.snapshot(ORIGIN, b"User-agent: *\nDisallow: /coffee\n", fetched=1000)
    times.snapshot(ORIGIN, ROBOTS.encode(), fetched=100_000)
    times.crawl(spider="shop", started=0)
    times.snapshot(ORIGIN, b"User-agent: *\nDisallow: /tea\n", fetched=200_000)
    times.close()


DENIED = [("denied", FORBIDDEN)]
PRIVATE = [("denied", f"{ORIGIN}/private/4")]
OF_LIST = [
    ("denied", f"{ORIGIN}/private/1"), ("denied", f"{CAFE}/private/2"), ("denied", "/private/3")
]  # fmt: skip


COMPARED = {
    "a list of URLs and paths": ("robots.txt new.txt --urls urls", OF_LIST),
    "a list, but one host": (f"robots.txt new.txt --urls urls --origin {ORIGIN}/", OF_LIST[::2]),
    "URLs of a ledger": ("robots.txt new.txt --urls one", PRIVATE),
    "URLs of a ledger, but one host": (f"robots.txt new.txt --urls two --origin {ORIGIN}", PRIVATE),
    "a host without a robots.txt, and an invalid origin":
        ("odd google", [("unknown", ORIGIN), ("unknown", "nonsense://a")]),
    "no decisions on pages": (f"odd robots.txt --origin {ORIGIN}", DENIED),
    "a host, but no virtual one":
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
    "one crawl and all": ("times#1 times", [("denied", ALLOWED)]),
    "a dialect that reads a ledger alike": ("ordered google", []),
    "a dialect that reads a ledger otherwise": ("ordered classic", DENIED),
    "a file in a dialect":
        ("order.txt classic", [("denied", "/basket/1"), ("denied", "/basket/1x")]),
    "a dialect, and a file":
        ("classic order.txt", [("allowed", "/basket/1"), ("allowed", "/basket/1x")]),
}  # fmt: skip


@pytest.mark.usefixtures("ledgers")
@pytest.mark.parametrize("name", COMPARED)
def test_urls_and_rules_come_from_what_is_named(rep: Rep, name: str) -> None:
    """The URLs are those of a list or a ledger, and the rules those of the files, of the crawls or
    of the part of the crawls that is named. A dialect reads the rules of the other side.
    """
    arguments, expected = COMPARED[name]
    assert changes(rep.records("diff", *arguments.split())) == expected


@pytest.mark.usefixtures("ledgers")
def test_rules_that_changed_between_two_times_are_shown(rep: Rep) -> None:
    """The rules that changed between two times are shown, with what becomes of the URLs."""
    ended = rep("diff", "times#1@1970-01-02", "times#1")
    assert ended.status == 2, "a crawl or a time"
    ended = rep("diff", "times@1970-01-02", "times@1970-01-03")
    assert ended.status == 1
    assert "User-agent: otherbot, mybot   (group added)\n" in ended.out
    assert "  - Disallow: /coffee   (line 2)\n" in ended.out
    was = "was: line 3, Disallow: /; now: line 5, Disallow: /basket/"
    last = f"now denied\t{FORBIDDEN}\t{was}\n2 URLs compared\n  now denied: 1\n  unchanged: 1\n"
    assert ended.out.endswith(last)


def test_a_line_that_is_no_url_makes_the_exit_status_2(rep: Rep) -> None:
    """A line of a list that is no URL makes the exit status 2; the others are compared."""
    Path("urls").write_text(TEXTS["urls"] + "nonsense\n")
    ended = rep("diff", "robots.txt", "new.txt", "--urls", "urls")
    assert ended.status == 2
    assert "urls, line 4: 'nonsense' is not an http, https or ftp URL" in ended.err
    assert ended.out.endswith("\n3 URLs compared\n  now denied: 3\n")


# Ledgers.


def test_urls_whose_verdict_changed_since_a_crawl_are_shown(rep: Rep) -> None:
    """A ledger is compared with a robots.txt: fetched URLs that are now denied, and refused ones
    that are now allowed are shown, each with the recorded and the new reason. So are URLs that were
    fetched because of an override, with the override. The purge list has exactly the fetched URLs
    that are now denied.
    """
    around = FORBIDDEN.replace("/basket", "/tea/../basket")
    made = ledger(
        (FORBIDDEN, "allowed"),
        (f"{ORIGIN}/basket/2", "refused"),
        (ALLOWED, "refused"),
        (f"{around}2", "allowed"),
    )
    entry = "shop.example: ignore"
    override(made, f"{FORBIDDEN}/1", "override", statement=entry)
    override(made, f"{FORBIDDEN}/2", "dont_obey_robotstxt")
    override(made, f"{ALLOWED}/3", "ROBOTSTXT_OBEY")
    made.close()
    before = {path.name for path in Path().iterdir()}
    ended = rep("diff", "ledger", "robots.txt", "--purge-list", "purge")
    assert (ended.status, ended.err) == (1, "")
    was = "was: line 3, Disallow: /; now"
    now = "line 5, Disallow: /basket/"
    assert ended.out == (
        f"now denied\t{FORBIDDEN}\t{was}: {now}\n"
        f"now denied\t{FORBIDDEN}/1\twas: REP_OVERRIDES decides: {entry}; now: {now}\n"
        f"now denied\t{FORBIDDEN}/2\twas: the request ignores robots.txt; now: {now}\n"
        f"now allowed\t{ALLOWED}\t{was}: no rule matches\n"
        f"now denied\t{around}2\t{was}: {now} (as {FORBIDDEN}2)\n"
        "7 URLs compared\n"
        "  now denied: 4\n"
        "  now allowed: 1\n"
        "  unchanged: 2\n"
    )
    purged = [FORBIDDEN, f"{FORBIDDEN}/1", f"{FORBIDDEN}/2", f"{around}2"]
    assert Path("purge").read_text().splitlines() == purged
    assert {path.name for path in Path().iterdir()} == before | {"purge"}
    record, *others, summary = rep.records("diff", "ledger", "robots.txt")
    assert record["old"] == {
        "allowed": True, "reason": "rule", "agent": None, "form": None,
        "why": "line 3, Disallow: /", "override": None, "time": "1970-01-01T00:00:00Z",
    }  # fmt: skip
    overridden = [change["old"]["override"] for change in others[:2]]
    assert overridden == [entry, "dont_obey_robotstxt"]
    rule = {"kind": "disallow", "pattern": "/basket/", "line": 5}
    assert (record["new"]["rule"], record["new"]["time"]) == (rule, None)
    counts = {"denied": 4, "allowed": 1, "usage": 0, "crawls": 1, "complete_crawls": 1}
    assert counts.items() <= summary.items()


def test_a_crawl_in_a_copy_counts_once(rep: Rep) -> None:
    """A crawl that is in a ledger and in a copy of it counts once."""
    made = ledger((FORBIDDEN, "allowed"), (f"{FORBIDDEN}/1", "allowed"), path="full")
    made.close()
    shutil.copy("full", "copy")
    *_, summary = rep.records("diff", "full", "copy", "robots.txt")
    counts = {"urls": 2, "denied": 2, "crawls": 1, "complete_crawls": 1}
    assert counts.items() <= summary.items()


def test_refusals_for_a_delay_are_judged_again(rep: Rep) -> None:
    """URLs that were refused for a delay are judged too: they are now allowed if the delay is
    gone. URLs that a crawl would now refuse for a delay are counted by host, and not purged.
    """
    made = ledger((f"{ALLOWED}/1", "allowed"), (f"{ALLOWED}/2", "allowed"))
    delay = {"layer": "delay", "line": 2, "statement": "Crawl-delay: 900"}
    made.decision(ALLOWED, reason="crawl-delay", **delay)
    made.close()
    why = "robots.txt sets a longer delay than the crawl accepts"
    assert rep("diff", "ledger", "fast.txt").out == (
        f"now allowed\t{ALLOWED}\twas: line 2, Crawl-delay: 900 ({why}); now: no rule matches\n"
        "3 URLs compared\n"
        "  now allowed: 1\n"
        "  unchanged: 2\n"
    )
    ended = rep("diff", "ledger", "slow.txt", "--purge-list", "purge")
    assert (ended.status, Path("purge").read_text()) == (1, "")
    assert ended.out == (
        f"now delayed\t{ORIGIN}\t2 URLs: line 2, Crawl-delay: 901 ({why}; "
        "REP_SKIP_DELAY_OVER is 180)\n"
        "3 URLs compared\n"
        "  now delayed: 2\n"
        "  unchanged: 1\n"
    )


def test_fetched_urls_with_changed_purposes_are_shown(rep: Rep) -> None:
    """Fetched URLs are shown whose permitted purposes have changed since the crawl."""
    made = ledger()
    made.snapshot(ORIGIN, b"Content-Signal: /c/ ai-train=no", fetched=0)
    for folder in "abc":
        made.allowed(f"{ORIGIN}/{folder}/1", time=0)
    made.close()
    asked = ("diff", "ledger", "new usage.txt", "--purpose=train-ai")
    *records, summary = rep.records(*asked)
    assert [(record["url"], record["new"]) for record in records if record["kind"] == "usage"] == [
        (f"{ORIGIN}/a/1", {"train-ai": False}), (f"{ORIGIN}/c/1", {"train-ai": None})
    ]  # fmt: skip
    assert summary["usage"] == 2


def test_the_output_says_that_fetched_urls_were_not_recorded(rep: Rep) -> None:
    """If a crawl did not record the URLs that it fetched, the output says so, wherever the
    ledger gives the URLs.
    """
    ledger((ALLOWED, "refused"), path="partial", level="denied").close()
    ledger((f"{ALLOWED}/2", "refused"), path="full").close()
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
        ended = rep("diff", *arguments.split())
        assert ended.err == (message.format(crawls_named) if crawls_named else "")
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
    """The agents and the dialect are those of the crawl, unless options change them."""
    Path("robots.txt").write_text(
        "User-agent: *\nAllow: /basket\nDisallow: /basket/1\n\n"
        "User-agent: openbot\nDisallow:\n"
    )
    path = ledger((FORBIDDEN, "allowed"), **crawl).close()
    assert rep("diff", path, "robots.txt", *options).status == denied


def test_a_ledger_that_contains_only_the_urls_does_not_name_the_crawler(
    rep: Rep,
) -> None:
    """Files are judged for the crawler in the settings, also on the URLs of a ledger. Without one, a note says so."""
    ledger((FORBIDDEN, "denied")).close()
    asked = ("open.txt", "--origin", ORIGIN)
    note, unnamed = "no setting names your crawler", {"USER_AGENT": "Mozilla/5.0"}
    ended = rep("diff", "robots.txt", *asked, "--urls", "ledger", **unnamed)
    assert note in ended.err
    assert note not in rep("diff", "ledger", *asked, **unnamed).err


def test_a_list_is_judged_by_the_files_of_a_ledger(rep: Rep) -> None:
    """URLs of a list are judged by the robots.txt files of a ledger, as whom it crawled."""
    made = ledger((ALLOWED, "allowed"), agents=("otherbot",))
    made.snapshot(ORIGIN, ROBOTS.encode(), fetched=0)
    made.decision("https://x.example/", time=0)
    made.close()
    urls = "\n".join([f"{FORBIDDEN}/2", f"{CAFE}/1", f"{CAFE}/2", ALLOWED])
    asked = ("diff", "ledger", "open.txt", "--urls", "-")
    *_, record, _, _ = rep.records(*asked, stdin=urls)
    assert changes([record]) == [("allowed", f"{FORBIDDEN}/2")]
    assert record["agents"] == ["otherbot"]
    assert rep("diff", "ledger", "google", "--urls", "-", stdin=urls).out == (
        f"unknown\t{CAFE}\t2 URLs: the robots.txt of this host is not known\n"
        "4 URLs compared\n"
        "  unknown: 2\n"
        "  unchanged: 2\n"
    )


# Live servers.


def test_two_urls_are_compared_without_those_of_other_hosts(
    site: Site, tmp_path: Path
) -> None:
    """Two URLs are compared; URLs of other hosts do not count. If one robots.txt is unreachable,
    the verdicts are unknown.
    """
    old, new = site.add(ROBOTS), site.add("User-agent: *\nDisallow: /tea")
    urls = "\n".join([new.url("/tea"), new.url("/basket/"), old.url("/tea"), "/coffee"])
    asked = ("diff", old.origin, new.origin, "--agent", "mybot", "--urls", "-")
    ended = scrapy_rep(*asked, "--json", stdin=urls, cwd=tmp_path)
    assert ended.status == 1
    records = ended.records("diff")
    changed = [(record["kind"], record["url"]) for record in records if "url" in record]
    assert changed == [("denied", new.url("/tea")), ("allowed", new.url("/basket/"))]
    assert records[-1]["urls"] == 3
    new.answers["/robots.txt"] = Answer(status=503)
    ended = scrapy_rep(*asked, stdin=urls, cwd=tmp_path)
    assert ended.status == 3
    assert ended.out == (
        f"unknown\t{new.origin}\t3 URLs: robots.txt is unreachable (status 503)\n"
        "3 URLs compared\n  unknown: 3\n"
    )


def test_a_crawl_is_compared_with_the_present(site: Site, tmp_path: Path) -> None:
    """``diff LEDGER live`` compares a crawl with the present robots.txt files, each fetched once.
    A robots.txt that is unreachable now adds nothing to the purge list, and nothing at all if it
    was unreachable before. What the present REP_OVERRIDES allow is marked, no change, and not
    purged. What they deny is.
    """
    shop, down = site.add(ROBOTS), site.add(Answer(status=500))
    basket, tea = shop.url("/basket/1"), shop.url("/tea")
    decisions = [
        (basket, "allowed"), (tea, "refused"), (shop.url("/coffee"), "allowed"),
        (down.url("/a"), "allowed"), (down.url("/b"), "allowed"),
    ]  # fmt: skip
    made = new_ledger(tmp_path / "ledger", decisions)
    made.decision(down.url("/c"), reason="unreachable")
    made.close()
    asked = ("diff", "ledger", "live", "--purge-list", "purge")
    ended = scrapy_rep(*asked, "--json", cwd=tmp_path)
    *records, summary = ended.records("diff")
    assert changes(records) == [
        ("denied", basket), ("allowed", tea), ("unknown", down.origin)
    ]  # fmt: skip
    counts = {"denied": 1, "allowed": 1, "unknown": 2, "urls": 6}
    assert counts.items() <= summary.items()
    assert (ended.status, (tmp_path / "purge").read_text()) == (1, f"{basket}\n")
    assert (len(shop.robots_hits), len(shop.pages)) == (1, 0)

    write_ledger(tmp_path / "fetched", [(basket, "allowed"), (tea, "allowed")])
    asked = ("diff", "fetched", "live", "--purge-list", "purge", "-s")
    entry = '{"obey": false, "reason": "agreed", "until": "9000-01-01"}'
    over = '"shop.example": {"obey": false, "until": "2026-01-01"}'
    entries = f'REP_OVERRIDES={{"127.0.0.1": {entry}, {over}}}'
    ended = scrapy_rep(*asked, entries, cwd=tmp_path)
    assert (ended.status, (tmp_path / "purge").read_text()) == (0, "")
    assert (
        "REP_OVERRIDES['shop.example'] has ended and no longer has an effect"
        in ended.err
    )
    assert ended.out == (
        f"overridden\t{basket}\twas: line 3, Disallow: /; now: line 5, Disallow: /basket/ "
        "(overridden: 127.0.0.1: ignore (agreed; until 9000-01-01))\n"
        "2 URLs compared\n"
        "  overridden: 1\n"
        "  unchanged: 1\n"
    )
    denying = 'REP_OVERRIDES={"127.0.0.1": "User-agent: *\\nDisallow: /tea"}'
    ended = scrapy_rep(*asked, denying, "--json", cwd=tmp_path)
    assert changes(ended.records("diff")) == [("overridden", basket), ("denied", tea)]
    assert (ended.status, (tmp_path / "purge").read_text()) == (1, f"{tea}\n")
