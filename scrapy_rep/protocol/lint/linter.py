"""Lints a robots.txt, line by line.

The functions of the parser read it, so the linter and the parser agree on every line and
pattern.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from typing import TYPE_CHECKING

from scrapy_rep.protocol.dialect import GOOGLE
from scrapy_rep.protocol.grammar import RULES
from scrapy_rep.protocol.lint.agents import check_agents, check_groups
from scrapy_rep.protocol.lint.dialects import compare_dialects
from scrapy_rep.protocol.lint.fields import FieldCheck
from scrapy_rep.protocol.lint.findings import LintedFile
from scrapy_rep.protocol.lint.paths import check_pattern
from scrapy_rep.protocol.lint.records import check_delays, check_record
from scrapy_rep.protocol.lint.rules import check_rules
from scrapy_rep.protocol.lint.usage import check_usage

if TYPE_CHECKING:
    from scrapy_rep.protocol.dialect import Dialect
    from scrapy_rep.protocol.lint.findings import Finding

_PAGE = re.compile(
    rb"\s*(?:<!--|<(?:!doctype|html|head|body|title|meta|script|\?xml)[\s>])",
    re.IGNORECASE,
).match


def lint(body: bytes, dialect: Dialect, url: str | None = None) -> tuple[Finding, ...]:
    """The findings of a robots.txt, by line. No content makes this raise.

    *url* is where it was fetched from, if it was; the end of such a file may be missing.
    The time it takes grows with the length of what is read of *body*, and is bounded.
    """
    file = LintedFile(body, dialect, url)
    _check_bytes(file)
    is_page = _check_page(file)
    fields = FieldCheck(file)
    for number, (raw, line) in enumerate(zip(file.written, file.read, strict=True), 1):
        if not raw:
            continue
        if is_page and (line is None or line.field not in fields.known):
            continue
        _check_octets(number, raw, file)
        fields.check(number, raw, line)
        if line is None:
            continue
        if line.field in RULES:
            check_pattern(line, raw, file)
        else:
            check_record(line, file)
    check_agents(file)
    check_groups(file)
    check_delays(file)
    check_rules(file)
    check_usage(file)
    compare_dialects(file)
    return tuple(file.findings())


def _check_bytes(file: LintedFile) -> None:
    """Check the file as a whole, before it is split into lines."""
    body, dialect = file.body, file.dialect
    if body.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        file.add(
            0,
            "utf-16",
            "the file is in UTF-16, which most crawlers can't read: save it as UTF-8",
        )
    elif body.startswith(BOM_UTF8):
        message = "save the file as UTF-8 without a byte order mark"
        file.add(1, "byte-order-mark", f"some crawlers miss the first line: {message}")
    elif body.startswith((BOM_UTF8[:2], BOM_UTF8[:1])):
        skipped = "is skipped here" if dialect.partial_bom else "spoils the first line"
        file.add(
            1,
            "broken-byte-order-mark",
            f"a part of a byte order mark {skipped}: delete it, and save as UTF-8",
        )
    if len(body) > dialect.size_limit:
        file.add(
            len(file.written),
            "too-large",
            f"the file has {'at least ' if file.url else ''}{len(body):,} bytes, and the first "
            f"{dialect.size_limit:,} are read, up to here: put what matters first, and let "
            "patterns say more with less",
        )


def _check_page(file: LintedFile) -> bool:
    """Whether the file is an HTML page in the place of a robots.txt."""
    for number, raw in enumerate(file.written, 1):
        if raw.strip():
            if _PAGE(raw):
                message = "a page, not a robots.txt: send text/plain, or status 404"
                file.add(number, "html", message)
                return True
            return False
    return False


def _check_octets(number: int, raw: bytes, file: LintedFile) -> None:
    content = raw.partition(b"#")[0]
    limit = GOOGLE.line_limit
    if limit is not None and len(content) > limit:
        message = f"Google reads {limit} bytes of a line, and this has {len(content)}"
        file.add(number, "line-too-long", f"{message}: split it")
    if content.isascii():
        if b"\0" in content:
            message = "null characters, as of UTF-16 without a byte order mark"
            file.add(number, "null-characters", f"{message}: save the file as UTF-8")
        return
    if BOM_UTF8 in content:
        message = "a byte order mark inside the file is a part of its line: delete it"
        file.add(number, "stray-byte-order-mark", message)
    try:
        content.decode()
    except UnicodeDecodeError as error:
        octet = content[error.start]
        message = f"the byte 0x{octet:02X} is not UTF-8, and counts as %{octet:02X}"
        file.add(number, "invalid-utf-8", f"{message}: save the file as UTF-8")
