"""Keeps redirects of robots.txt from leading from the Internet into private networks."""

from __future__ import annotations

import asyncio
import socket
import sys
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IResolutionReceiver
from zope.interface import implementer

from scrapy_rep.protocol.addresses import address_in, is_local_name, is_private
from scrapy_rep.protocol.origins import origin_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scrapy.http import Response

    from scrapy_rep.protocol.addresses import Address
    from scrapy_rep.settings import RepSettings


class Boundary:
    """Checks the redirects of one fetch.

    A site could redirect its robots.txt to the router or the metadata service in the
    crawler's network. So the fetcher does not follow a redirect from a public address to a
    private one. Before it sends a request, it checks the URL and the resolved addresses.
    After the response, it checks the address of the server, since a resolver can give
    another address the next time.

    The addresses that a proxy connects to are not known, so for a request through a proxy
    only the URL is checked.
    """

    def __init__(self, settings: RepSettings) -> None:
        self._settings = settings
        self._is_from_public = False

    async def may_follow(self, url: str, response: Response, target: str) -> bool:
        """Whether the fetcher may follow the redirect from *url* to *target* in *response*."""
        self._is_from_public = False
        if self._settings.redirect_private:
            return True
        # With addresses of both kinds, the source counts as public, and the target as private.
        source, leads_to = _host(url), _host(target)
        is_proxied = _is_proxied(response)
        private = None if is_proxied else _is_server_private(response)
        if private is None:
            private = await self._is_host_private(source, is_proxied=is_proxied, by=all)
        if private:
            return True
        self._is_from_public = True
        if leads_to == source:
            return True
        return not await self._is_host_private(leads_to, is_proxied=is_proxied, by=any)

    def may_use(self, response: Response) -> bool:
        """Whether the fetcher may use *response*: not if its server has a private address, and
        the redirect that :meth:`may_follow` checked last came from a public one.
        """
        is_known = self._is_from_public and not _is_proxied(response)
        return not (is_known and _is_server_private(response))

    async def _is_host_private(
        self, host: str, *, is_proxied: bool, by: Callable[[Iterable[bool]], bool]
    ) -> bool:
        address = address_in(host)
        if address is not None:
            return is_private(address)
        if is_local_name(host):
            return True
        if is_proxied:
            return False
        found = await _addresses_of(host, self._settings.download_timeout)
        return bool(found) and by(map(is_private, found))


def _host(url: str) -> str:
    origin = origin_of(url)
    return origin.host if origin else ""


def _is_proxied(response: Response) -> bool:
    return response.request is not None and bool(response.request.meta.get("proxy"))


def _is_server_private(response: Response) -> bool | None:
    """Whether the server has a private address; None if the handler does not report it."""
    address = response.ip_address
    return None if address is None else is_private(address)


async def _addresses_of(name: str, timeout: float) -> list[Address]:
    """The addresses of the host *name* that the resolver finds in *timeout* seconds.

    This uses the resolver of the downloader: with a reactor, the one that Scrapy has
    installed, which caches the addresses for the download (``DNSCACHE_ENABLED``).
    """
    try:
        if "twisted.internet.reactor" in sys.modules:
            found = await maybe_deferred_to_future(_resolve(name, timeout))
        else:
            loop = asyncio.get_running_loop()
            lookup = loop.getaddrinfo(name, None, type=socket.SOCK_STREAM)
            answers = await asyncio.wait_for(lookup, timeout)
            found = [str(address[0]) for *_, address in answers]
        return [ip_address(address) for address in found]
    except CancelledError:
        raise
    except Exception:  # noqa: BLE001  after any error of a resolver, there is no address
        return []


@implementer(IResolutionReceiver)
class _Receiver:
    """Collects the addresses that Twisted's resolver finds."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.done: Deferred[list[str]] = Deferred()

    def resolutionBegan(self, resolutionInProgress: object) -> None:
        pass

    def addressResolved(self, address: Any) -> None:
        self.found.append(address.host)

    def resolutionComplete(self) -> None:
        if not self.done.called:
            self.done.callback(self.found)


def _resolve(name: str, timeout: float) -> Deferred[list[str]]:
    from twisted.internet import reactor

    receiver = _Receiver()
    untyped: Any = reactor
    untyped.nameResolver.resolveHostName(receiver, name)
    return receiver.done.addTimeout(timeout, untyped)
