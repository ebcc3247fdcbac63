"""A robots.txt that is sent compressed, although the request does not ask for that."""

from __future__ import annotations

import gzip
import random
import zlib
from typing import TYPE_CHECKING

import pytest

from tests.crawl.answers import Answer
from tests.crawl.crawl import run_crawl

if TYPE_CHECKING:
    from tests.crawl.server import Host, Site

pytestmark = pytest.mark.newest

RULES = b"User-agent: *\nDisallow: /private\n"
MEGABYTE = 1024 * 1024


def pages(*hosts: Host) -> list[str]:
    return [host.url(path) for host in hosts for path in ("/private", "/public")]


def compressed(body: bytes, encoding: str) -> Answer:
    pack = {"gzip": gzip.compress, "deflate": zlib.compress}[encoding]
    headers = {"Content-Encoding": encoding, "Content-Type": "text/plain"}
    return Answer(pack(body), headers=headers)


def test_it_is_read(site: Site, mode: str) -> None:
    """The rules of a compressed robots.txt hold, and the request does
    not ask for compression.
    """
    hosts = [site.add(compressed(RULES, name)) for name in ("gzip", "deflate")]
    run_crawl(pages(*hosts), mode=mode)
    for host in hosts:
        assert host.pages == ["/public"]
        (hit,) = host.robots_hits
        assert hit.headers.get("Accept-Encoding", "identity") == "identity"


LABELS = [
    "identity",
    "none",
    "utf-8",
    "aws-chunked",
    "binary",
    "gzip",
    "br",
    "x\x1b, gzip",
]
LATIN = "# Für Ötzi\nUser-agent: *\nDisallow: /private\n".encode("latin-1")


def test_a_label_that_is_wrong(site: Site, mode: str) -> None:
    """A plain text body is read whatever its Content-Encoding says. A compressed body is
    read also if the header names another encoding besides.
    """
    hosts = [
        site.add(Answer(body, headers={"Content-Encoding": label}))
        for label in LABELS
        for body in (RULES, LATIN, RULES.decode().encode("utf-16"))
    ]
    for label in ("identity", "utf-8"):
        headers = {"Content-Encoding": f"{label}, gzip"}
        hosts.append(site.add(Answer(gzip.compress(RULES), headers=headers)))
    result = run_crawl(pages(*hosts), mode=mode)
    assert [host.pages for host in hosts] == [["/public"]] * len(hosts)
    assert result.stats["rep/robotstxt/successful"] == len(hosts)
    assert result.lines("WARNING") == []


def test_what_can_not_be_decoded(site: Site, mode: str) -> None:
    """A body that can't be decoded makes robots.txt unreachable."""
    noise = random.Random(9309).randbytes(2000)
    coded = {"compress": b"\x1f\x9d\x90" + noise, "unknown": noise, "utf-8": noise[:64]}
    hosts = [
        site.add(Answer(body, headers={"Content-Encoding": label}))
        for label, body in coded.items()
    ]
    result = run_crawl(pages(*hosts), mode=mode)
    assert [host.pages for host in hosts] == [[]] * len(hosts)
    assert result.stats["rep/robotstxt/unreachable"] == len(hosts)
    for host in hosts:
        assert result.lines("WARNING", host.origin, "unsupported encoding")


def test_it_is_not_taken_for_permission(site: Site) -> None:
    """With COMPRESSION_ENABLED = False, a compressed robots.txt is not taken for permission."""
    host = site.add(compressed(RULES, "gzip"))
    result = run_crawl([host.url("/private")], settings={"COMPRESSION_ENABLED": False})
    assert host.pages == []
    (error,) = result.errors
    if error["reason"] == "unreachable":
        assert result.lines("WARNING", host.origin, "compressed")
    else:
        assert error["line"] == 2


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_it_may_be_longer_than_what_is_read(site: Site, encoding: str) -> None:
    """A compressed body that is cut at 500 KiB still has its first rules."""
    noise = random.Random(9309).randbytes(MEGABYTE).hex().encode()
    lines = b"\n".join(noise[at : at + 99] for at in range(0, len(noise), 99))
    host = site.add(compressed(RULES + b"#" + lines.replace(b"\n", b"\n#"), encoding))
    result = run_crawl(pages(host))
    assert host.pages == ["/public"]
    assert result.stats["rep/robotstxt/successful"] == 1


def test_a_decompression_bomb(site: Site, mode: str) -> None:
    """A body of 2 MB that decompresses to 400 MB takes little memory, and
    other hosts are crawled.
    """
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    packed = [packer.compress(RULES)]
    packed += [packer.compress(b"#" * MEGABYTE) for _ in range(400)]
    body = b"".join([*packed, packer.flush()])
    host = site.add(Answer(body, headers={"Content-Encoding": "gzip"}))
    calm = site.add(Answer(RULES))
    result = run_crawl(pages(host, calm), mode=mode)
    assert calm.pages == ["/public"]
    assert "/private" not in host.pages
    assert result.memory < 200 * MEGABYTE
    assert result.duration < 100
