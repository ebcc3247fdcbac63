"""Tells why a download failed: whose failure it is, and in words.

Download handlers raise the errors of several libraries, which need not be installed and have
private modules. So an error is told by its number where it has one (errno, or the code of
libcurl), and otherwise by words in the names of its classes.
"""

from __future__ import annotations

import errno
import re
from socket import EAI_MEMORY, gaierror
from typing import NamedTuple

from scrapy_rep.protocol.access.results import Failure


class _Kind(NamedTuple):
    """A kind of error: how it is told, and what it means."""

    words: str
    failure: Failure

    names: str = ""
    """A regular expression for words in the names of its classes; empty if no name tells it."""

    errnos: frozenset[int] = frozenset()

    curl: frozenset[int] = frozenset()
    """The codes of libcurl (https://curl.se/libcurl/c/libcurl-errors.html)."""


_NO_HOST = "the host name could not be resolved"
_REFUSED = "connection refused"

_KINDS = (
    _Kind(
        _NO_HOST,
        Failure.NETWORK,
        "CannotResolveHost|DNSLookup|UnknownHost|gaierror",
        curl=frozenset({6}),
    ),
    _Kind(
        "the host name of the proxy could not be resolved",
        Failure.NETWORK,
        curl=frozenset({5}),
    ),
    # libcurl has one code for each failure of a connection but a time-out.
    _Kind(_REFUSED, Failure.NETWORK, "ConnectionRefused", curl=frozenset({7})),
    _Kind(
        "the host is unreachable",
        Failure.NETWORK,
        errnos=frozenset({errno.EHOSTUNREACH, errno.EHOSTDOWN}),
    ),
    # Also of a host that has only an IPv6 address, where the machine has none.
    _Kind(
        "the network is unreachable",
        Failure.NETWORK,
        errnos=frozenset({errno.ENETDOWN, errno.ENETUNREACH}),
    ),
    _Kind(
        "timed out",
        Failure.NETWORK,
        "TimedOut|Timeout",
        errnos=frozenset({errno.ETIMEDOUT}),
        curl=frozenset({28}),
    ),
    _Kind(
        "the answer is not valid HTTP",
        Failure.OTHER,
        "BadHttpMessage|BadStatusLine|ParseError",
        curl=frozenset({8}),
    ),
    _Kind(
        "connection closed by the server",
        Failure.OTHER,
        "ConnectionDone|ConnectionLost|ServerDisconnected",
        curl=frozenset({52}),
    ),
    _Kind(
        "connection reset by the server",
        Failure.OTHER,
        "ConnectionReset",
        curl=frozenset({55, 56}),
    ),
    _Kind("the answer is incomplete", Failure.OTHER, "DataLoss", curl=frozenset({18})),
)

NO_SERVER = frozenset({_NO_HOST, _REFUSED})
"""The words for errors that mean that there is no server at the host."""

_OWN_ERRNOS = frozenset(
    {
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOBUFS,
        errno.ENOMEM,
        errno.EADDRNOTAVAIL,
    }
)

# No memory, and no address of its own to connect from.
_OWN_CURL = frozenset({27, 45})

# The limits for chains of causes, which can be circular, and branch. Download handlers nest fewer
# errors.
_MAX_DEPTH = 5
_MAX_ERRORS = 50


def kind_of(error: BaseException) -> Failure:
    """Whose failure *error* is, which ended a download."""
    # Also what was handled when the error was raised, which says nothing about its words.
    causes = _causes(error, with_context=True)
    if any(map(_is_own, causes)):
        return Failure.OWN
    for cause in causes:
        if (kind := _kind(cause)) is not None:
            return kind.failure
        if _is_of_tls(cause):
            return Failure.OTHER
    return Failure.OTHER


def in_words(error: BaseException) -> str:
    """The reason for *error*, which ended a download, for logs and reports."""
    causes = _causes(error)
    for cause in causes:
        if _is_own(cause):
            return f"an error of this machine: {_text(cause) or type(cause).__name__}"
    for cause in causes:
        if (kind := _kind(cause)) is not None:
            return kind.words
        if _is_of_tls(cause):
            return f"TLS failed: {_reason_of_tls(cause)}"
    text = next((text for cause in causes if (text := _text(cause))), "")
    return f"{type(error).__name__}: {text}".rstrip(": ")


def _causes(error: BaseException, *, with_context: bool = False) -> list[BaseException]:
    """The causes of *error*, the first cause first, and *error* itself; *with_context* after each
    the error during whose handling it was raised.
    """
    found: list[BaseException] = []
    _collect(error, found, set(), _MAX_DEPTH, with_context)
    return found


def _collect(
    error: BaseException,
    found: list[BaseException],
    seen: set[int],
    depth: int,
    with_context: bool,
) -> None:
    if id(error) in seen or len(seen) == _MAX_ERRORS:
        return
    seen.add(id(error))
    # The latter is of Twisted's CannotListenError.
    causes: list[object] = [error.__cause__, getattr(error, "socketError", None)]
    # Twisted keeps causes in a list of failures, an exception group in a tuple, without
    # ``raise ... from``.
    for name in ("reasons", "exceptions"):
        several = getattr(error, name, None)
        if isinstance(several, (list, tuple)):
            causes += [getattr(each, "value", each) for each in several[:_MAX_ERRORS]]
    for cause in causes if depth else ():
        if isinstance(cause, BaseException):
            _collect(cause, found, seen, depth - 1, with_context)
    found.append(error)
    context = None if error.__suppress_context__ else error.__context__
    if with_context and depth and context is not None:
        _collect(context, found, seen, depth - 1, with_context)


def _is_own(error: BaseException) -> bool:
    if isinstance(error, gaierror):
        return error.errno == EAI_MEMORY
    return (
        isinstance(error, MemoryError)
        or _errno(error) in _OWN_ERRNOS
        or _curl_code(error) in _OWN_CURL
    )


def _kind(error: BaseException) -> _Kind | None:
    names = _names(error)
    number, code = _errno(error), _curl_code(error)
    for kind in _KINDS:
        is_named = kind.names and re.search(kind.names, names)
        if is_named or number in kind.errnos or code in kind.curl:
            return kind
    return None


def _names(error: BaseException) -> str:
    return " ".join(kind.__name__ for kind in type(error).__mro__)


def _errno(error: BaseException) -> int | None:
    """The errno of *error*, an OSError or of Twisted."""
    numbers = (getattr(error, name, None) for name in ("errno", "osError"))
    return next((each for each in numbers if isinstance(each, int)), None)


def _curl_code(error: BaseException) -> int | None:
    code = getattr(error, "code", None) if "CurlError" in _names(error) else None
    return int(code) if isinstance(code, int) else None


def _is_of_tls(error: BaseException) -> bool:
    kinds = type(error).__mro__
    return any(
        kind.__name__ == "SSLError" or kind.__module__ == "OpenSSL.SSL"
        for kind in kinds
    )


def _reason_of_tls(error: BaseException) -> str:
    """OpenSSL's reason: the text of its error, or the last part of its error queue."""
    reason = getattr(error, "reason", None)
    if isinstance(reason, str):
        return reason.lower().replace("_", " ")
    queue = error.args[0] if error.args else None
    if isinstance(queue, list) and queue and queue[-1]:
        return str(queue[-1][-1])
    return _text(error) or type(error).__name__


def _text(error: BaseException) -> str:
    """The message of *error*; empty if it is only the list of its causes."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if hasattr(error, "reasons"):
        return ""
    text = " ".join(str(error).split())
    # libcurl's own text lies between a number, and the address of its documentation.
    return text.partition("curl: ")[2].partition(". See https://")[0] or text
