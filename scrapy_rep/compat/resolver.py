"""The addresses that a download of this crawl would connect to."""

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

if TYPE_CHECKING:
    from scrapy_rep.protocol.addresses import Address


async def addresses_of(name: str, timeout: float) -> list[Address]:
    """The addresses of a host of that *name*; none where it has none, or none can be had in
    so many seconds.

    It asks whom the downloader asks: with a reactor, the resolver that Scrapy has installed,
    which remembers the answer for the download (``DNSCACHE_ENABLED``).
    """
    try:
        if "twisted.internet.reactor" in sys.modules:
            found = await maybe_deferred_to_future(_ask_reactor(name, timeout))
        else:
            loop = asyncio.get_running_loop()
            asked = loop.getaddrinfo(name, None, type=socket.SOCK_STREAM)
            answers = await asyncio.wait_for(asked, timeout)
            found = [str(address[0]) for *_, address in answers]
        return [ip_address(address) for address in found]
    except CancelledError:
        raise
    except Exception:  # noqa: BLE001  whatever a resolver raises, there is no address
        return []


@implementer(IResolutionReceiver)
class _Receiver:
    """Collects the addresses that a resolver of Twisted finds."""

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


def _ask_reactor(name: str, timeout: float) -> Deferred[list[str]]:
    from twisted.internet import reactor

    receiver = _Receiver()
    asked: Any = reactor
    asked.nameResolver.resolveHostName(receiver, name)
    return receiver.done.addTimeout(timeout, asked)
