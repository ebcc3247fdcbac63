"""Describes in words why a download failed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_NO_HOST = "the host name could not be resolved"
_REFUSED = "connection refused"

# By words in the class name: download handlers raise the errors of several libraries, which need
# not be installed and have private modules.
_WORDS = {
    "BadHttpMessage|BadStatusLine|ParseError": "the answer is not valid HTTP",
    "CannotResolveHost|DNSLookup|gaierror": _NO_HOST,
    "ConnectionDone|ConnectionLost|ServerDisconnected": "connection closed by the server",
    "ConnectionRefused": _REFUSED,
    "ConnectionReset": "connection reset by the server",
    "DataLoss": "the answer is incomplete",
    "TimedOut|Timeout": "timed out",
}

NO_SERVER = frozenset({_NO_HOST, _REFUSED})
"""The words for errors that mean that there is no server at the host."""

# The limit for chains of causes, which can be circular. Download handlers nest fewer errors.
_MAX_DEPTH = 5


def in_words(error: BaseException) -> str:
    """The reason for *error*, which ended a download, for logs and reports."""
    causes = list(_causes(error))
    for cause in causes:
        kinds = " ".join(kind.__name__ for kind in type(cause).__mro__)
        for names, words in _WORDS.items():
            if re.search(names, kinds):
                return words
        if _is_of_tls(cause):
            return f"TLS failed: {_reason_of_tls(cause)}"
    text = next((text for cause in causes if (text := _text(cause))), "")
    return f"{type(error).__name__}: {text}".rstrip(": ")


def _causes(error: BaseException, depth: int = 0) -> Iterator[BaseException]:
    """The causes of *error*, the first cause first, and *error* itself."""
    # Twisted keeps causes in a list of failures, without ``raise ... from``.
    failures = getattr(error, "reasons", None)
    causes = [
        getattr(failure, "value", failure)
        for failure in (failures if isinstance(failures, (list, tuple)) else ())
    ]
    for cause in (*causes, error.__cause__):
        if isinstance(cause, BaseException) and depth < _MAX_DEPTH:
            yield from _causes(cause, depth + 1)
    yield error


def _is_of_tls(error: BaseException) -> bool:
    return type(error).__name__ == "SSLError" or type(error).__module__ == "OpenSSL.SSL"


def _reason_of_tls(error: BaseException) -> str:
    """OpenSSL's reason: the text of its error, or the last part of its error queue."""
    reason = getattr(error, "reason", None)
    if isinstance(reason, str):
        return reason.lower().replace("_", " ")
    queue = error.args[0] if error.args else None
    if isinstance(queue, list) and queue and queue[-1]:
        return str(queue[-1][-1])
    return str(error) or type(error).__name__


def _text(error: BaseException) -> str:
    """The message of *error*; empty if it is only the list of its causes."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return "" if hasattr(error, "reasons") else " ".join(str(error).split())
