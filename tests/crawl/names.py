"""A fake resolver for the process of a crawl, so that no real one is asked."""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from functools import partial, partialmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_ALL = "*.test"


def know(names: Mapping[str, Sequence[str | None]], outage: str = "") -> None:
    """Let this process resolve only *names*, and the names and addresses of loopback.

    Each name has a list with one address for each lookup; the last one stays. None is a
    lookup that fails because the resolver does not answer. ``*.test`` stands for all names that end
    so. While the file *outage* exists, these have the address in it, or no address if it is empty,
    and the times of these lookups are appended to a file beside it, ``.lookups``.
    """
    left = {name: list(addresses) for name, addresses in names.items()}
    if outage:
        _forget_lookups()

    def look_up(
        really: Callable[..., Any], host: Any, *args: Any, **kwargs: Any
    ) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name.endswith(".test") and _ALL in left:
            name = _ALL
            if outage and (file := Path(outage)).exists():
                address = file.read_text(encoding="ascii")
                with file.with_suffix(".lookups").open(
                    "a", encoding="ascii"
                ) as lookups:
                    lookups.write(f"{time.monotonic()}\n")
                if not address:
                    raise socket.gaierror(socket.EAI_AGAIN, "No answer in time")
                return really(address, *args, **kwargs)
        if name in left:
            address = left[name].pop(0) if len(left[name]) > 1 else left[name][0]
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


def _forget_lookups() -> None:
    """Have aiohttp, which has no setting of Scrapy for that, look each name up anew."""
    with suppress(ImportError):
        from aiohttp import TCPConnector  # noqa: PLC0415

        made = partialmethod(TCPConnector.__init__, use_dns_cache=False)
        TCPConnector.__init__ = made  # type: ignore[method-assign]
