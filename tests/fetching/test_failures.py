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


def refused_handshake() -> Exception:
    """Return the error of a TLS client whose server wants another version of TLS, and says so."""
    incoming = ssl.MemoryBIO()
    incoming.write(b"\x15\x03\x03\x00\x02\x02\x46")
    client = ssl.create_default_context().wrap_bio(
        incoming, ssl.MemoryBIO(), server_hostname="example.com"
    )
    with pytest.raises(ssl.SSLError) as caught:
        client.do_handshake()
    return caught.value


def circle() -> Exception:
    """Return an error that is its own cause, through another."""
    one, other = RuntimeError("one"), RuntimeError("other")
    one.__cause__, other.__cause__ = other, one
    return one


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
        (because(refused_handshake()), "TLS failed: tlsv1 alert protocol version"),
        (because(ConnectionResetError(104, "x")), "connection reset by the server"),
        (error.ConnectionRefusedError(), "connection refused"),
        (error.DNSLookupError(), "the host name could not be resolved"),
        (TimeoutError("Getting http://a took longer than 30 seconds."), "timed out"),
        (OSError(113, "No route to host"), "OSError: No route to host"),
        (because(OSError(113, "No route to host")), "DownloadFailedError: No route to host"),
        (OSError("reset"), "OSError: reset"),
        (RuntimeError("two\n lines"), "RuntimeError: two lines"),
        (RuntimeError(), "RuntimeError"),
        (circle(), "RuntimeError: other"),
    ],
)  # fmt: skip
def test_words(exception: Exception, words: str) -> None:
    """Errors of Scrapy, Twisted and the system are in words; others by name and message, also those
    that are raised because of each other.
    """
    assert in_words(exception) == words
