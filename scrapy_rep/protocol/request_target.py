"""The request target: the part of a URL that a server sees (RFC 9112, 3.2).

Clients and servers may both change the form of a URL: they resolve dot segments and decode
octets. So a crawler may fetch a URL only if robots.txt allows each form in which the server
may see the URL. :class:`~scrapy_rep.protocol.robots.RobotsTxt` decides on a single form;
the functions here check up to four forms, which :func:`forms` explains.
"""

from __future__ import annotations

import re
import string
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import quote

from scrapy_rep.protocol.origins import C0_CONTROL_OR_SPACE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy_rep.protocol.robots import RobotsTxt
    from scrapy_rep.protocol.robotstxt.rules import Decision

AIOHTTP = "aiohttp"
HTTP2 = "http2"
HTTPX = "httpx"
"""HTTP clients that change URLs in other ways than Twisted does. aiohttp decodes most reserved octets.
Scrapy's HTTP/2 handler drops the parameters of a path (``;x``). httpx resolves dot segments, except
those with ``%2e`` or a backslash."""

_NO_CLIENTS: frozenset[str] = frozenset()

# Matches URLs that have only one form, as nearly all have: all clients send each character unchanged, no dot
# or slash follows a slash in the path, there is none of "#%;\", and no "?" at the end. Each
# character matches in only one way, so there is no backtracking. Without this expression,
# is_allowed() takes 1.3 times as long.
_CHARACTERS = r"!\"$&-.0-:<-\[\]-~"
_BUT_DOT = r"!\"$&-\-0-:<-\[\]-~"
_ORDINARY = re.compile(
    rf"[a-z]+://[{_CHARACTERS}]*(?:/[{_BUT_DOT}][{_CHARACTERS}]*)*/?(?<!\?)"
).fullmatch

# Python compiles the expressions below at their first use, since few URLs need them.

# Finds the parts that give a URL several forms: a character that no URL may have (RFC 3986), a dot
# segment, a path that begins with "//", empty parameters, an empty query, an encoded
# unreserved octet, or a "%" that begins no encoded octet.
_MAY_HAVE_FORMS = (
    r"[^!-\[\]-~]"
    r"|/(?:\.(?:[./?#%]|$)|(?<!:/)/)"
    r"|;(?:[?#]|$)|\?(?:#|$)"
    r"|%(?:2[DdEe]|3[0-9]|[46][1-9A-Fa-f]|5[0-9AaFf]|7[0-9AaEe]|(?![0-9A-Fa-f]{2}))"
)

# Captures scheme and authority, path, and query.
_PARTS = r"([^/?#]*//[^/?#]*)([^?#]*)(\?[^#]*)?"

# The characters that URL parsers remove everywhere (WHATWG URL, 4.4).
_TAB_OR_NEWLINE = str.maketrans("", "", "\t\r\n")

_WHITE_SPACE = r"[\x00-\x20\x7f]"
_UNSENDABLE = r"[^!-~]+"
_ENCODED = r"%([0-9A-Fa-f]{2})?"
_UNRESERVED = frozenset(string.ascii_letters + string.digits + "-._~")

Dots: TypeAlias = "tuple[frozenset[str], frozenset[str]]"
_DOT = frozenset({".", "%2e", "%2E"})
_ALL_DOTS: Dots = (_DOT, frozenset(first + second for first in _DOT for second in _DOT))
_RAW_DOTS: Dots = (frozenset({"."}), frozenset({".."}))

# The octets that yarl, the URL library of aiohttp, decodes.
_DECODED_IN_QUERIES = _UNRESERVED | frozenset("!$'()*,?/:@")
_DECODED_IN_PATHS = _UNRESERVED | frozenset("!$'()*,&=;:@")


def decide(
    robots: RobotsTxt,
    url: str,
    agents: str | Sequence[str],
    clients: frozenset[str] = _NO_CLIENTS,
) -> Decision:
    """Decide whether a crawler may fetch *url*, in each form in which a server may see the URL.

    If *robots* allows the URL as written but forbids another of its :func:`forms`, return the
    decision on the forbidden form, which is then the ``form`` of the decision.
    """
    decision = robots.decide(url, agents)
    if decision.allowed and not _ORDINARY(url):
        for form in forms(url, clients)[1:]:
            other = robots.decide(form, agents)
            if not other.allowed:
                return other._replace(form=form)
    return decision


def is_allowed(
    robots: RobotsTxt,
    url: str,
    agents: str | Sequence[str],
    clients: frozenset[str] = _NO_CLIENTS,
) -> bool:
    """Return the same as ``decide(...).allowed``, in half the time."""
    if not robots.is_allowed(url, agents):
        return False
    if _ORDINARY(url):
        return True
    return all(robots.is_allowed(form, agents) for form in forms(url, clients)[1:])


