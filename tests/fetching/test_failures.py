"""Descriptions of failed downloads."""

from __future__ import annotations

import ssl

import pytest
from OpenSSL import SSL
from twisted.internet import error
from twisted.python.failure import Failure
from twisted.web._newclient import ParseError, ResponseFailed, ResponseNeverReceived

from scrapy_rep.fetching.failures import in_words


class DownloadFailedError(Exception):
    """Stands for the exception that Scrapy 2.15 and later raise because of another."""


def failed(*errors: Exception) -> Exception:
    """Return what Scrapy's download handlers raise when Twisted's client has failed."""
    outer = DownloadFailedError("[<twisted.python.failure.Failure ...>]")
    outer.__cause__ = ResponseFailed([Failure(each) for each in errors])
    return outer


def because(cause: Exception) -> Exception:
    outer = DownloadFailedError("outer")
    outer.__cause__ = cause
    return outer


@pytest.mark.parametrize(
    ("exception", "words"),
    [
        (failed(error.ConnectionDone()), "connection closed by the server"),
        (failed(error.ConnectionLost()), "connection closed by the server"),
        (
            ResponseNeverReceived([Failure(error.ConnectionLost())]),
            "connection closed by the server",
        ),
        (failed(ParseError("bad", b"\x1b[31m")), "the answer is not valid HTTP"),
        (failed(ValueError("no"), KeyError("x")), "DownloadFailedError: no"),
        (
            failed(SSL.Error([("SSL routines", "", "wrong version number")])),
            "TLS failed: wrong version number",
        ),
        (failed(SSL.Error()), "TLS failed: Error"),
        (because(ssl.SSLError(1, "text")), "TLS failed: text"),
        (because(ConnectionResetError(104, "x")), "connection reset by the server"),
        (error.ConnectionRefusedError(), "connection refused"),
        (error.DNSLookupError(), "the host name could not be resolved"),
        (TimeoutError("Getting http://a took longer than 30 seconds."), "timed out"),
        (OSError(113, "No route to host"), "OSError: No route to host"),
        (because(OSError(113, "No route to host")), "DownloadFailedError: No route to host"),
        (OSError("reset"), "OSError: reset"),
        (RuntimeError("two\n lines"), "RuntimeError: two lines"),
        (RuntimeError(), "RuntimeError"),
    ],
)  # fmt: skip
def test_words(exception: Exception, words: str) -> None:
    """Errors of Scrapy, Twisted and the system are in words; others by name and message."""
    assert in_words(exception) == words


def test_reason_of_a_handshake() -> None:
    """For an error of the ssl module, the words are the reason that OpenSSL gives."""
    incoming = ssl.MemoryBIO()
    incoming.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    client = ssl.create_default_context().wrap_bio(
        incoming, ssl.MemoryBIO(), server_hostname="example.com"
    )
    with pytest.raises(ssl.SSLError) as caught:
        client.do_handshake()
    words = in_words(because(caught.value))
    # Newer versions of OpenSSL give the second reason.
    assert words.removeprefix("TLS failed: ") in {
        "wrong version number",
        "record layer failure",
    }


def test_causes_without_end() -> None:
    """Errors that are raised because of each other are described without an endless loop."""
    one, other = RuntimeError("one"), RuntimeError("other")
    one.__cause__, other.__cause__ = other, one
    assert in_words(one).startswith("RuntimeError: ")
