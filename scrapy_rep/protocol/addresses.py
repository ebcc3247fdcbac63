"""Distinguishes public IP addresses from those of a machine itself or a private network.

Sources: the registries of special-purpose addresses (RFC 6890), as in Python's
``ipaddress``; WHATWG URL, 3.5 (IPv4 numbers, in the forms that ``inet_aton`` reads); RFC
6761, 6.3 (``localhost``); RFC 6052, 2.1 (NAT64).
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, IPv6Network
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TypeAlias

    Address: TypeAlias = IPv4Address | IPv6Address

_NAT64 = IPv6Network("64:ff9b::/96")

_NUMBER = re.compile(r"0x0*([0-9a-f]{0,8})|0+([0-7]{0,11})|([1-9][0-9]{0,9})").fullmatch


def address_in(host: str) -> Address | None:
    """Return the IP address in the host of an Origin, or None if the host is a name.

    All forms count that resolvers accept as addresses: ``127.0.0.1``, ``127.1``,
    ``0x7f000001``, ``017700000001``, ``[::1]``.
    """
    if host.startswith("["):
        try:
            return IPv6Address(host[1:-1])
        except ValueError:
            return None
    numbers = [_number(part) for part in host.lower().removesuffix(".").split(".")]
    value = 0
    for place, number in enumerate(numbers, 1):
        is_last = place == len(numbers)
        # The last number fills the remaining bytes of the four.
        size = 8 * (5 - place) if is_last else 8
        if place > 4 or number is None or number >= 1 << size:
            return None
        value = value << size | number
    return IPv4Address(value)


def is_local_name(host: str) -> bool:
    """Whether *host* is ``localhost`` or ends with ``.localhost``."""
    return f".{host.lower().removesuffix('.')}".endswith(".localhost")


def is_private(address: Address) -> bool:
    """Whether an address is not public: it is loopback, unspecified, link-local, private (RFC
    1918, unique local, shared by a carrier), multicast or reserved.

    For an IPv6 address with an IPv4 address inside, the IPv4 address decides.
    """
    if isinstance(address, IPv6Address):
        inside = address.ipv4_mapped or address.sixtofour
        if inside is None and address in _NAT64:
            inside = IPv4Address(int(address) & 0xFFFFFFFF)
        if inside is not None:
            return is_private(inside)
        if address.is_site_local:
            return True
    return not address.is_global or address.is_multicast or address.is_reserved


def _number(part: str) -> int | None:
    match = _NUMBER(part)
    if match is None:
        return None
    hexadecimal, octal, decimal = match.groups()
    if decimal:
        return int(decimal)
    return int(hexadecimal or "0", 16) if octal is None else int(octal or "0", 8)
