"""Tests of :func:`visible`, which makes text from outside safe to display."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_rep.protocol.text import visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("/a?b=ü&c", "/a?b=ü&c", id="visible characters"),
        pytest.param("\x1b[31mred", r"\x1b[31mred", id="C0"),
        pytest.param("a\tb\nc\rd\0", r"a\tb\nc\rd\x00", id="white space of C0"),
        pytest.param("\x7f", r"\x7f", id="DEL"),
        pytest.param("\x9b31m", r"\x9b31m", id="C1"),
        pytest.param("\u202egnp.exe\u2066", r"\u202egnp.exe\u2066", id="bidi"),
        pytest.param("\u200b\u200d\ufeff", r"\u200b\u200d\ufeff", id="zero width"),
        pytest.param("\u2028\u2029", r"\u2028\u2029", id="line separators"),
        pytest.param("\xa0\u3000", r"\xa0\u3000", id="spaces that look like one"),
        pytest.param("\udc80", r"\udc80", id="a lone surrogate"),
        pytest.param("\U000e0041", r"\U000e0041", id="a tag character"),
        pytest.param("\\x1b", "\\x1b", id="a backslash"),
    ],
)
def test_control_characters_become_escapes(text: str, shown: str) -> None:
    """Similar characters, such as zero-width spaces, become escapes, too. Other characters stay."""
    assert visible(text) == shown


@given(st.text(st.characters(codec=None)))
def test_any_text_becomes_printable_and_can_be_encoded(text: str) -> None:
    shown = visible(text)
    assert {unicodedata.category(character) for character in shown}.isdisjoint(
        {"Cc", "Cf", "Cs", "Zl", "Zp"}
    )
    shown.encode()
