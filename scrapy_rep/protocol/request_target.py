"""The request target: the part of a URL that a server sees (RFC 9112, 3.2).

Clients and servers may both change the form of a URL: they resolve dot segments and decode
octets. So a crawler may fetch a URL only if robots.txt allows each form in which the server
may see it. :class:`~scrapy_rep.protocol.robotstxt.accessrules.AccessRules` decides on one
form; the functions here check all of them.
"""

from __future__ import annotations

import re
import string
from typing import TYPE_CHECKING
from urllib.parse import quote

from scrapy_rep.protocol.origins import C0_CONTROL_OR_SPACE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scrapy_rep.protocol.robotstxt.accessrules import AccessRules
    from scrapy_rep.protocol.robotstxt.decisions import Decision

AIOHTTP = "aiohttp"
HTTP2 = "http2"
"""Clients that change URLs: aiohttp decodes most reserved octets, and Scrapy's HTTP/2
handler drops the parameters of a path (``;x``)."""

_NO_CLIENTS: frozenset[str] = frozenset()

# Nearly every URL matches this, and has only one form: all clients send its characters
# unchanged, no dot or slash follows a slash in its path, it has none of "#%;\", and no "?"
# at its end. Each character matches in only one way, so there is no backtracking.
_CHARACTERS = r"!\"$&-.0-:<-\[\]-~"
_BUT_DOT = r"!\"$&-\-0-:<-\[\]-~"
_ORDINARY = re.compile(
    rf"[a-z]+://[{_CHARACTERS}]*(?:/[{_BUT_DOT}][{_CHARACTERS}]*)*/?(?<!\?)"
).fullmatch

# Finds what gives a URL several forms: a character that no URL may have (RFC 3986), a dot
# segment, a path that begins with "//", empty parameters, an empty query, or an encoded
# unreserved octet.
_MAY_HAVE_FORMS = re.compile(
    r"[^!-\[\]-~]"
    r"|/(?:\.(?:[./?#%]|$)|(?<!:/)/)"
    r"|;(?:[?#]|$)|\?(?:#|$)"
    r"|%(?:2[DdEe]|3[0-9]|[46][1-9A-Fa-f]|5[0-9AaFf]|7[0-9AaEe])"
).search

# Captures scheme and authority, path, and query.
_PARTS = re.compile(r"([^/?#]*//[^/?#]*)([^?#]*)(\?[^#]*)?").match

# The characters that URL parsers remove everywhere (WHATWG URL, 4.4).
_TAB_OR_NEWLINE = str.maketrans("", "", "\t\r\n")

_WHITE_SPACE = re.compile(r"[\x00-\x20\x7f]").search
_UNSENDABLE = re.compile(r"[^!-~]")
_ENCODED = re.compile(r"%([0-9A-Fa-f]{2})?")
_UNRESERVED = frozenset(string.ascii_letters + string.digits + "-._~")
_DOT = frozenset({".", "%2e", "%2E"})
_DOTS = frozenset(one + other for one in _DOT for other in _DOT)

# The octets that yarl decodes; aiohttp uses it for URLs.
_DECODED_IN_QUERIES = _UNRESERVED | frozenset("!$'()*,?/:@")
_DECODED_IN_PATHS = _UNRESERVED | frozenset("!$'()*,&=;:@")


def decide(
    robots: AccessRules,
    url: str,
    agents: str | Sequence[str],
    clients: frozenset[str] = _NO_CLIENTS,
) -> Decision:
    """Decide on *url* in each form in which a server may see it.

    If *robots* allows the URL as written but forbids one of its :func:`other_forms`, return
    the decision on that form, with the form as its ``form``.
    """
    decision = robots.decide(url, agents)
    if decision.allowed and not _ORDINARY(url):
        for form in other_forms(url, clients):
            other = robots.decide(form, agents)
            if not other.allowed:
                return other._replace(form=form)
    return decision


def is_allowed(
    robots: AccessRules,
    url: str,
    agents: str | Sequence[str],
    clients: frozenset[str] = _NO_CLIENTS,
) -> bool:
    """Whether *url* is allowed: a faster ``decide(...).allowed``."""
    if not robots.is_allowed(url, agents):
        return False
    if _ORDINARY(url):
        return True
    return all(robots.is_allowed(form, agents) for form in other_forms(url, clients))


