"""A fake resolver for the process of a crawl, so that no real one is asked."""

from __future__ import annotations

import socket
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_ALL = "*.test"


def know(names: Mapping[str, Sequence[str | None]]) -> None:
    """Let this process resolve only *names*, and the names and addresses of loopback.

    Each name has a list with one address for each lookup; the last one stays. None is a
    lookup that fails because the resolver does not answer. ``*.test`` stands for all names that end
    so.
    """
    addresses_left = {name: list(addresses) for name, addresses in names.items()}

    def look_up(
        really: Callable[..., Any], host: Any, *args: Any, **kwargs: Any
    ) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name.endswith(".test") and _ALL in addresses_left:
            name = _ALL
        if name in addresses_left:
            address = (
                addresses_left[name].pop(0)
                if len(addresses_left[name]) > 1
                else addresses_left[name][0]
            )
            if address is None:
                raise socket.gaierror(socket.EAI_AGAIN, "No answer in time")
            return really(address, *args, **kwargs)
        if name.rpartition(".")[2] != "localhost" and not is_address(name):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return really(host, *args, **kwargs)

    # asyncio uses the first function for lookups, Twisted the second.
    for function in ("getaddrinfo", "gethostbyname"):
        really = getattr(socket, function)
        setattr(socket, function, partial(look_up, really))


class KnowsNoName:
    """A downloader middleware with which its process resolves no name but those of loopback."""

    def __init__(self) -> None:
        know({})


def is_address(name: str, getaddrinfo: Any = socket.getaddrinfo) -> bool:
    """Return whether the system reads *name* as an address, as it does 127.1 and 0x7f.0.0.1."""
    try:
        getaddrinfo(name, None, flags=socket.AI_NUMERICHOST)
    except OSError:
        return False
    return True
