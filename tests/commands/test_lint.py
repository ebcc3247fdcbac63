"""``scrapy rep lint`` on files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.commands.conftest import Rep


def test_findings(rep: Rep) -> None:
    """Each finding comes with its line, its code, its severity, what to write instead,
    and the line itself.
    """
    Path("robots.txt").write_text("User-agent: *\nDisalow: /basket/\n")
    ended = rep("lint", "robots.txt")
    assert ended.status == 1
    assert (
        "robots.txt:2: error [misspelt-field] most crawlers ignore the field 'Disalow': write Disallow\n"
        "    Disalow: /basket/\n"
    ) in ended.out


def test_clean(rep: Rep) -> None:
    """A file without findings is clean."""
    Path("robots.txt").write_text("User-agent: *\nDisallow: /basket/\n")
    ended = rep("lint", "robots.txt")
    assert (ended.status, ended.out) == (0, "robots.txt: clean\n")


def test_notes_alone_are_clean(rep: Rep) -> None:
    """Notes are shown, and are no findings to fail for."""
    ended = rep("lint", "-", stdin="User-agent: a\nDisallow: /x\nDisallow: /x\n")
    assert "-:3: note [duplicate-rule]" in ended.out
    assert ended.status == 0


def test_json(rep: Rep) -> None:
    """JSON has an object for each file, and one bad file is enough for a status of 1."""
    Path("bad.txt").write_text("User-agent: *\nDisalow: /basket/\n")
    Path("good.txt").write_text("User-agent: *\nDisallow: /basket/\n")
    ended = rep("lint", "bad.txt", "good.txt", "--format", "json")
    bad, good = ended.records("lint")
    assert ended.status == 1
    assert "misspelt-field" in [finding["code"] for finding in bad["findings"]]
    assert (bad["clean"], good["clean"], good["findings"]) == (False, True, [])


def test_dialect(rep: Rep) -> None:
    """A dialect that takes a spelling has less against it."""
    Path("robots.txt").write_text("User-agent: *\nDisalow: /basket/\n")
    (record,) = rep(
        "lint", "robots.txt", "--dialect", "google", "--format", "json"
    ).records("lint")
    codes = {finding["code"] for finding in record["findings"]}
    assert "misspelt-field" not in codes
    assert record["dialect"] == "google"


def test_what_a_file_says_is_shown_visibly(rep: Rep) -> None:
    """Escape sequences in findings are shown as escapes."""
    Path("robots.txt").write_text("User-agent: *\nDisalow\x1b[2J: /\u202e\x9b\n")
    ended = rep("lint", "robots.txt")
    assert r"\x1b[2J" in ended.out
    assert ended.out.replace("\n", "").isprintable()


def test_wrong_usage(rep: Rep) -> None:
    """What can't be read is said, and the other files are linted all the same."""
    out = rep("lint", "robots.txt").out
    for argument in ("nowhere.txt", "http://[", "gopher://a.example/"):
        ended = rep("lint", argument, "robots.txt")
        assert (ended.status, ended.out) == (2, out)
        assert argument in ended.err


@pytest.mark.parametrize("subcommand", ["lint", "page"])
@pytest.mark.parametrize(
    ("argument", "is_host"),
    [
        ("shop.example", True),
        ("shop.example/tea.html", True),
        ("localhost", False),
        ("robot.txt", False),
        ("Page.HTML", False),
        ("./shop.example", False),
        (".", False),
    ],
)
def test_a_url_without_a_scheme(
    rep: Rep, subcommand: str, argument: str, is_host: bool
) -> None:
    """What is no file, and looks like a host, may be meant as a URL."""
    ended = rep(subcommand, argument)
    assert (ended.status, ended.out) == (2, "")
    hint = f"; did you mean https://{argument} ?"
    assert (hint in ended.err) is is_host
