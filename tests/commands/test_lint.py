"""``scrapy rep lint`` on files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.commands.conftest import Rep


def test_findings(rep: Rep) -> None:
    """Each finding shows its line number, code, severity, remedy, and the line."""
    Path("robots.txt").write_text("User-agent: *\nDisalow: /basket/\n")
    ended = rep("lint", "robots.txt")
    assert ended.status == 1
    assert (
        "robots.txt:2: error [misspelt-field] most crawlers ignore the field 'Disalow': write Disallow\n"
        "    Disalow: /basket/\n"
    ) in ended.out


def test_notes_alone_are_clean(rep: Rep) -> None:
    """Notes are shown, but do not cause exit status 1."""
    ended = rep("lint", "-", stdin="User-agent: a\nDisallow: /x*\n")
    assert "-:2: note [dialects-differ]" in ended.out
    assert ended.status == 0


def test_json(rep: Rep) -> None:
    """There is an object or a text for each file; one with findings causes exit status 1."""
    bad = "User-agent: *\nDisalow: /basket/\nSitemap: /relative.xml\n"
    Path("bad.txt").write_text(bad)
    Path("good.txt").write_text("User-agent: *\nDisallow: /basket/\n")
    ended = rep("lint", "bad.txt", "good.txt", "--json")
    first, good = ended.records("lint")
    assert ended.status == 1
    codes = {finding["code"] for finding in first["findings"]}
    assert {"misspelt-field", "relative-sitemap"} <= codes
    assert (first["clean"], good["clean"], good["findings"]) == (False, True, [])
    ended = rep("lint", "good.txt")
    assert (ended.status, ended.out) == (0, "good.txt: 0 errors, 0 warnings, 0 notes\n")


def test_dialect(rep: Rep) -> None:
    """The findings are those of the chosen dialect, which the output names."""
    Path("robots.txt").write_text("User-agent: *\nCrawl-delay: 2\nDisallow: /a\n")
    assert rep("lint", "robots.txt").status == 0
    (record,) = rep("lint", "robots.txt", "--dialect", "google", "--json").records(
        "lint"
    )
    assert [finding["code"] for finding in record["findings"]] == ["ignored-field"]
    assert record["dialect"] == "google"


def test_wrong_usage(rep: Rep) -> None:
    """An unreadable file is reported, and the other files are still linted."""
    out = rep("lint", "robots.txt").out
    for argument in ("nowhere.txt", "http://[", "gopher://a.example/", "."):
        ended = rep("lint", argument, "robots.txt")
        assert (ended.status, ended.out) == (2, out)
        assert argument in ended.err
    missing = "shop.example: No such file or directory; a URL begins with https://\n"
    assert missing in rep("lint", "shop.example").err


def test_a_finding_about_the_whole_file(rep: Rep) -> None:
    """A finding about the whole file is shown without a line number and without text."""
    Path("wide.txt").write_bytes("User-agent: *\nDisallow: /a\n".encode("utf-16"))
    ended = rep("lint", "wide.txt")
    (line,) = (each for each in ended.out.splitlines() if "[not-utf-8]" in each)
    assert line.startswith("wide.txt: warning [")


def test_a_file_that_is_too_long_to_read(rep: Rep) -> None:
    """Of a very long file, only a part is read, so its length is given as a minimum."""
    Path("long.txt").write_bytes(b"User-agent: *\n" + b"Disallow: /a\n" * 2_500_000)
    ended = rep("lint", "long.txt")
    assert (
        ":39385: error [too-large] the file has at least 16,777,216 bytes" in ended.out
    )


MANY = (
    "User-agent: *\n"
    + "".join(f"Disallow: /{name}*.pdf\n" for name in "abcdefgh")
    + "Disallow: /100%\n"
    + "Disalow: /x\n"
)


def test_order(rep: Rep) -> None:
    """A summary comes first, then errors, warnings and notes. Notes with the same code are
    one; JSON has all of them.
    """
    Path("robots.txt").write_text(MANY)
    first, *lines = rep("lint", "robots.txt").out.splitlines()
    assert first.startswith("robots.txt: 1 error, 1 warning, ")
    heads = [line.split(": ")[1] for line in lines if line.startswith("robots.txt:")]
    assert heads == ["error [misspelt-field] most crawlers ignore the field 'Disalow'",
                     "warning [bad-percent] crawlers differ on a % without two hexadecimal digits after it",
                     heads[2]]  # fmt: skip
    assert heads[2].startswith("note [dialects-differ]")
    (record,) = rep("lint", "robots.txt", "--json").records("lint")
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


def test_choice_of_findings(rep: Rep) -> None:
    """--severity and --ignore leave findings out, also for the exit status."""
    Path("robots.txt").write_text(MANY)
    for options, codes, status in (
        (["--severity", "warning"], {"misspelt-field", "bad-percent"}, 1),
        (["--severity", "error", "--ignore", "misspelt-field"], set(), 0),
        (["--ignore", "misspelt-field, bad-percent"], {"dialects-differ"}, 0),
        (["--ignore", "unreachable", "--severity", "error"], {"misspelt-field"}, 1),
    ):
        ended = rep("lint", "robots.txt", *options, "--json")
        (record,) = ended.records("lint")
        assert ended.status == status
        assert {each["code"] for each in record["findings"]} == codes
    for options in (["--ignore", "nonsense"], ["--severity", "grave"]):
        ended = rep("lint", "robots.txt", *options)
        assert (ended.status, ended.out) == (2, "")


def test_explain(rep: Rep) -> None:
    """A code is explained by an example, without a file; an unknown code is wrong usage."""
    ended = rep("lint", "--explain", "bad-percent", "--explain", "too-large")
    assert ended.status == 0
    assert ended.out.startswith(
        "bad-percent: warning\n  | Disallow: /100%\n  line 1: crawlers differ on a %"
    )
    assert "too-large: error\n  line " in ended.out
    ended = rep("lint", "--explain", "bad-percent", "--json")
    (record,) = ended.records("lint")
    assert record["example"] == "Disallow: /100%"
    ended = rep("lint", "--explain", "nonsense")
    assert (ended.status, ended.out) == (2, "")
    assert "one of absolute-url, " in ended.err
    assert "name a file or a URL" in rep("lint").err