def forms(url: str, clients: frozenset[str] = _NO_CLIENTS) -> tuple[str, ...]:
    """Return the forms in which a server may see *url*, without duplicates. There are up to three, or
    four if the path begins with two slashes:

    1. The URL as written: some clients send URLs unchanged, and some servers take them literally.
    2. The URL as sent. No client sends white space around a URL, or tabs and line breaks in it;
       other white space ends the target in a request line. Twisted sends two more slashes if the
       path begins with two, and leaves out empty parameters and an empty query. Dot segments are
       resolved (RFC 3986, 5.2.4), with ``%2e`` as a dot and a backslash as a slash: browsers
       resolve them before they send a URL, and servers when they receive it. If the path begins
       with two slashes, the URL as Twisted sends it, with unresolved dot segments, is a fourth form.
       If *clients* includes :data:`AIOHTTP`, :data:`HTTP2` or :data:`HTTPX`, the URL is changed
       as that client does.
    3. The URL as a server reads it: dot segments are resolved, unreserved octets decoded, and
       characters that must not appear raw in a URL are encoded
       (RFC 3986, 6.2.2). Whether octets are decoded matters
       only in a dialect that does not decode them itself.
    """
    is_changed = (AIOHTTP in clients and "%" in url) or (
        HTTP2 in clients and ";" in url
    )
    if not (is_changed or re.search(_MAY_HAVE_FORMS, url)):
        return (url,)
    parts = re.match(_PARTS, url.strip(C0_CONTROL_OR_SPACE).translate(_TAB_OR_NEWLINE))
    if parts is None:
        return (url,)
    start, path, query = parts[1], parts[2] or "/", parts[3] or ""
    sent = (start + target for target in _sent(path, query, clients))
    path, query = _without_empty(path, query, clients)
    read = _without_dots(_normal(path.replace("\\", "/"))) + _normal(query)
    return tuple(dict.fromkeys((url, *sent, start + read)))


def have_same_target(url: str, other: str) -> bool:
    """Whether a server may see the same path and query in both URLs. Their hosts are not compared."""
    return not _all_targets(url).isdisjoint(_all_targets(other))


def _all_targets(url: str) -> set[str]:
    matches = (re.match(_PARTS, form) for form in forms(url))
    return {(match[2] or "/") + (match[3] or "") for match in matches if match}


def is_robotstxt(url: str) -> bool:
    """Whether the request target of *url* is exactly ``/robots.txt``."""
    if "/robots.txt" not in url:
        return False
    parts = re.match(_PARTS, url)
    return parts is not None and parts[2] == "/robots.txt" and parts[3] is None


def _sent(path: str, query: str, clients: frozenset[str]) -> tuple[str, ...]:
    """Return the targets that a client may send for *path* and *query*: the second of the :func:`forms`.
    There are two if the path begins with two slashes: one with its dot segments, one without.
    """
    end = re.search(_WHITE_SPACE, path + query)
    if end:
        path, mark, query = (path + query)[: end.start()].partition("?")
        query = mark + query
    if AIOHTTP in clients:
        path = _without_dots(_requoted(path.replace("\\", "/"), _DECODED_IN_PATHS))
        return (path + _requoted(query, _DECODED_IN_QUERIES),)
    if HTTPX in clients:
        return (_without_dots(path, _RAW_DOTS) + query,)
    has_two_slashes = path.startswith("//")
    path, query = _without_empty(path, query, clients)
    resolved = _without_dots(path.replace("\\", "/")) + query
    return (f"//{path}{query}", f"//{resolved}") if has_two_slashes else (resolved,)


def _without_empty(path: str, query: str, clients: frozenset[str]) -> tuple[str, str]:
    """Remove the parts of *path* and *query* that clients drop before they send a URL: empty parameters of the last
    segment (``;``) and an empty query (``?``). The client :data:`HTTP2` drops all parameters of the last segment.
    """
    at = path.find(";", path.rfind("/"))
    if at >= 0 and (at == len(path) - 1 or HTTP2 in clients):
        path = path[:at]
    return path, "" if query == "?" else query


def _without_dots(path: str, dots: Dots = _ALL_DOTS) -> str:
    """Return *path* with its dot segments resolved (RFC 3986, 5.2.4). *dots* are two sets: the spellings
    of ``.`` and the spellings of ``..``.
    """
    single, double = dots
    segments = path.split("/")
    if single.isdisjoint(segments) and double.isdisjoint(segments):
        return path
    kept: list[str] = []
    for segment in segments[1:]:
        if segment in double:
            del kept[-1:]
        elif segment not in single:
            kept.append(segment)
    if segments[-1] in single or segments[-1] in double:
        kept.append("")
    return "/" + "/".join(kept)


def _normal(text: str) -> str:
    """Return *text* with unsendable characters encoded, and unreserved octets decoded."""
    text = re.sub(_UNSENDABLE, _as_encoded, text)
    return re.sub(_ENCODED, _as_normal, text) if "%" in text else text


def _as_encoded(match: re.Match[str]) -> str:
    return quote(match[0], safe="", errors="surrogatepass")


def _as_normal(match: re.Match[str]) -> str:
    if match[1] is None:
        return "%25"
    octet = chr(int(match[1], 16))
    return octet if octet in _UNRESERVED else match[0]


def _requoted(text: str, decoded: frozenset[str]) -> str:
    def as_sent(match: re.Match[str]) -> str:
        if match[1] is None:
            return "%25"
        octet = chr(int(match[1], 16))
        return octet if octet in decoded else match[0].upper()

    return re.sub(_ENCODED, as_sent, text)
