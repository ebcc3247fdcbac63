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
from scrapy_rep.protocol.lint.findings import Findings
from scrapy_rep.protocol.lint.paths import check_pattern
from scrapy_rep.protocol.lint.records import check_delays, check_record
from scrapy_rep.protocol.lint.rules import check_rules
from scrapy_rep.protocol.lint.usage import check_usage
from scrapy_rep.protocol.robotstxt.groups import groups_of
from scrapy_rep.protocol.robotstxt.lines import decoded_text, read_line

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
    content = decoded_text(body, dialect)
    written = content.split(b"\n")
    found = Findings()
    read = [read_line(n, raw, dialect) for n, raw in enumerate(written, 1)]
    says = [line for line in read if line is not None]
    groups, _ = groups_of(says, dialect)
    _check_bytes(body, content, dialect, url, found)
    is_page = _check_page(written, found)
    fields = FieldCheck(dialect, found)
    for number, (raw, line) in enumerate(zip(written, read, strict=True), 1):
        if not raw:
            continue
        if is_page and (line is None or line.field not in fields.known):
            continue
        _check_octets(number, raw, found)
        fields.check(number, raw, line)
        if line is None:
            continue
        if line.field in RULES:
            check_pattern(line, raw, dialect, url, found)
        else:
            check_record(line, dialect, url, found)
    check_agents(says, groups, dialect, found)
    check_groups(says, groups, dialect, found)
    check_delays(says, groups, dialect, found)
    check_rules({line.number: line for line in says}, groups, dialect, found)
    check_usage(says, dialect, found)
    compare_dialects(body, dialect, found)
    return tuple(found.by_line(written))


def _check_bytes(
    body: bytes, content: bytes, dialect: Dialect, url: str | None, found: Findings
) -> None:
    """Check the file as a whole, before it is split into lines."""
    if body.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        found.add(
            0,
            "utf-16",
            "the file is in UTF-16, which most crawlers can't read: save it as UTF-8",
        )
    elif body.startswith(BOM_UTF8):
        message = "save the file as UTF-8 without a byte order mark"
        found.add(1, "byte-order-mark", f"some crawlers miss the first line: {message}")
    elif body.startswith((BOM_UTF8[:2], BOM_UTF8[:1])):
        skipped = "is skipped here" if dialect.partial_bom else "spoils the first line"
        found.add(
            1,
            "broken-byte-order-mark",
            f"a part of a byte order mark {skipped}: delete it, and save as UTF-8",
        )
    if len(body) > dialect.size_limit:
        found.add(
            content.count(b"\n") + 1,
            "too-large",
            f"the file has {'at least ' if url else ''}{len(body):,} bytes, and the first "
            f"{dialect.size_limit:,} are read, up to here: put what matters first, and let "
            "patterns say more with less",
        )


def _check_page(written: list[bytes], found: Findings) -> bool:
    """Whether the file is an HTML page in the place of a robots.txt."""
    for number, raw in enumerate(written, 1):
        if raw.strip():
            if _PAGE(raw):
                message = "a page, not a robots.txt: send text/plain, or status 404"
                found.add(number, "html", message)
                return True
            return False
    return False


def _check_octets(number: int, raw: bytes, found: Findings) -> None:
    content = raw.partition(b"#")[0]
    limit = GOOGLE.line_limit
    if limit is not None and len(content) > limit:
        message = f"Google reads {limit} bytes of a line, and this has {len(content)}"
        found.add(number, "line-too-long", f"{message}: split it")
    if content.isascii():
        if b"\0" in content:
            message = "null characters, as of UTF-16 without a byte order mark"
            found.add(number, "null-characters", f"{message}: save the file as UTF-8")
        return
    if BOM_UTF8 in content:
        message = "a byte order mark inside the file is a part of its line: delete it"
        found.add(number, "stray-byte-order-mark", message)
    try:
        content.decode()
    except UnicodeDecodeError as error:
        octet = content[error.start]
        message = f"the byte 0x{octet:02X} is not UTF-8, and counts as %{octet:02X}"
        found.add(number, "invalid-utf-8", f"{message}: save the file as UTF-8")
