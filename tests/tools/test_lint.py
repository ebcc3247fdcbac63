"""``scrapy rep lint``, on files and on live servers. What is found is told in ``tests/protocol``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.crawl.answers import Answer
from tests.tools.rep import Rep, scrapy_rep

if TYPE_CHECKING:
    from tests.crawl.server import Site

MANY = (
    "User-agent: *\n"
    + "".join(f"Disallow: /{name}*.pdf\n" for name in "abcdefgh")
    + "Disallow: /100%\n"
    + "Disalow: /x\n"
    + "Crawl-delay: 2\n"
)


def test_order(rep: Rep) -> None:
    """A summary comes first, then errors, warnings and notes. Notes with the same code are
    one; JSON has all of them.
    """
    Path("robots.txt").write_text(MANY)
    first, *lines = rep("lint", "robots.txt").out.splitlines()
    assert first.startswith("robots.txt: 1 error, 1 warning, ")
    heads = [line.split(": ")[1] for line in lines if line.startswith("robots.txt:")]
    assert [head.partition("]")[0] for head in heads] == [
        "error [misspelt-field", "warning [bad-percent", "note [dialects-differ"
    ]  # fmt: skip
    record = rep.record("lint", "robots.txt")
    severities = [each["severity"] for each in record["findings"]]
    assert severities[:3] == ["error", "warning", "note"]
    assert (record["errors"], record["warnings"]) == (1, 1)
    others = record["notes"] - 1
    assert others == severities.count("note") - 1
    shown = [str(each["line"]) for each in record["findings"][3:8]]
    more = f" and {others - 5} more" if others > 5 else ""
    assert lines[-1] == (
        f"    and {others} more with this code, in line {', '.join(shown)}{more}"
    )


@pytest.mark.parametrize(
    ("options", "codes", "status"),
    [
        ("", {"misspelt-field", "bad-percent", "dialects-differ"}, 1),
        ("--severity warning", {"misspelt-field", "bad-percent"}, 1),
        ("--severity error --ignore misspelt-field", set(), 0),
        ("--ignore misspelt-field,bad-percent", {"dialects-differ"}, 0),
        ("--ignore unreachable --severity error", {"misspelt-field"}, 1),
        ("--dialect google --severity warning --ignore bad-percent,misspelt-field",
         {"ignored-field"}, 1),
    ],
)  # fmt: skip
def test_choice_of_findings(
    rep: Rep, options: str, codes: set[str], status: int
) -> None:
    """--severity, --ignore and the dialect leave findings out, also for the exit status, which is
    1 for errors and warnings.
    """
    Path("robots.txt").write_text(MANY)
    asked = ("lint", "robots.txt", *options.split())
    assert rep(*asked).status == status
    record = rep.record(*asked)
    assert {each["code"] for each in record["findings"]} == codes
    assert record["clean"] is (status == 0)
    assert record["dialect"] == ("google" if "google" in options else "rfc9309")


def test_several_files(rep: Rep) -> None:
    """There is an object or a text for each file, also if another one can't be read."""
    Path("bad.txt").write_text(MANY)
    first, second = rep.records("lint", "bad.txt", "robots.txt")
    assert (first["clean"], second["clean"]) == (False, True)
    out = rep("lint", "robots.txt").out
    for argument in ("nowhere.txt", "http://[", "gopher://a.example/", "."):
        ended = rep("lint", argument, "robots.txt")
        assert (ended.status, ended.out) == (2, out)
        assert argument in ended.err
    missing = "shop.example: No such file or directory; a URL begins with https://\n"
    assert missing in rep("lint", "shop.example").err


def test_a_finding_about_the_whole_file(rep: Rep) -> None:
    """A finding about the whole file is shown without a line number and without text. Of a very
    long file, only a part is read, so its length is given as a minimum.
    """
    wide = "User-agent: *\nDisallow: /a\n".encode("utf-16")
    out = rep("lint", "-", stdin=wide).out
    (line,) = (each for each in out.splitlines() if "[not-utf-8]" in each)
    assert line.startswith("-: warning [")
    long = b"User-agent: *\n" + b"Disallow: /a\n" * 2_500_000
    said = ":39385: error [too-large] the file has at least 16,777,216 bytes"
    assert said in rep("lint", "-", stdin=long).out


def test_explain(rep: Rep) -> None:
    """A code is explained by an example, without a file."""
    asked = ("lint", "--explain", "bad-percent")
    ended = rep(*asked, "--explain", "too-large")
    assert ended.status == 0
    assert ended.out.startswith("bad-percent: warning\n  | Disallow: /100%\n  line 1: ")
    assert "too-large: error\n  line " in ended.out
    assert rep.record(*asked)["example"] == "Disallow: /100%"


def test_live(site: Site, tmp_path: Path) -> None:
    """A URL of a host means its robots.txt; a missing file is clean, an unreachable one not."""
    bad = site.add("User-agent: *\nDisalow: /basket/\n")
    bad.answers["/old.txt"] = Answer(b"User-agent: *\nDissallow: /\n")
    none = site.add()
    down = site.add(Answer(status=503))
    asked = ("lint", bad.origin, bad.url("/old.txt"), none.url("/"), down.robotstxt)
    ended = scrapy_rep(*asked, "--json", cwd=tmp_path)
    assert ended.status == 1
    assert [
        (each["file"], each["clean"], each["findings"][0]["code"])
        for each in ended.records("lint")
    ] == [
        (bad.robotstxt, False, "misspelt-field"),
        (bad.url("/old.txt"), False, "misspelt-field"),
        (none.robotstxt, True, "unavailable"),
        (down.robotstxt, False, "unreachable"),
    ]
    none.answers["/robots.txt"] = Answer(status=403)
    ended = scrapy_rep("lint", none.origin, "--dialect", "classic", cwd=tmp_path)
    assert ended.status == 1, "in the texts of the time, 403 is a prohibition"
