"""Tests of the descriptions and kinds of download errors: :func:`in_words` and :func:`kind_of`."""

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
from scrapy_rep.protocol.access.results import Failure as FailureKind


class DownloadFailedError(Exception):
    """A stand-in for the exceptions that Scrapy 2.15 and later raise for a failed download. Their ``__cause__`` is the
    original error.
    """


def client_failure(*errors: Exception) -> Exception:
    """Return the exception that Scrapy's download handlers raise when Twisted's client has failed with *errors*."""
    outer = DownloadFailedError("[<twisted.python.failure.Failure ...>]")
    outer.__cause__ = ResponseFailed([Failure(error) for error in errors])
    return outer


def raised_from(cause: Exception) -> Exception:
    """Return a Scrapy exception that was raised from *cause*."""
    outer = DownloadFailedError("outer")
    outer.__cause__ = cause
    return outer


def refused_handshake() -> Exception:
    """Return the error of a TLS client after the server has refused its TLS version with an alert."""
    incoming = ssl.MemoryBIO()
    incoming.write(b"\x15\x03\x03\x00\x02\x02\x46")
    client = ssl.create_default_context().wrap_bio(
        incoming, ssl.MemoryBIO(), server_hostname="example.com"
    )
    with pytest.raises(ssl.SSLError) as caught:
        client.do_handshake()
    return caught.value


def circular_causes() -> Exception:
    """Return an exception whose cause has the exception itself as its cause."""
    first, second = RuntimeError("one"), RuntimeError("other")
    first.__cause__, second.__cause__ = second, first
    return first


@pytest.mark.parametrize(
    ("exception", "words"),
    [
        (client_failure(error.ConnectionDone()), "connection closed by the server"),
        (client_failure(error.ConnectionLost()), "connection closed by the server"),
        (
            ResponseNeverReceived([Failure(error.ConnectionLost())]),
            "connection closed by the server",
        ),
        (client_failure(ParseError("bad", b"\x1b[31m")), "the answer is not valid HTTP"),
        (client_failure(ValueError("no"), KeyError("x")), "DownloadFailedError: no"),
        (
            client_failure(SSL.Error([("SSL routines", "", "wrong version number")])),
            "TLS failed: wrong version number",
        ),
        (client_failure(SSL.Error()), "TLS failed: Error"),
        (raised_from(ssl.SSLError(1, "text")), "TLS failed: text"),
        (raised_from(refused_handshake()), "TLS failed: tlsv1 alert protocol version"),
        (raised_from(ConnectionResetError(104, "x")), "connection reset by the server"),
        (error.ConnectionRefusedError(), "connection refused"),
        (error.DNSLookupError(), "the host name could not be resolved"),
        (TimeoutError("Getting http://a took longer than 30 seconds."), "timed out"),
        (OSError(113, "No route to host"), "the host is unreachable"),
        (raised_from(OSError(24, "Too many open files")), "an error of this machine: Too many open files"),
        (raised_from(OSError("no")), "DownloadFailedError: no"),
        (OSError("reset"), "OSError: reset"),
        (RuntimeError("two\n lines"), "RuntimeError: two lines"),
        (RuntimeError(), "RuntimeError"),
        (circular_causes(), "RuntimeError: other"),
    ],
)  # fmt: skip
def test_errors_are_described_in_words(exception: Exception, words: str) -> None:
    """Known errors of Scrapy, Twisted and the system have a description in words. Other errors are described by their
    class and message. Errors that are causes of each other end in a description too, not in an infinite loop.
    """
    assert in_words(exception) == words


