"""A spider in a process to which 127.9.0.0/16 is the Internet, with a DNS of its own."""

from __future__ import annotations

import socket
from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Any

from scrapy_rep.fetching import boundary
from scrapy_rep.protocol.addresses import is_private
from tests.crawl.spiders import PlanSpider

if TYPE_CHECKING:
    from scrapy_rep.protocol.addresses import Address

OUTSIDE = IPv4Network("127.9.0.0/16")
NAMES = {
    "outside.example": ["127.9.0.1"],
    "inside.example": ["127.0.0.1"],
    # Another answer each time, the last one from then on.
    "rebound.example": ["127.9.0.1", "127.0.0.1"],
}

_getaddrinfo, _gethostbyname = socket.getaddrinfo, socket.gethostbyname


def _is_private(address: Address) -> bool:
    return address not in OUTSIDE and is_private(address)


def _address(name: Any) -> str:
    known = name.decode() if isinstance(name, bytes) else name
    answers = NAMES.get(known, [known])
    return answers.pop(0) if len(answers) > 1 else answers[0]


def _fake_getaddrinfo(host: Any, *args: Any, **kwargs: Any) -> Any:
    return _getaddrinfo(_address(host), *args, **kwargs)


def _fake_gethostbyname(host: Any) -> str:
    return _gethostbyname(_address(host))


boundary.is_private = _is_private  # type: ignore[attr-defined]
socket.getaddrinfo = _fake_getaddrinfo
socket.gethostbyname = _fake_gethostbyname


class BoundarySpider(PlanSpider):
    name = "boundary"
