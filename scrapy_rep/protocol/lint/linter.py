"""Lints a robots.txt, line by line.

It reads the file with the functions of the parser, so both agree on every line and pattern.
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
    """Return the findings of a robots.txt, in the order of lines. No content makes this raise.

    *url* is the URL that *body* was fetched from, or None for a local file. A fetched body
    may be cut at the end. The time is bounded, and grows with the part of *body* that
    crawlers read.
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
    """Check the byte order mark and the size of the file."""
    body, dialect = file.body, file.dialect
    if body.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        message = "most crawlers cannot read a file in UTF-16: save it as UTF-8"
        file.add(0, "utf-16", message)
    elif body.startswith(BOM_UTF8):
        message = "the byte order mark makes some crawlers ignore the first line"
        file.add(1, "byte-order-mark", f"{message}: save the file as UTF-8 without it")
    elif body.startswith((BOM_UTF8[:2], BOM_UTF8[:1])):
        message = "most crawlers read the incomplete byte order mark as part of the"
        message += " line: delete it, and save the file as UTF-8"
        file.add(1, "broken-byte-order-mark", message)
    if len(body) > dialect.size_limit:
        file.add(
            len(file.written),
            "too-large",
            f"the file has {'at least ' if file.url else ''}{len(body):,} bytes, and crawlers"
            f" read only the first {dialect.size_limit:,}, up to here: put the important rules "
            "first, and replace long lists by shorter patterns",
        )


def _check_page(file: LintedFile) -> bool:
    """Return True, and add a finding, if the file is an HTML page."""
    for number, raw in enumerate(file.written, 1):
        if _PAGE(raw):
            message = "this is an HTML page, not a robots.txt: send the rules as"
            message += " text/plain, or answer 404 if there are none"
            file.add(number, "html", message)
            return True
        if raw.strip():
            break
    return False


def _check_octets(number: int, raw: bytes, file: LintedFile) -> None:
    content = raw.partition(b"#")[0]
    limit = GOOGLE.line_limit
    if limit is not None and len(content) > limit:
        message = f"the line has {len(content)} bytes, and Google reads only {limit}"
        file.add(number, "line-too-long", f"{message}: shorten it")
    if content.isascii():
        if b"\0" in content:
            message = "crawlers misread a line with null characters: delete them, or"
            message += " save the file as UTF-8 if it is in UTF-16"
            file.add(number, "null-characters", message)
        return
    if BOM_UTF8 in content:
        message = "crawlers read this byte order mark as part of the line: delete it"
        file.add(number, "stray-byte-order-mark", message)
    try:
        content.decode()
    except UnicodeDecodeError as error:
        octet = content[error.start]
        message = f"the byte 0x{octet:02X} is not UTF-8, and counts as %{octet:02X}"
        message += " in a path: save the file as UTF-8"
        file.add(number, "invalid-utf-8", message)
