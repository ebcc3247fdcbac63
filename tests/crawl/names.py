"""What a crawl is told when it looks up a name: no resolver is asked, whatever the name."""

from __future__ import annotations

import socket
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def know(names: Mapping[str, Sequence[str | None]]) -> None:
    """Have this process find these *names* only, besides those of the loopback.

    A name has an address for each time that it is looked up, the last one from then on. None
    for an address is a look-up that fails, as for a resolver that does not answer.
    """
    left = {name: list(addresses) for name, addresses in names.items()}

    def look_up(
        really: Callable[..., Any], host: Any, *args: Any, **kwargs: Any
    ) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name in left:
            address = left[name].pop(0) if len(left[name]) > 1 else left[name][0]
            if address is None:
                raise socket.gaierror(socket.EAI_AGAIN, "No answer in time")
            return really(address, *args, **kwargs)
        if name.rpartition(".")[2] != "localhost" and not is_address(name):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return really(host, *args, **kwargs)

    # What asyncio looks names up with, and what Twisted does.
    for function in ("getaddrinfo", "gethostbyname"):
        really = getattr(socket, function)
        setattr(socket, function, partial(look_up, really))


def is_address(name: str, getaddrinfo: Any = socket.getaddrinfo) -> bool:
    """Whether the system takes *name* for an address, as it does 127.1 and 0x7f.0.0.1."""
    try:
        getaddrinfo(name, None, flags=socket.AI_NUMERICHOST)
    except OSError:
        return False
    return True
