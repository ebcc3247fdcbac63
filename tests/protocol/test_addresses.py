"""Private addresses, in each form that a URL can have them in."""

from __future__ import annotations

import socket
from ipaddress import IPv4Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_rep.protocol.addresses import address_in, is_local_name, is_private
from scrapy_rep.protocol.origins import origin_of


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0", "10.1.2.3", "100.64.0.1", "127.0.0.1", "127.255.0.1", "169.254.169.254",
        "172.16.0.1", "172.31.255.255", "192.0.2.1", "192.168.0.1", "198.18.0.1",
        "224.0.0.1", "240.0.0.1", "255.255.255.255",
        "::", "::1", "fc00::1", "fd12::1", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1",
        "2001:db8::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:10.0.0.1",
        "2002:7f00:1::", "2002:a00:1::", "64:ff9b::10.0.0.1", "64:ff9b:1::1", "4000::1",
    ],
)  # fmt: skip
def test_private(address: str) -> None:
    """Loopback, link-local, private, multicast and unspecified addresses, also in IPv6."""
    assert is_private(ip_address(address))


@pytest.mark.parametrize(
    "address",
    [
        "1.1.1.1", "8.8.8.8", "100.63.0.1", "100.128.0.1", "172.15.0.1", "172.32.0.1",
        "192.167.0.1", "223.255.255.1", "2606:4700::1111", "::ffff:8.8.8.8",
        "64:ff9b::8.8.8.8", "2002:808:808::1",
    ],
)  # fmt: skip
def test_public(address: str) -> None:
    assert not is_private(ip_address(address))


LOOPBACK = [
    "127.0.0.1", "127.1", "127.0.1", "2130706433", "0x7f000001", "0X7F.0.0.1", "0x7f.1",
    "017700000001", "0177.0.0.1", "0000000000000000177.0.0.01", "127.0.0.1.",
    "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "１２７．0.0.1", "%31%32%37.0.0.1",
]  # fmt: skip


@pytest.mark.parametrize("host", LOOPBACK)
def test_forms(host: str) -> None:
    """Decimal, octal, hexadecimal, short, mapped and encoded forms are read as addresses."""
    origin = origin_of(f"http://{host}/")
    assert origin is not None
    address = address_in(origin.host)
    assert address is not None
    assert getattr(address, "ipv4_mapped", None) or address == IPv4Address("127.0.0.1")
    assert is_private(address)


@pytest.mark.parametrize(
    "host",
    ["a.example", "127.0.0.256", "256.1", "1.2.3.4.5", "127.0.0.08", "0x100000000", "1..2",
     "4294967296", "", ".", "0x1g", "-1", "1.2.3.a", "[::g]", "9" * 5000, "127.0.0.1..",
     "0" * 5000 + "8"],
    ids=lambda host: host[:20],
)  # fmt: skip
def test_names(host: str) -> None:
    """Any other host is a name, which a resolver has to look up."""
    assert address_in(host) is None


@given(st.integers(0, 2**32 - 1), st.data())
def test_as_the_system_reads_it(value: int, data: st.DataObject) -> None:
    """IPv4 forms are read as ``inet_aton`` reads them."""
    octets = list(value.to_bytes(4, "big"))
    kept = data.draw(st.integers(0, 3))
    numbers = [*octets[:kept], int.from_bytes(bytes(octets[kept:]), "big")]
    forms = st.sampled_from(["{}", "0{:o}", "{:#x}", "000{:o}"])
    host = ".".join(data.draw(forms).format(number) for number in numbers)
    assert address_in(host) == IPv4Address(socket.inet_aton(host))


@given(st.text("0123456789abcdefxX.", max_size=20))
def test_what_the_system_refuses(host: str) -> None:
    """A host is an IPv4 address only if ``inet_aton`` accepts it, apart from a final dot."""
    try:
        expected = IPv4Address(socket.inet_aton(host.removesuffix(".")))
    except OSError:
        expected = None
    # "0x" is zero to browsers (WHATWG URL, 3.5), and invalid on some systems.
    if "0x" not in host.lower().split("."):
        assert address_in(host) == expected


@pytest.mark.parametrize(
    ("name", "local"),
    [
        ("localhost", True),
        ("LOCALHOST.", True),
        ("a.b.localhost", True),
        ("localhost.example", False),
        ("mylocalhost", False),
    ],
)
def test_names_of_this_machine(name: str, local: bool) -> None:
    assert is_local_name(name) is local
