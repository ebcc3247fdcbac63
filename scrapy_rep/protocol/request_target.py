"""Decides whether a crawler may fetch a URL. The crawler may fetch it only if robots.txt allows every form of the URL
that the server can see.

For example, a server can see ``/a/../%62`` as ``/b``, because clients and servers resolve dot segments and decode
octets. :func:`forms` returns all forms of a URL, at most four.
:meth:`RobotsTxt.decide <scrapy_rep.protocol.robots.RobotsTxt.decide>` decides on a single form.

The request target is the path and query of a URL (RFC 9112, 3.2).
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
TWISTED = "twisted"
"""The names of the HTTP clients. Each client changes URLs before sending them:

- :data:`TWISTED`, Scrapy's default, drops an empty path parameter (``;``) and an empty query. If the path begins with
  two slashes, Twisted inserts two more: ``//a`` is sent as ``////a``.
- :data:`HTTP2`, Scrapy's HTTP/2 handler, makes the same changes as Twisted, and drops all parameters of the last path
  segment (``;x``).
- :data:`AIOHTTP` decodes unreserved octets and most reserved octets.
- :data:`HTTPX` resolves dot segments, except those with ``%2e`` or a backslash."""

_ONLY_TWISTED = frozenset({TWISTED})

# Matches only URLs for which forms() returns a single form, the URL as written. Nearly all URLs match. Such a URL
# consists of visible ASCII characters other than "#", "%", ";" and "\". It does not end with "?". No slash after the
# host is followed by a dot or another slash. Each character matches in only one way, so there is no backtracking.
# Without this expression, is_allowed() takes 1.3 times as long.
_CHARACTERS = r"!\"$&-.0-:<-\[\]-~"
_BUT_DOT = r"!\"$&-\-0-:<-\[\]-~"
_ORDINARY = re.compile(
    rf"[a-z]+://[{_CHARACTERS}]*(?:/[{_BUT_DOT}][{_CHARACTERS}]*)*/?(?<!\?)"
).fullmatch

# The expressions below are strings, not compiled patterns. Few URLs need them, so Python compiles each expression at
# its first use.

# Finds the parts of a URL that clients or servers change, so that forms() may return several forms: a backslash, a
# character outside visible ASCII, the beginning of a dot segment, two slashes in a row (except after the scheme), empty
# path parameters (";"), an empty query, an encoded unreserved octet, or a "%" without two hex digits.
_MAY_HAVE_FORMS = (
    r"[^!-\[\]-~]"
    r"|/(?:\.(?:[./?#%]|$)|(?<!:/)/)"
    r"|;(?:[?#]|$)|\?(?:#|$)"
    r"|%(?:2[DdEe]|3[0-9]|[46][1-9A-Fa-f]|5[0-9AaFf]|7[0-9AaEe]|(?![0-9A-Fa-f]{2}))"
)

# Captures three parts of a URL: the scheme with the authority, the path, and the query.
_PARTS = r"([^/?#]*//[^/?#]*)([^?#]*)(\?[^#]*)?"

# The characters that URL parsers remove wherever they appear in a URL (WHATWG URL, 4.4).
_TAB_OR_NEWLINE = str.maketrans("", "", "\t\r\n")

_WHITE_SPACE = r"[\x00-\x20\x7f]"
_UNSENDABLE = r"[^!-~]+"
_ENCODED = r"%([0-9A-Fa-f]{2})?"
_UNRESERVED = frozenset(string.ascii_letters + string.digits + "-._~")

Dots: TypeAlias = "tuple[frozenset[str], frozenset[str]]"
# Browsers resolve dot segments before they send a URL, and servers when they receive it, even if a dot is encoded.
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
    clients: frozenset[str] = _ONLY_TWISTED,
) -> Decision:
    """Return the decision whether a crawler may fetch *url*. The crawler may fetch the URL only if *robots* allows
    all forms in which a server can see the URL (see :func:`forms`).

    If *robots* allows the URL as written but forbids another form, return the decision on that form,
    with the form in the field ``form``. Otherwise, return the decision on the URL as written. *agents* are
    the crawler's product tokens, in order of preference. *clients* are the names of the HTTP clients that can
    send the URL, such as :data:`TWISTED`.
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
    clients: frozenset[str] = _ONLY_TWISTED,
) -> bool:
    """Return the same as ``decide(...).allowed``, in half the time."""
    if not robots.is_allowed(url, agents):
        return False
    if _ORDINARY(url):
        return True
    return all(robots.is_allowed(form, agents) for form in forms(url, clients)[1:])


