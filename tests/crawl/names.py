"""A fake resolver of host names for the process of a crawl, so that no test sends a DNS query."""

from __future__ import annotations

import socket
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_WILDCARD = "*.test"


def resolve_only(names: Mapping[str, Sequence[str | None]]) -> None:
    """Make this process resolve only *names*, and the names and addresses of loopback. Other lookups fail.

    The value of a name is a list of addresses: the first lookup returns the first address, and so on. The last
    address is repeated. None in place of an address is a lookup that fails because the resolver does not answer. The
    name ``*.test`` stands for all names that end in ``.test``.
    """
    remaining = {name: list(addresses) for name, addresses in names.items()}

    def look_up(
        original: Callable[..., Any], host: Any, *args: Any, **kwargs: Any
    ) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name.endswith(".test") and _WILDCARD in remaining:
            name = _WILDCARD
        if name in remaining:
            address = (
                remaining[name].pop(0)
                if len(remaining[name]) > 1
                else remaining[name][0]
            )
            if address is None:
                raise socket.gaierror(socket.EAI_AGAIN, "No answer in time")
            return original(address, *args, **kwargs)
        if name.rpartition(".")[2] != "localhost" and not is_address(name):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return original(host, *args, **kwargs)

    # asyncio looks names up with the first function, Twisted with the second.
    for function in ("getaddrinfo", "gethostbyname"):
        original = getattr(socket, function)
        setattr(socket, function, partial(look_up, original))


class KnowsNoName:
    """A downloader middleware that makes its process resolve no names except those of loopback."""

    def __init__(self) -> None:
        resolve_only({})


def is_address(name: str, getaddrinfo: Any = socket.getaddrinfo) -> bool:
    """Return whether the system reads *name* as an IP address. It also reads 127.1 and 0x7f.0.0.1 as addresses."""
    try:
        getaddrinfo(name, None, flags=socket.AI_NUMERICHOST)
    except OSError:
        return False
    return True
