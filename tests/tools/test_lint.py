"""``scrapy rep lint``, on files and on live servers. What is found is told in ``tests/protocol``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.crawl.answers import Answer
from tests.tools.rep import Rep, scrapy_rep

if TYPE_CHECKING:
    from tests.crawl.server import Site

MANY = "User-agent: *\nDisallow: /a b\nDisalow: /x\nCrawl-delay: 2\n"


def test_errors_come_before_warnings_after_a_summary(rep: Rep) -> None:
    """A summary comes first, then errors, then warnings, each with its line."""
    Path("robots.txt").write_text(MANY)
    ended = rep("lint", "robots.txt")
    assert ended.status == 1
    first, *lines = ended.out.splitlines()
    assert first == "robots.txt: 1 error, 1 warning"
    heads = [line.partition("]")[0] for line in lines]
    assert heads == [
        "robots.txt:3: error [misspelt-field", "    Disalow: /x",
        "robots.txt:2: warning [white-space", "    Disallow: /a b",
    ]  # fmt: skip
    record = rep.record("lint", "robots.txt")
    assert [finding["severity"] for finding in record["findings"]] == [
        "error",
        "warning",
    ]
    assert (record["errors"], record["warnings"], record["clean"]) == (1, 1, False)
    assert record["access"]["outcome"] == "file"


@pytest.mark.parametrize(
    ("options", "codes", "status"),
    [
        ("", {"misspelt-field", "white-space"}, 1),
        ("--severity error", {"misspelt-field"}, 1),
        ("--severity error --ignore misspelt-field", set(), 0),
        ("--ignore misspelt-field,white-space", set(), 0),
        ("--dialect google --ignore white-space,misspelt-field", {"ignored-field"}, 1),
    ],
)
def test_findings_can_be_left_out(
    rep: Rep, options: str, codes: set[str], status: int
) -> None:
    """--severity, --ignore and the dialect leave findings out, also for the exit status."""
    Path("robots.txt").write_text(MANY)
    asked = ("lint", "robots.txt", *options.split())
    assert rep(*asked).status == status
    record = rep.record(*asked)
    assert {finding["code"] for finding in record["findings"]} == codes
    assert record["clean"] is (status == 0)
    assert record["dialect"] == ("google" if "google" in options else "rfc9309")


def test_a_text_without_a_record_is_an_error(rep: Rep) -> None:
    """A text without a single record is an error; one with nothing but comments is not."""
    Path("README.md").write_text("# Tea\n\nA shop for tea: see below.\n")
    ended = rep("lint", "README.md")
    assert ended.status == 1
    assert ended.out.startswith(
        "README.md: 1 error, 0 warnings\nREADME.md:3: error [no-records] "
    )
    assert "this is not a robots.txt" in ended.out
    Path("robots.txt").write_text("# Welcome!\n")
    assert rep("lint", "robots.txt").status == 0


def test_each_of_several_files_has_its_findings(rep: Rep) -> None:
    """There is an object or a text for each file, also if another one can't be read."""
    Path("bad.txt").write_text(MANY)
    first, second = rep.records("lint", "bad.txt", "robots.txt")
    assert (first["clean"], second["clean"]) == (False, True)
    out = rep("lint", "robots.txt").out
    for argument in ("nowhere.txt", "http://[", "gopher://a.example/", "."):
        ended = rep("lint", argument, "robots.txt")
        assert (ended.status, ended.out) == (2, out)
        assert argument in ended.err
    missing = "shop.example: No such file or directory; if it is a URL, write it with its scheme, such as https://\n"
    assert missing in rep("lint", "shop.example").err


def test_the_length_of_a_very_long_file_is_a_minimum(rep: Rep) -> None:
    """Of a very long file, only a part is read, so its length is given as a minimum."""
    long = b"User-agent: *\n" + b"Disallow: /a\n" * 2_500_000
    message = ":39385: error [too-large] the file has at least 16,777,216 bytes"
    assert message in rep("lint", "-", stdin=long).out


def test_explain_shows_an_example_of_a_code(rep: Rep) -> None:
    """A code is explained by an example, without a file."""
    asked = ("lint", "--explain", "fragment")
    ended = rep(*asked, "--explain", "too-large")
    assert ended.status == 0
    assert ended.out.startswith(
        "fragment: error\n  | User-agent: *\n  | Disallow: /#/a\n  line 2: the # begins"
    )
    assert "too-large: error\n  line " in ended.out
    assert rep.record(*asked)["example"] == "User-agent: *\nDisallow: /#/a"


def test_a_url_of_a_host_means_its_robots_txt(site: Site, tmp_path: Path) -> None:
    """A URL of a host means its robots.txt. A missing file is clean; of an unreachable one nothing is
    known, so that the status is 3, unless another file has findings.
    """
    bad = site.add("User-agent: *\nDisalow: /basket/\n")
    bad.answers["/old.txt"] = Answer(b"User-agent: *\nDissallow: /\n")
    none = site.add()
    down = site.add(Answer(status=503))
    asked = ("lint", bad.origin, bad.url("/old.txt"), none.url("/"), down.robotstxt)
    ended = scrapy_rep(*asked, "--json", cwd=tmp_path)
    assert ended.status == 1
    assert [
        (
            record["file"],
            record["access"]["outcome"],
            record["clean"],
            len(record["findings"]),
        )
        for record in ended.records("lint")
    ] == [
        (bad.robotstxt, "successful", False, 1),
        (bad.url("/old.txt"), "successful", False, 1),
        (none.robotstxt, "unavailable", True, 0),
        (down.robotstxt, "unreachable", None, 0),
    ]
    ended = scrapy_rep("lint", none.origin, down.origin, cwd=tmp_path)
    assert ended.status == 3
    assert ended.out == (
        f"{none.robotstxt}: no robots.txt (status 404)\n"
        f"{down.robotstxt}: unreachable (status 503)\n"
    )
    none.answers["/robots.txt"] = Answer(status=403)
    ended = scrapy_rep("lint", none.origin, "--dialect", "classic", cwd=tmp_path)
    assert ended.status == 1, "in the texts of the time, 403 is a prohibition"
    message = f"{none.robotstxt}: warning [everything-forbidden] no crawler may fetch any page"
    assert message in ended.out
