"""Meta tags in pages of every encoding that browsers know."""

from __future__ import annotations

import pytest

from scrapy_rep.protocol.indexing.rules import IndexingRules

META = '<meta name="robots" content="noindex">'


def read(html: str | bytes, encoding: str | None = None) -> IndexingRules:
    body = html.encode() if isinstance(html, str) else html
    return IndexingRules.parse(html=body, encoding=encoding)


@pytest.mark.parametrize(
    "page",
    [
        META.encode("utf-16"),
        b"\xfe\xff" + META.encode("utf-16-be"),
        META.encode("utf-16-le"),
        META.encode("utf-16-be"),
        META.encode("utf-32"),
        b"\xef\xbb\xbf" + META.encode(),
    ],
)
def test_wide_encodings(page: bytes) -> None:
    """UTF-16 and UTF-32 are detected by a byte order mark or the first character."""
    assert not read(page).index


@pytest.mark.parametrize(
    "encoding", ["utf-16", "UTF-16LE", "utf-16-be", "utf-32", "utf-32le"]
)
def test_declared_wide_encoding(encoding: str) -> None:
    """The encoding that the header declares is used if the page can be in it."""
    page = (" " + META).encode(encoding)
    assert not read(page, encoding).index
    assert not read(META, encoding).index


def test_declared_utf16_without_mark() -> None:
    """UTF-16 without a mark is little-endian, unless its first character shows otherwise."""
    assert not read((" " + META).encode("utf-16-le"), "utf-16").index
    assert not read((" " + META).encode("utf-16-be"), "utf-16").index


@pytest.mark.parametrize(
    ("charset", "codec"),
    [
        ("utf-8", "utf-8"),
        ("iso-8859-1", "cp1252"),
        ("windows-1251", "cp1251"),
        ("koi8-r", "koi8-r"),
        ("shift_jis", "cp932"),
        ("euc-jp", "euc_jp"),
        ("iso-2022-jp", "iso2022_jp"),
        ("gb2312", "gb18030"),
        ("gbk", "gb18030"),
        ("big5", "big5hkscs"),
        ("euc-kr", "cp949"),
    ],
)
def test_charset(charset: str, codec: str) -> None:
    """The text of a statement is decoded with the encoding that header or page declares."""
    words = {"cp1252": "café", "cp1251": "слово", "koi8-r": "слово", "cp949": "한국"}
    word = words.get(codec, "表示")
    tail = f'<p title="{word}">{word}</p><meta content="{word}, noindex" name=robots>'
    for head, encoding in ((f"<meta charset={charset}>", None), ("", charset)):
        rules = read((head + tail).encode(codec), encoding)
        assert not rules.index
        assert [each.text for each in rules.unknown] == [word]


@pytest.mark.parametrize(
    "charset",
    [
        "undefined", "idna", "punycode", "base64", "utf-7", "utf-16", "unicode_escape",
        "x",
    ],
)  # fmt: skip
def test_no_charset(charset: str) -> None:
    """A charset that pages cannot have is ignored."""
    page = f"<meta charset={charset}><meta name=robots content='noindex, \xe9'>"
    assert not read(page).index
    assert not read(page, charset).index
    assert not read(page, charset + "\0").index
