"""``scrapy rep diff`` on files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scrapy_rep.commands import rulechanges
from tests.commands.rep import ROBOTS, write_ledger

if TYPE_CHECKING:
    from tests.commands.conftest import Rep

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


@pytest.fixture(autouse=True)
def files(rep: Rep) -> None:
    Path("new.txt").write_text(NEW)


def test_rules_and_verdicts(rep: Rep) -> None:
    """Rules that were added or removed are shown by group, and URLs made from the patterns
    whose verdict changes.
    """
    ended = rep("diff", "robots.txt", "new.txt")
    assert ended.status == 1
    assert ended.out == (
        "User-agent: otherbot   (group removed)\n"
        "  - disallow: /basket/\n"
        "  - allow: /basket/help\n"
        "  - crawl-delay: 2\n"
        "User-agent: mybot   (group changed)\n"
        "  - crawl-delay: 2\n"
        "  + disallow: /private/\n"
        "User-agent: newbot   (group added)\n"
        "  + disallow: \n"
        "  - sitemap: https://shop.example/sitemap.xml\n"
        "  + sitemap: https://shop.example/new.xml\n"
        "now denied\t/private/\twas: no rule matches; now: line 4, Disallow: "
        "/private/\n"
        "now denied\t/private/x\twas: no rule matches; now: line 4, Disallow: "
        "/private/\n"
        "8 URLs compared\n"
        "  now denied: 2\n"
    )


def test_nothing_changed(rep: Rep) -> None:
    """Changes to comments, blank lines and the order of groups are no difference."""
    old = "User-agent: *\nDisallow: /a\nUser-agent: b\nDisallow: /\n"
    Path("old.txt").write_text(old)
    new = "# New\n\nUser-agent: b\nDisallow: / # all\nUser-agent: *\nDisallow: /a\n"
    ended = rep("diff", "old.txt", "-", stdin=new)
    assert (ended.status, ended.out) == (0, "4 URLs compared\n")
    (summary,) = rep("diff", "old.txt", "-", "--json", stdin=new).records("diff")
    assert summary["changed"] is False


def test_json(rep: Rep) -> None:
    """JSON output has an object for each change, and a summary at the end."""
    records = rep("diff", "robots.txt", "new.txt", "--json").records("diff")
    groups = [record for record in records if record["kind"] == "rules"]
    assert [(group["agents"], group["change"]) for group in groups] == [
        (["otherbot"], "removed"),
        (["mybot"], "changed"),
        (["newbot"], "added"),
        ([], "changed"),
    ]
    (sitemap,) = groups[-1]["added"]
    assert sitemap["rule"] == "sitemap: https://shop.example/new.xml"
    rule = {"field": "disallow", "value": "/private/", "line": 4}
    assert rule.items() <= groups[1]["added"][0].items()
    verdicts = [each["url"] for each in records if each["kind"] == "denied"]
    assert verdicts == ["/private/", "/private/x"]
    assert records[-1]["denied"] == 2


def test_list_of_urls(rep: Rep) -> None:
    """A list contains URLs or paths; with an origin, URLs of other origins are ignored."""
    Path("urls").write_text(
        "https://shop.example/private/1\nhttps://a.example/private/2\n/private/3\n"
    )
    arguments = ("diff", "robots.txt", "new.txt", "--urls", "urls", "--json")
    for more, count in (((), 3), (("--origin", "https://shop.example/"), 2)):
        ended = rep(*arguments, *more)
        assert ended.status == 1
        assert ended.records("diff")[-1]["denied"] == count
    with Path("urls").open("a") as file:
        file.write("nonsense\n")
    ended = rep(*arguments)
    assert ended.status == 2
    assert "urls, line 4: 'nonsense' is not a URL" in ended.err
    assert ended.records("diff")[-1]["denied"] == 3


def test_urls_of_a_ledger(rep: Rep) -> None:
    """The URLs of a ledger are compared; if it has several hosts, the user must choose one."""
    verdicts = [(f"https://shop.example/private/{n}", "allowed") for n in range(3)]
    arguments = ["diff", "robots.txt", "new.txt", "--json", "--urls"]
    one = write_ledger(Path("one"), verdicts)
    assert rep(*arguments, one).records("diff")[-1]["denied"] == 3
    two = write_ledger(Path("two"), [*verdicts, ("http://a.example/", "allowed")])
    ended = rep(*arguments, two)
    assert (ended.status, ended.out) == (2, "")
    assert (
        "several hosts, and a robots.txt is for one; choose the host with" in ended.err
    )
    ended = rep(*arguments, two, "--origin", "https://shop.example")
    assert ended.records("diff")[-1]["urls"] == 3


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["robots.txt"], "the following arguments are required"),
        (["robots.txt", "nowhere"], "nowhere: No such file"),
        (["-", "-"], "- reads all of standard input"),
        (["-", "new.txt", "--urls", "-"], "- reads all of standard input"),
        (["robots.txt", "new.txt", "--urls", "nowhere"], "nowhere: No such file"),
        (["robots.txt", "new.txt", "--urls", "."], ".: Is a directory"),
        (["robots.txt", "new.txt", "--urls", "a\0b"], "null"),
        (["robots.txt", "new.txt", "--urls", "broken"], "broken: "),
        (["robots.txt", "new.txt", "--origin", "shop"], "'shop' is not a URL"),
    ],
)
def test_wrong_usage(rep: Rep, arguments: list[str], why: str) -> None:
    """Wrong usage is reported before any output."""
    Path("broken").write_bytes(b"SQLite format 3\0" + b"\xff" * 4096)
    ended = rep("diff", *arguments)
    assert (ended.status, ended.out) == (2, "")
    assert why in ended.err


def test_many_agents_in_one_group(rep: Rep) -> None:
    """Agents that share their groups are shown together; only the first few are named."""
    agents = "".join(f"User-agent: a{'b' * n}\n" for n in range(500))
    Path("new.txt").write_text(ROBOTS + agents + "Disallow: /\n" * 5)
    out = rep("diff", "robots.txt", "new.txt").out
    assert "User-agent: a, ab, abb, abbb, abbbb and 495 more   (group added)" in out


def test_bounded(rep: Rep, monkeypatch: pytest.MonkeyPatch) -> None:
    """Comparisons that would take too long are skipped, and the output says so."""
    monkeypatch.setattr(rulechanges, "_MAX_COMPARED", 5)
    ended = rep("diff", "robots.txt", "new.txt")
    assert ended.status == 1
    assert "too many groups to compare" in ended.err
