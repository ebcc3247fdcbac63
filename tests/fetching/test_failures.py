"""Descriptions of failed downloads."""

from __future__ import annotations

import errno
import socket
import ssl
from contextlib import suppress

import pytest
from OpenSSL import SSL
from scrapy import exceptions as scrapy_exceptions
from twisted.internet import error
from twisted.python.failure import Failure
from twisted.web._newclient import ParseError, ResponseFailed, ResponseNeverReceived

from scrapy_rep.crawl.fetching.fetcher import in_words, kind_of
from scrapy_rep.protocol.access.results import Failure as Whose


class DownloadFailedError(Exception):
    """Stands for the exception that Scrapy 2.15 and later raise because of another."""


def failed(*errors: Exception) -> Exception:
    """Return what Scrapy's download handlers raise when Twisted's client has failed."""
    outer = DownloadFailedError("[<twisted.python.failure.Failure ...>]")
    outer.__cause__ = ResponseFailed([Failure(error) for error in errors])
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
    first, second = RuntimeError("one"), RuntimeError("other")
    first.__cause__, second.__cause__ = second, first
    return first


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
        (OSError(113, "No route to host"), "the host is unreachable"),
        (because(OSError(24, "Too many open files")), "an error of this machine: Too many open files"),
        (because(OSError("no")), "DownloadFailedError: no"),
        (OSError("reset"), "OSError: reset"),
        (RuntimeError("two\n lines"), "RuntimeError: two lines"),
        (RuntimeError(), "RuntimeError"),
        (circle(), "RuntimeError: other"),
    ],
)  # fmt: skip
def test_errors_are_told_in_words(exception: Exception, words: str) -> None:
    """Errors of Scrapy, Twisted and the system are in words; others by name and message, also those
    that are raised because of each other.
    """
    assert in_words(exception) == words


class CurlError(Exception):
    """Stands for the errors of curl_cffi, of which a code says more than the class."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


class SSLError(CurlError):
    """Stands for curl_cffi's class of this name."""


class CertificateVerifyError(SSLError):
    """Stands for curl_cffi's class of this name."""


CERTIFICATE = CertificateVerifyError(
    "Failed to perform, curl: (60) SSL certificate problem: certificate has expired. See "
    "https://curl.se/libcurl/c/libcurl-errors.html first for more details.",
    60,
)


def test_the_text_of_libcurl_is_short() -> None:
    """An error of libcurl has its own words, without the address of its documentation."""
    words = "TLS failed: (60) SSL certificate problem: certificate has expired"
    assert in_words(CERTIFICATE) == words
    assert in_words(CurlError("curl: (6) Could not ...", 6)).startswith("the host name")


def of_scrapy(name: str, cause: Exception) -> Exception:
    """What Scrapy raises because of *cause*: its own class *name*, where it has one."""
    kind = getattr(scrapy_exceptions, name, None)
    if kind is None:
        return cause
    outer: Exception = kind(str(cause))
    outer.__cause__ = cause
    return outer


def during(handled: Exception, raised: Exception) -> Exception:
    """*raised*, after it was raised while *handled* was handled."""
    with suppress(type(raised)):
        try:
            raise handled
        except type(handled):
            raise raised  # noqa: B904  this is what is tested
    return raised


def unbound() -> Exception:
    """The error of a socket whose address is not one of this machine."""
    with socket.socket() as bound, pytest.raises(OSError, match="assign") as caught:
        bound.bind(("192.0.2.1", 0))
    return caught.value


def unresolved() -> Exception:
    """The error of the system for a host name that it refuses to look up."""
    with pytest.raises(socket.gaierror) as caught:
        socket.getaddrinfo("example.com", "no such service")
    return caught.value


def a_thicket() -> Exception:
    """Return errors that are causes of each other, in many ways."""
    errors = [ResponseFailed([]) for _ in range(60)]
    for knot in errors:
        knot.reasons = [Failure(other) for other in errors]
    return errors[0]


@pytest.mark.parametrize(
    ("exception", "kind"),
    [
        *((OSError(number, "x"), Whose.OWN) for number in (
            errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL)),
        *((OSError(number, "x"), Whose.NETWORK) for number in (errno.ENETDOWN, errno.ENETUNREACH)),
        (MemoryError(), Whose.OWN),
        (unbound(), Whose.OWN),
        (socket.gaierror(socket.EAI_MEMORY, "x"), Whose.OWN),
        (error.ConnectBindError(errno.EMFILE, "Too many open files"), Whose.OWN),
        (error.getConnectError(OSError(errno.ENETUNREACH, "x")), Whose.NETWORK),
        (error.CannotListenError("", 0, unbound()), Whose.OWN),
        (failed(ValueError("x"), OSError(errno.EMFILE, "x")), Whose.OWN),
        (of_scrapy("DownloadConnectionRefusedError", OSError(errno.EMFILE, "x")), Whose.OWN),
        (during(OSError(errno.EMFILE, "x"), RuntimeError()), Whose.OWN),
        (CurlError("bind failed with errno 99", 45), Whose.OWN),
        (CurlError("out of memory", 27), Whose.OWN),
        (unresolved(), Whose.NETWORK),
        (of_scrapy("CannotResolveHostError", error.DNSLookupError("x")), Whose.NETWORK),
        (error.getConnectError(unresolved()), Whose.NETWORK),
        (of_scrapy("DownloadConnectionRefusedError", error.ConnectionRefusedError()), Whose.NETWORK),
        (ConnectionRefusedError(errno.ECONNREFUSED, "x"), Whose.NETWORK),
        (of_scrapy("DownloadTimeoutError", error.TimeoutError()), Whose.NETWORK),
        (error.getConnectError(OSError(errno.ETIMEDOUT, "x")), Whose.NETWORK),
        (error.getConnectError(OSError(errno.EHOSTUNREACH, "x")), Whose.NETWORK),
        (TimeoutError(), Whose.NETWORK),
        (during(error.DNSLookupError(), RuntimeError()), Whose.NETWORK),
        *((CurlError("x", code), Whose.NETWORK) for code in (5, 6, 7, 28)),
        (failed(error.ConnectionLost()), Whose.OTHER),
        (because(ConnectionResetError(errno.ECONNRESET, "x")), Whose.OTHER),
        (failed(SSL.Error()), Whose.OTHER),
        (of_scrapy("DownloadConnectionRefusedError", refused_handshake()), Whose.OTHER),
        (CERTIFICATE, Whose.OTHER),
        (during(error.DNSLookupError(), failed(ParseError("bad", b"x"))), Whose.OTHER),
        (failed(ParseError("bad", b"x")), Whose.OTHER),
        (CurlError("x", 52), Whose.OTHER),
        (RuntimeError(), Whose.OTHER),
        (circle(), Whose.OTHER),
        (a_thicket(), Whose.OTHER),
    ],
    ids=lambda value: value.name if isinstance(value, Whose) else type(value).__name__,
)  # fmt: skip
def test_the_causes_of_an_error_tell_whose_failure_it_is(
    exception: Exception, kind: Whose
) -> None:
    """An error of this machine is told by its number, wherever it is among the causes. Then the
    first cause that is known tells whether anything has answered.
    """
    assert kind_of(exception) is kind
