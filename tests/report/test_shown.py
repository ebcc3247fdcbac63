"""How the report shows values, above all those written by others."""

from __future__ import annotations

import pytest

from scrapy_rep.report import shown


def test_a_long_text_says_so() -> None:
    """A text that is cut says by how much; a text that fits is unchanged, but visible."""
    assert shown.visible("x" * 5000, 10) == "xxxxxxxxxx… (4,990 more characters)"
    assert shown.visible("x" * 10, 10) == "x" * 10
    assert shown.visible("a\x1b[0m\u202eb") == "a\\x1b[0m\\u202eb"


def test_settings_have_no_passwords() -> None:
    """User and password of a URL are removed, wherever it is in a setting."""
    assert shown.setting("redis://me:secret@host/0") == "redis://***@host/0"
    assert "secret" not in shown.setting({"a": ["http://:secret@host/x@y"]})
    assert shown.setting("https://host/a@b") == "https://host/a@b"
    assert shown.setting(True) == "true"


@pytest.mark.parametrize(
    ("seconds", "written"),
    [
        (None, "–"), (-3, "0 s"), (0.25, "0.25 s"), (2.0, "2 s"), (60, "1 min"),
        (61, "1 min 1 s"), (3599, "59 min"), (3600, "1 h"), (86399, "23 h"),
        (90000, "1 d 1 h"), (86400 * 30, "30 d"),
    ],
)  # fmt: skip
def test_durations(seconds: float | None, written: str) -> None:
    """A duration is shown in two units at most."""
    assert shown.duration(seconds) == written


def test_moments() -> None:
    """A moment is shown in UTC; an invalid one is a dash. A span shows a common day once, and its
    end only if it is in another minute.
    """
    assert shown.moment(0) == "1970-01-01 00:00"
    assert shown.moment(1e30) == shown.moment(float("nan")) == "–"
    assert shown.span(0, 59) == "1970-01-01 00:00"
    assert shown.span(0, 3660) == "1970-01-01 00:00 to 01:01"
    assert shown.span(0, 90000) == "1970-01-01 00:00 to 1970-01-02 01:00"
    assert shown.span(0, 1e30) == "1970-01-01 00:00 to –"


def test_counts_and_sizes() -> None:
    """Counts are singular or plural; sizes are in bytes, then kilobytes."""
    assert shown.count(1, "host") == "1 host"
    assert shown.count(2000, "host") == "2,000 hosts"
    assert shown.count(0, "entry", "entries") == "0 entries"
    assert shown.octets(9999) == "9,999 bytes"
    assert shown.octets(512_000) == "512 kB"