def forms(url: str, clients: frozenset[str] = _ONLY_TWISTED) -> tuple[str, ...]:
    """Return the forms in which a server can see *url*, without duplicates. The first form is *url* itself. For
    example, a server can see ``https://example.com/a/../%62`` in three forms:

    - As written: ``https://example.com/a/../%62``.
    - As sent: ``https://example.com/%62``. Dot segments are resolved (RFC 3986, 5.2.4), and the path and query are
      changed by the HTTP client (see :data:`TWISTED` for the changes that each client makes).
    - As read by a server: ``https://example.com/b``. Dot segments are resolved, unreserved octets are decoded, and
      characters outside visible ASCII are encoded (RFC 3986, 6.2.2).

    *clients* are the names of the HTTP clients that can send the URL. If there are several, the forms of all of them
    are returned. A crawl has two clients if it uses one for ``http`` and another one for ``https``.

    A URL whose path begins with two slashes has a fourth form if the client is :data:`TWISTED` or :data:`HTTP2`. These
    clients insert two more slashes, and can send the path with or without its dot segments resolved. For example, they
    can send ``//a/../b`` as ``////b`` or as ``////a/../b``.
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
    # The URL as written is one of the forms, because some clients send it unchanged, and some servers do not normalize
    # it.
    targets = [url]
    for client in sorted(clients):
        targets += (start + target for target in _sent(path, query, client))
        # In the form that a server reads, unreserved octets are decoded. This changes a decision only in a dialect that
        # does not decode unreserved octets when it compares a URL with patterns.
        sent_path, sent_query = _without_empty(path, query, client)
        read = _without_dots(_normal(sent_path.replace("\\", "/")))
        targets.append(start + read + _normal(sent_query))
    return tuple(dict.fromkeys(targets))


def have_same_target(url: str, other: str) -> bool:
    """Whether the paths and queries of *url* and *other* differ only in spelling, as ``/%7Ea/./b`` and ``/~a/b`` do.
    The hosts are not compared.
    """
    # A server can see each URL in several forms (see forms()). The targets differ only in spelling if a form of `url`
    # and a form of `other` have the same path and query.
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


def _sent(path: str, query: str, client: str) -> tuple[str, ...]:
    """Return the request targets, such as ``/a?b``, that the HTTP client *client* can send for *path* and *query*.

    Usually there is one target, with dot segments resolved. If *path* begins with two slashes and the client is
    :data:`TWISTED` or :data:`HTTP2`, there are two targets: the first with unresolved dot segments, the second with dot
    segments resolved.
    """
    # White space ends the target, as in a request line.
    end = re.search(_WHITE_SPACE, path + query)
    if end:
        path, mark, query = (path + query)[: end.start()].partition("?")
        query = mark + query
    if client == AIOHTTP:
        path = _without_dots(_requoted(path.replace("\\", "/"), _DECODED_IN_PATHS))
        return (path + _requoted(query, _DECODED_IN_QUERIES),)
    if client == HTTPX:
        return (_without_dots(path, _RAW_DOTS) + query,)
    has_two_slashes = path.startswith("//")
    path, query = _without_empty(path, query, client)
    resolved = _without_dots(path.replace("\\", "/")) + query
    # If a path begins with two slashes, Twisted and HTTP2 send it with two more slashes: "////a/../b" for "//a/../b".
    # So the target that they send with unresolved dot segments is not the target of the URL as written, which forms()
    # returns in any case.
    return (f"//{path}{query}", f"//{resolved}") if has_two_slashes else (resolved,)


def _without_empty(path: str, query: str, client: str) -> tuple[str, str]:
    """Return *path* and *query* without the parts that *client* drops before it sends a URL: empty parameters of the
    last path segment (``;``), and an empty query (``?``). The client :data:`HTTP2` drops all parameters of the last
    segment.
    """
    at = path.find(";", path.rfind("/"))
    if at >= 0 and (at == len(path) - 1 or client == HTTP2):
        path = path[:at]
    return path, "" if query == "?" else query


def _without_dots(path: str, dots: Dots = _ALL_DOTS) -> str:
    """Return *path* with its dot segments resolved (RFC 3986, 5.2.4). *dots* are two sets: the segments
    that count as ``.``, and the segments that count as ``..``.
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
    """Return *text* with unreserved octets decoded, and with characters outside visible ASCII encoded. A
    ``%`` without two hex digits becomes ``%25``.
    """
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
