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
            message = "an empty Allow says nothing: delete it, or write Allow: /"
            file.add(number, "empty-allow", message)
        return
    _check_comment(number, raw[: file.dialect.line_limit], value, file)
    if _URL(value):
        path = _URL(value)[1] or b"/"  # type: ignore[index]
        message = "a robots.txt speaks for its own host alone, of paths"
        file.add(number, "absolute-url", f"{message}: write {quoted(path)}")
    elif _names_host(value, file.url):
        message = "looks like the name of a host, where a path is read"
        file.add(number, "host-in-pattern", f"{message}: write what follows it")
    elif not value.startswith(b"/"):
        _check_beginning(line, file)
    if b" " in value or b"\t" in value:
        message = "white space is read as a part of the pattern, and Google's parser "
        message += "then finds it in no URL: one path a line, and %20 for a space"
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
        message = f"a # begins a comment, so that the pattern is {quoted(value)}: write"
        message += " %23 if it is in the path; what follows # in a URL is never sent"
        file.add(number, "fragment-in-pattern", message)
    else:
        message = f"the pattern is {quoted(value)}, and the rest a comment: put a space"
        file.add(number, "glued-comment", f"{message} before the #")


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
        message = (
            f"read as {quoted(b'/' + value)} here, and by Google not at all: write"
        )
        file.add(number, "slash-assumed", f"{message} it with the /")
    else:
        message = f"paths begin with /, so that this matches nothing: write {written}"
        file.add(number, "pattern-ignored", message)


def _check_encoding(number: int, value: bytes, file: LintedFile) -> None:
    reading = file.dialect.path_encoding
    if _BAD_PERCENT(value):
        message = "a % stands before two hexadecimal digits: for itself, write %25"
        file.add(number, "bad-percent", message)
    # Behind a "?", a raw and an encoded slash match both, where reserved octets are
    # normalized.
    path = value.partition(b"?")[0] if reading == "rfc3986" else value
    if _ENCODED_SLASH(path):
        message = "%2F matches %2F in a URL, and never a /: write / if that is meant"
        file.add(number, "encoded-slash", message)
    if _ENCODED_WILDCARD(value):
        message = "%2A and %24 stand for a * and a $ in a URL"
        if reading == "high-octets":
            message = "%2A and %24 match only what is written like this in a URL"
        file.add(
            number,
            "encoded-wildcard",
            f"{message}: for anything or the end, use * or $",
        )
    if _LOWER_CASE_HEX(value):
        message = "is read as in upper case, but not by all: write it in upper case"
        file.add(number, "lower-case-hex", message)
    match = _UNRESERVED(value)
    if match:
        octet = bytes([int(match[0][1:], 16)])
        message = f"is read as {quoted(octet)} here, but not by Google"
        if reading == "high-octets":
            message = f"does not match {quoted(octet)} here, as it does in RFC 9309"
        file.add(
            number,
            "encoded-unreserved",
            f"{match[0].decode()} {message}: write {octet.decode()}",
        )


def _check_wildcards(number: int, value: bytes, file: LintedFile) -> None:
    if not file.dialect.wildcards:
        if b"*" in value or value.endswith(b"$"):
            message = "* and $ stand for themselves here: write the beginning of a path"
            file.add(number, "literal-wildcard", message)
        return
    if b"**" in value:
        file.add(number, "double-star", "one * says what several do: write one")
    if value.endswith((b"*", b"*$")) and value.strip(b"/*$"):
        message = "patterns match all that begins like them: leave out the * at the end"
        file.add(number, "trailing-star", message)
    if b"$" in value[:-1]:
        message = "a $ that is not at the end stands for itself: write %24, or end with"
        file.add(number, "dollar-inside", f"{message} the $")