class CurlError(Exception):
    """A stand-in for the exceptions of curl_cffi. *code* is the error code of libcurl, for example 28 for a timeout."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


class SSLError(CurlError):
    """A stand-in for the class of this name in curl_cffi."""


class CertificateVerifyError(SSLError):
    """A stand-in for the class of this name in curl_cffi."""


CERTIFICATE = CertificateVerifyError(
    "Failed to perform, curl: (60) SSL certificate problem: certificate has expired. See "
    "https://curl.se/libcurl/c/libcurl-errors.html first for more details.",
    60,
)


def test_errors_of_libcurl_are_described_without_the_url_of_its_documentation() -> None:
    words = "TLS failed: (60) SSL certificate problem: certificate has expired"
    assert in_words(CERTIFICATE) == words
    assert in_words(CurlError("curl: (6) Could not ...", 6)).startswith("the host name")


def scrapy_error(name: str, cause: Exception) -> Exception:
    """Return the exception that Scrapy raises for *cause*: an instance of its class *name*, or *cause* itself if this
    version of Scrapy does not have the class.
    """
    exception_class = getattr(scrapy_exceptions, name, None)
    if exception_class is None:
        return cause
    outer: Exception = exception_class(str(cause))
    outer.__cause__ = cause
    return outer


def raised_during(handled: Exception, raised: Exception) -> Exception:
    """Raise *raised* in an exception handler for *handled*, and return it. Python then sets its ``__context__``."""
    with suppress(type(raised)):
        try:
            raise handled
        except type(handled):
            raise raised  # noqa: B904  without "from": the context is tested
    return raised


def bind_error() -> Exception:
    """Return the error of a socket that is bound to an address of another machine."""
    with socket.socket() as bound, pytest.raises(OSError, match="assign") as caught:
        bound.bind(("192.0.2.1", 0))
    return caught.value


def lookup_error() -> Exception:
    """Return the exception that Python raises if a host name cannot be looked up."""
    with pytest.raises(socket.gaierror) as caught:
        socket.getaddrinfo("example.com", "no such service")
    return caught.value


def very_many_causes() -> Exception:
    """Return one of 60 exceptions, each with all 60 as its causes. There are too many chains of causes to follow them
    all.
    """
    errors = [ResponseFailed([]) for _ in range(60)]
    for error_ in errors:
        error_.reasons = [Failure(cause) for cause in errors]
    return errors[0]


@pytest.mark.parametrize(
    ("exception", "kind"),
    [
        *((OSError(number, "x"), FailureKind.OWN) for number in (
            errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL)),
        *((OSError(number, "x"), FailureKind.NETWORK) for number in (errno.ENETDOWN, errno.ENETUNREACH)),
        (MemoryError(), FailureKind.OWN),
        (bind_error(), FailureKind.OWN),
        (socket.gaierror(socket.EAI_MEMORY, "x"), FailureKind.OWN),
        (error.ConnectBindError(errno.EMFILE, "Too many open files"), FailureKind.OWN),
        (error.getConnectError(OSError(errno.ENETUNREACH, "x")), FailureKind.NETWORK),
        (error.CannotListenError("", 0, bind_error()), FailureKind.OWN),
        (client_failure(ValueError("x"), OSError(errno.EMFILE, "x")), FailureKind.OWN),
        (scrapy_error("DownloadConnectionRefusedError", OSError(errno.EMFILE, "x")), FailureKind.OWN),
        (raised_during(OSError(errno.EMFILE, "x"), RuntimeError()), FailureKind.OWN),
        (CurlError("bind failed with errno 99", 45), FailureKind.OWN),
        (CurlError("out of memory", 27), FailureKind.OWN),
        (lookup_error(), FailureKind.NETWORK),
        (scrapy_error("CannotResolveHostError", error.DNSLookupError("x")), FailureKind.NETWORK),
        (error.getConnectError(lookup_error()), FailureKind.NETWORK),
        (scrapy_error("DownloadConnectionRefusedError", error.ConnectionRefusedError()), FailureKind.NETWORK),
        (ConnectionRefusedError(errno.ECONNREFUSED, "x"), FailureKind.NETWORK),
        (scrapy_error("DownloadTimeoutError", error.TimeoutError()), FailureKind.NETWORK),
        (error.getConnectError(OSError(errno.ETIMEDOUT, "x")), FailureKind.NETWORK),
        (error.getConnectError(OSError(errno.EHOSTUNREACH, "x")), FailureKind.NETWORK),
        (TimeoutError(), FailureKind.NETWORK),
        (raised_during(error.DNSLookupError(), RuntimeError()), FailureKind.NETWORK),
        *((CurlError("x", code), FailureKind.NETWORK) for code in (5, 6, 7, 28)),
        (client_failure(error.ConnectionLost()), FailureKind.OTHER),
        (raised_from(ConnectionResetError(errno.ECONNRESET, "x")), FailureKind.OTHER),
        (client_failure(SSL.Error()), FailureKind.OTHER),
        (scrapy_error("DownloadConnectionRefusedError", refused_handshake()), FailureKind.OTHER),
        (CERTIFICATE, FailureKind.OTHER),
        (raised_during(error.DNSLookupError(), client_failure(ParseError("bad", b"x"))), FailureKind.OTHER),
        (client_failure(ParseError("bad", b"x")), FailureKind.OTHER),
        (CurlError("x", 52), FailureKind.OTHER),
        (RuntimeError(), FailureKind.OTHER),
        (circular_causes(), FailureKind.OTHER),
        (very_many_causes(), FailureKind.OTHER),
    ],
    ids=lambda value: value.name if isinstance(value, FailureKind) else type(value).__name__,
)  # fmt: skip
def test_the_causes_of_an_error_determine_its_kind(
    exception: Exception, kind: FailureKind
) -> None:
    """If any of the causes is an error of this machine, such as too many open files, the kind is OWN. Otherwise, the
    first cause of a known type decides: the kind is NETWORK if no server has answered, for example after a timeout, and
    OTHER in all other cases.
    """
    assert kind_of(exception) is kind
