"""Which redirects of robots.txt are followed, with a fake resolver."""

from __future__ import annotations

import socket
import sys
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request
from scrapy.http import Response
from twisted.internet.address import IPv4Address
from twisted.internet.defer import CancelledError
from twisted.internet.interfaces import IHostnameResolver
from zope.interface import implementer

from scrapy_rep.fetching.boundary import Boundary
from scrapy_rep.settings import RepSettings
from tests.fakes import coroutine_test, fake_crawler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.newest

ASKED = "http://public.example/robots.txt"
TARGET = "http://target.example/robots.txt"
PUBLIC, PRIVATE = "93.184.215.14", "10.0.0.1"


def boundary(**settings: Any) -> Boundary:
    return Boundary(RepSettings.from_settings(fake_crawler(settings).settings))


def redirect(address: str = PUBLIC, **meta: Any) -> Response:
    request, server = Request(ASKED, meta=meta), ip_address(address)
    return Response(ASKED, status=301, ip_address=server, request=request)


@implementer(IHostnameResolver)
class Resolver:
    """A name resolver whose behaviour each test sets."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.resolve: Callable[[Any], None] = self.complete

    def complete(self, receiver: Any, *addresses: str) -> None:
        for address in addresses:
            receiver.addressResolved(IPv4Address("TCP", address, 0))
        receiver.resolutionComplete()

    def resolveHostName(
        self, receiver: Any, name: str, *args: Any, **kwargs: Any
    ) -> Any:
        self.asked.append(name)
        receiver.resolutionBegan(self)
        self.resolve(receiver)
        return self


@pytest.fixture
def resolver() -> Iterator[Resolver]:
    from twisted.internet import reactor

    installed = Resolver()
    before = reactor.installNameResolver(installed)
    yield installed
    reactor.installNameResolver(before)


@pytest.mark.parametrize(
    ("addresses", "follows"),
    [([PUBLIC], True), ([PRIVATE], False), ([PUBLIC, PRIVATE], False), ([], True)],
)
@coroutine_test
async def test_names_are_resolved(
    resolver: Resolver, addresses: list[str], follows: bool
) -> None:
    """A redirect from a public address is not followed to a name that has a private address."""
    resolver.resolve = lambda receiver: resolver.complete(receiver, *addresses)
    assert await boundary().may_follow(ASKED, redirect(), TARGET) is follows
    assert resolver.asked == ["target.example"]


@coroutine_test
async def test_redirects_that_stay(resolver: Resolver) -> None:
    """A redirect from a private address or to the same host is followed; after the latter, an
    answer from a private address is not used.
    """
    inside, outside = boundary(), boundary()
    assert await inside.may_follow(ASKED, redirect(PRIVATE), "http://10.0.0.2/")
    assert inside.may_use(redirect(PRIVATE))
    assert await outside.may_follow(ASKED, redirect(), f"{ASKED}?other")
    assert outside.may_use(redirect())
    assert not outside.may_use(redirect(PRIVATE))
    assert resolver.asked == []


@coroutine_test
async def test_redirects_into_private_networks_can_be_allowed(
    resolver: Resolver,
) -> None:
    """With REP_REDIRECT_PRIVATE every redirect is followed, and no name is resolved."""
    allowed = boundary(REP_REDIRECT_PRIVATE=True)
    for target in (TARGET, "http://10.0.0.1/", "http://localhost/"):
        assert await allowed.may_follow(ASKED, redirect(), target)
        assert allowed.may_use(redirect(PRIVATE))
    assert not await boundary().may_follow(ASKED, redirect(), "http://10.0.0.1/")
    assert resolver.asked == []


@coroutine_test
async def test_a_proxy_resolves_names(resolver: Resolver) -> None:
    """Through a proxy, only the URL of a redirect counts: names are not resolved here, and the
    address of the response is that of the proxy.
    """
    proxied = boundary()
    response = redirect(PRIVATE, proxy="http://10.0.0.2:8080")
    assert await proxied.may_follow(ASKED, response, TARGET)
    assert proxied.may_use(response)
    for target in ("http://10.0.0.1/", "http://printer.localhost/"):
        assert not await proxied.may_follow(ASKED, response, target)
    assert resolver.asked == []


@coroutine_test
async def test_a_resolver_that_fails(resolver: Resolver) -> None:
    """A name that cannot be resolved does not count as private; a cancellation is raised."""

    def fail(receiver: Any) -> None:
        raise OSError("no name server")

    resolver.resolve = fail
    assert await boundary().may_follow(ASKED, redirect(), TARGET)

    def cancel(receiver: Any) -> None:
        raise CancelledError

    resolver.resolve = cancel
    with pytest.raises(CancelledError):
        await boundary().may_follow(ASKED, redirect(), TARGET)


@coroutine_test
async def test_a_resolver_that_is_too_late(resolver: Resolver) -> None:
    """Name resolution ends after the download timeout; a later result is ignored without an
    error.
    """
    receivers: list[Any] = []
    resolver.resolve = receivers.append
    assert await boundary(REP_DOWNLOAD_TIMEOUT=0.01).may_follow(
        ASKED, redirect(), TARGET
    )
    (receiver,) = receivers
    resolver.complete(receiver, PRIVATE)
    resolver.complete(receiver, PRIVATE)
    assert receiver.done.called


@pytest.mark.parametrize(
    ("found", "follows"),
    [(PUBLIC, True), (PRIVATE, False), ("fe80::1%eth0", False), (None, True)],
)
@coroutine_test
async def test_without_a_reactor(
    monkeypatch: pytest.MonkeyPatch, found: str | None, follows: bool
) -> None:
    """Without a reactor, the event loop resolves names."""
    asked = []

    def getaddrinfo(host: str, *args: Any, **kwargs: Any) -> list[Any]:
        asked.append(host)
        if found is None:
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (found, 0))]

    asking = boundary()
    with monkeypatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", getaddrinfo)
        patch.delitem(sys.modules, "twisted.internet.reactor")
        answer = await asking.may_follow(ASKED, redirect(), TARGET)
    assert answer is follows
    assert asked == ["target.example"]