def other_forms(url: str, clients: frozenset[str] = _NO_CLIENTS) -> tuple[str, ...]:
    """Return the other forms in which a server may see *url*.

    - without white space around it, and without tabs and line breaks in it;
    - cut at other white space, which ends the target in a request line;
    - with dot segments resolved (RFC 3986, 5.2.4), ``%2e`` as a dot, a backslash as a slash;
    - with unreserved octets decoded, and invalid characters encoded (RFC 3986, 6.2.2);
    - as Twisted sends it: with two more slashes if the path begins with two, and without
      empty parameters or an empty query;
    - as the *clients* send it, which may include :data:`AIOHTTP` and :data:`HTTP2`.
    """
    is_changed = (AIOHTTP in clients and "%" in url) or (
        HTTP2 in clients and ";" in url
    )
    if not (is_changed or _MAY_HAVE_FORMS(url)):
        return ()
    cleaned = url.strip(C0_CONTROL_OR_SPACE).translate(_TAB_OR_NEWLINE)
    parts = _PARTS(cleaned)
    if parts is None:
        return ()
    start, path, query = parts[1], parts[2] or "/", parts[3] or ""
    forms = dict.fromkeys(start + each for each in _targets(path, query, clients))
    forms.pop(url, None)
    return tuple(forms)


def have_same_target(url: str, other: str) -> bool:
    """Whether a server may see the same target in both URLs; origins are not compared."""
    return not _all_targets(url).isdisjoint(_all_targets(other))


def _all_targets(url: str) -> set[str]:
    forms = map(_PARTS, (url, *other_forms(url)))
    return {(form[2] or "/") + (form[3] or "") for form in forms if form}


def is_robotstxt(url: str) -> bool:
    """Whether the request target of *url* is exactly ``/robots.txt``."""
    if "/robots.txt" not in url:
        return False
    parts = _PARTS(url)
    return parts is not None and parts[2] == "/robots.txt" and parts[3] is None


def _targets(path: str, query: str, clients: frozenset[str]) -> Iterator[str]:
    targets = [(path, query)]
    end = _WHITE_SPACE(path + query)
    if end:
        path, mark, query = (path + query)[: end.start()].partition("?")
        targets.append((path, mark + query))
    for path, query in targets:
        short = _without_parameters(path, clients), "" if query == "?" else query
        for each in dict.fromkeys(((path, query), short)):
            yield from _forms(*each, clients)


def _forms(path: str, query: str, clients: frozenset[str]) -> Iterator[str]:
    slashed = path.replace("\\", "/")
    normal = _without_dots(_normal(slashed)) + _normal(query)
    yield path + query
    yield _without_dots(slashed) + query
    yield normal
    if AIOHTTP in clients:
        resolved = _without_dots(_requoted(slashed, _DECODED_IN_PATHS))
        yield resolved + _requoted(query, _DECODED_IN_QUERIES)
    if path.startswith("//"):
        yield "//" + path + query
        yield "//" + normal


def _without_parameters(path: str, clients: frozenset[str]) -> str:
    """*path* without the parameters of its last segment, if *clients* do not send them."""
    at = path.find(";", path.rfind("/"))
    if at < 0 or (at < len(path) - 1 and HTTP2 not in clients):
        return path
    return path[:at]


def _without_dots(path: str) -> str:
    """*path* with its dot segments resolved (RFC 3986, 5.2.4)."""
    segments = path.split("/")
    if _DOT.isdisjoint(segments) and _DOTS.isdisjoint(segments):
        return path
    kept: list[str] = []
    for segment in segments[1:]:
        if segment in _DOTS:
            del kept[-1:]
        elif segment not in _DOT:
            kept.append(segment)
    if segments[-1] in _DOT or segments[-1] in _DOTS:
        kept.append("")
    return "/" + "/".join(kept)


def _normal(text: str) -> str:
    """*text* with characters that cannot be sent encoded, and unreserved octets decoded."""
    text = _UNSENDABLE.sub(_as_encoded, text)
    return _ENCODED.sub(_as_normal, text) if "%" in text else text


def _as_encoded(match: re.Match[str]) -> str:
    return quote(match[0], safe="", errors="surrogatepass")


def _as_normal(match: re.Match[str]) -> str:
    if match[1] is None:
        return match[0]
    octet = chr(int(match[1], 16))
    return octet if octet in _UNRESERVED else match[0]


def _requoted(text: str, decoded: frozenset[str]) -> str:
    def as_sent(match: re.Match[str]) -> str:
        if match[1] is None:
            return "%25"
        octet = chr(int(match[1], 16))
        return octet if octet in decoded else match[0].upper()

    return _ENCODED.sub(as_sent, text)
