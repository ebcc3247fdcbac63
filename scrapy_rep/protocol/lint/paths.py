"""Checks the patterns of rules, one by one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from scrapy_rep.protocol.grammar import WHITE_SPACE
from scrapy_rep.protocol.lint.findings import quoted

if TYPE_CHECKING:
    from scrapy_rep.protocol.lint.findings import LintedFile
    from scrapy_rep.protocol.robotstxt.lines import Line

_WHITE_SPACE = WHITE_SPACE.encode()

_URL = re.compile(
    rb"/?[a-z][a-z0-9+.-]{0,19}://[^/]*(.*)", re.IGNORECASE | re.DOTALL
).match
_HOST = re.compile(
    rb"/*((?:[a-z0-9-]{1,63}\.){1,9}[a-z]{2,24})(?::\d+)?(/.*|$)",
    re.IGNORECASE | re.DOTALL,
)
_WWW = re.compile(rb"/*www\.", re.IGNORECASE).match

_BAD_PERCENT = re.compile(rb"%(?![0-9A-Fa-f]{2})").search
_ENCODED_SLASH = re.compile(rb"%2f", re.IGNORECASE).search
_ENCODED_WILDCARD = re.compile(rb"%2a|%24", re.IGNORECASE).search
_LOWER_CASE_HEX = re.compile(rb"%(?:[a-f][0-9A-Fa-f]|[0-9A-F][a-f])").search
_UNRESERVED = re.compile(
    rb"%(?:4[1-9a-f]|5[0-9af]|6[1-9a-f]|7[0-9ae]|3[0-9]|2[de])", re.IGNORECASE
).search


def check_pattern(line: Line, raw: bytes, file: LintedFile) -> None:
    """Check the pattern of a rule; *raw* is its whole line."""
    number, field, value = line
    if not value:
        if field == "allow":
            message = "an empty Allow has no effect: delete it, or write Allow: /"
            file.add(number, "empty-allow", message)
        return
    _check_comment(number, raw[: file.dialect.line_limit], value, file)
    if _URL(value):
        path = _URL(value)[1] or b"/"  # type: ignore[index]
        message = "crawlers compare patterns with paths, so a full URL matches nothing"
        file.add(number, "absolute-url", f"{message}: write {quoted(path)}")
    elif _names_host(value, file.url):
        message = "crawlers read this host name as a path: write only the path"
        file.add(number, "host-in-pattern", f"{message} that follows it")
    elif not value.startswith(b"/"):
        _check_beginning(line, file)
    if b" " in value or b"\t" in value:
        message = "white space counts as part of the pattern, which then matches no URL"
        message += " in Google's parser: write one path per line, and %20 for a space"
        file.add(number, "white-space-in-pattern", message)
    if b"%" in value:
        _check_encoding(number, value, file)
    if b"*" in value or b"$" in value:
        _check_wildcards(number, value, file)


def _check_comment(number: int, raw: bytes, value: bytes, file: LintedFile) -> None:
    content, hash_, comment = raw.partition(b"#")
    if not hash_ or content[-1:] in _WHITE_SPACE:
        return
    if comment and not any(octet in _WHITE_SPACE for octet in comment[:200].rstrip()):
        message = f"the # begins a comment, so crawlers read {quoted(value)}: write %23"
        message += " for a # in a path; clients never send the fragment of a URL"
        file.add(number, "fragment-in-pattern", message)
    else:
        message = f"crawlers read {quoted(value)}, and the rest is a comment: put"
        file.add(number, "glued-comment", f"{message} a space before the #")


def _names_host(value: bytes, url: str | None) -> bool:
    match = _HOST.match(value)
    if match is None:
        return False
    if _WWW(value) or value.startswith(b"//"):
        return True
    host = match[1].decode("ascii").lower()
    try:
        ours = urlsplit(url or "").hostname or ""
    except ValueError:
        return False
    return bool(ours) and host.removeprefix("www.") == ours.removeprefix("www.")


def _check_beginning(line: Line, file: LintedFile) -> None:
    number, _, value = line
    if value.startswith(b"*") and file.dialect.wildcards:
        return
    written = quoted(b"/" + value.lstrip(b"*"))
    if file.dialect.leading_slash_assumed:
        message = f"some crawlers read {quoted(b'/' + value)}, but Google ignores the"
        file.add(number, "slash-assumed", f"{message} rule: write the leading /")
    else:
        message = f"paths begin with /, so the rule matches nothing: write {written}"
        file.add(number, "pattern-ignored", message)


def _check_encoding(number: int, value: bytes, file: LintedFile) -> None:
    reading = file.dialect.path_encoding
    if _BAD_PERCENT(value):
        message = "crawlers differ on a % without two hexadecimal digits after it:"
        message += " write %25 for a percent sign"
        file.add(number, "bad-percent", message)
    # Where reserved octets are normalized, "/" and "%2F" are equal after a "?".
    path = value.partition(b"?")[0] if reading == "rfc3986" else value
    if _ENCODED_SLASH(path):
        message = "%2F matches only %2F in a URL, never a /: write / to match a slash"
        file.add(number, "encoded-slash", message)
    if _ENCODED_WILDCARD(value):
        message = "%2A and %24 match only the characters * and $ in a URL"
        if reading == "high-octets":
            message = "%2A and %24 match only %2A and %24 in a URL"
        meant = "* to match any text, or $ to match the end"
        if not file.dialect.wildcards:
            meant = "the beginning of a path to match more"
        file.add(number, "encoded-wildcard", f"{message}: write {meant}")
    if _LOWER_CASE_HEX(value):
        message = "some crawlers do not match %aa with %AA: write it in upper case"
        file.add(number, "lower-case-hex", message)
    match = _UNRESERVED(value)
    if match:
        octet = bytes([int(match[0][1:], 16)])
        message = f"matches {quoted(octet)}, but not in Google's parser"
        if reading == "high-octets":
            message = f"does not match {quoted(octet)} here, but does in RFC 9309"
        file.add(
            number,
            "encoded-unreserved",
            f"{match[0].decode()} {message}: write {octet.decode()}",
        )


def _check_wildcards(number: int, value: bytes, file: LintedFile) -> None:
    if not file.dialect.wildcards:
        if b"*" in value or value.endswith(b"$"):
            message = "* and $ match only themselves: write the beginning of a path"
            file.add(number, "literal-wildcard", message)
        return
    if b"**" in value:
        file.add(number, "double-star", "several * match the same as one: write one")
    if value.endswith((b"*", b"*$")) and value.strip(b"/*$"):
        end = "*$" if value.endswith(b"$") else "*"
        message = "patterns match every path that begins with them: leave out the final"
        file.add(number, "trailing-star", f"{message} {end}")
    if b"$" in value[:-1]:
        message = "a $ that is not at the end matches only itself: move it to the end"
        if file.dialect.path_encoding == "rfc3986":
            # RFC 9309, 2.2.3, writes a literal $ like this. Google does not decode it.
            message += ", or write %24"
        file.add(number, "dollar-inside", message)
