"""Tests of ``scrapy rep lint``, on files and on live servers. The findings themselves are tested in
``tests/protocol``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.crawl.answers import Answer
from tests.tools.rep import Rep, scrapy_rep

if TYPE_CHECKING:
    from tests.crawl.server import Site

FAULTY = "User-agent: *\nDisallow: /a b\nDisalow: /x\nCrawl-delay: 2\n"


def test_a_summary_comes_first_then_errors_then_warnings(rep: Rep) -> None:
    Path("robots.txt").write_text(FAULTY)
    result = rep("lint", "robots.txt")
    assert result.status == 1
    first, *lines = result.out.splitlines()
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
    """``--severity``, ``--ignore`` and the dialect select the findings, and the exit status only
    counts selected findings.
    """
    Path("robots.txt").write_text(FAULTY)
    arguments = ("lint", "robots.txt", *options.split())
    assert rep(*arguments).status == status
    record = rep.record(*arguments)
    assert {finding["code"] for finding in record["findings"]} == codes
    assert record["clean"] is (status == 0)
    assert record["dialect"] == ("google" if "google" in options else "rfc9309")


def test_a_file_without_any_record_is_an_error(rep: Rep) -> None:
    """A file that has text, but no record, is no robots.txt. A file with comments only is valid."""
    Path("README.md").write_text("# Tea\n\nA shop for tea: see below.\n")
    result = rep("lint", "README.md")
    assert result.status == 1
    assert result.out.startswith(
        "README.md: 1 error, 0 warnings\nREADME.md:3: error [no-records] "
    )
    assert "this is not a robots.txt" in result.out
    Path("robots.txt").write_text("# Welcome!\n")
    assert rep("lint", "robots.txt").status == 0


def test_each_file_is_linted_although_another_cannot_be_read(rep: Rep) -> None:
    """Each file has its own JSON object or text. A file that cannot be read only adds a message,
    and sets the exit status to 2.
    """
    Path("bad.txt").write_text(FAULTY)
    first, second = rep.records("lint", "bad.txt", "robots.txt")
    assert (first["clean"], second["clean"]) == (False, True)
    out = rep("lint", "robots.txt").out
    for argument in ("nowhere.txt", "http://[", "gopher://a.example/", "."):
        result = rep("lint", argument, "robots.txt")
        assert (result.status, result.out) == (2, out)
        assert argument in result.err
    missing = "shop.example: No such file or directory; if it is a URL, write it with its scheme, such as https://\n"
    assert missing in rep("lint", "shop.example").err


def test_the_length_of_a_very_long_file_is_a_minimum(rep: Rep) -> None:
    """Only the beginning of a very long file is read, so the message says that the file has *at
    least* so many bytes.
    """
    long = b"User-agent: *\n" + b"Disallow: /a\n" * 2_500_000
    message = ":39385: error [too-large] the file has at least 16,777,216 bytes"
    assert message in rep("lint", "-", stdin=long).out


def test_explain_shows_an_example_of_a_code(rep: Rep) -> None:
    """``--explain`` needs no file: it shows an example of each code."""
    arguments = ("lint", "--explain", "fragment")
    result = rep(*arguments, "--explain", "too-large")
    assert result.status == 0
    assert result.out.startswith(
        "fragment: error\n  | User-agent: *\n  | Disallow: /#/a\n  line 2: the # begins"
    )
    assert "too-large: error\n  line " in result.out
    assert rep.record(*arguments)["example"] == "User-agent: *\nDisallow: /#/a"


def test_a_url_of_a_host_means_its_robots_txt(site: Site, tmp_path: Path) -> None:
    """For the URL of a host, its robots.txt is linted. A missing robots.txt is clean. The findings of an unreachable
    robots.txt are unknown, and the exit status is 3, unless another file has findings.
    """
    faulty = site.add("User-agent: *\nDisalow: /basket/\n")
    faulty.answers["/old.txt"] = Answer(b"User-agent: *\nDissallow: /\n")
    missing = site.add()
    down = site.add(Answer(status=503))
    arguments = (
        "lint",
        faulty.origin,
        faulty.url("/old.txt"),
        missing.url("/"),
        down.robotstxt,
    )
    result = scrapy_rep(*arguments, "--json", cwd=tmp_path)
    assert result.status == 1
    assert [
        (
            record["file"],
            record["access"]["outcome"],
            record["clean"],
            len(record["findings"]),
        )
        for record in result.records("lint")
    ] == [
        (faulty.robotstxt, "successful", False, 1),
        (faulty.url("/old.txt"), "successful", False, 1),
        (missing.robotstxt, "unavailable", True, 0),
        (down.robotstxt, "unreachable", None, 0),
    ]
    result = scrapy_rep("lint", missing.origin, down.origin, cwd=tmp_path)
    assert result.status == 3
    assert result.out == (
        f"{missing.robotstxt}: no robots.txt (status 404)\n"
        f"{down.robotstxt}: unreachable (status 503)\n"
    )
    missing.answers["/robots.txt"] = Answer(status=403)
    result = scrapy_rep("lint", missing.origin, "--dialect", "classic", cwd=tmp_path)
    assert result.status == 1, "in the classic dialect, status 403 forbids everything"
    message = f"{missing.robotstxt}: warning [everything-forbidden] no crawler may fetch any page"
    assert message in result.out
