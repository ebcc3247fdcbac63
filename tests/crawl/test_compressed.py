"""A robots.txt that is sent compressed, although the request does not ask for that."""

from __future__ import annotations

import gzip
import random
import zlib
from functools import cache
from typing import TYPE_CHECKING

import pytest

from tests.crawl.answers import Answer
from tests.crawl.crawl import run_crawl
from tests.crawl.lies import raw

if TYPE_CHECKING:
    from tests.crawl.server import Host, Site

pytestmark = [pytest.mark.newest, pytest.mark.unmeasured]

RULES = b"User-agent: *\nDisallow: /private\n"
MEGABYTE = 1024 * 1024


def pages(*hosts: Host) -> list[str]:
    return [host.url(path) for host in hosts for path in ("/private", "/public")]


def compressed(body: bytes, encoding: str) -> Answer:
    pack = {"gzip": gzip.compress, "deflate": zlib.compress}[encoding]
    headers = {"Content-Encoding": encoding, "Content-Type": "text/plain"}
    return Answer(pack(body), headers=headers)


def test_it_is_read(site: Site, mode: str) -> None:
    """The rules of a compressed robots.txt hold, and the request asks for no compression."""
    hosts = [site.add(compressed(RULES, name)) for name in ("gzip", "deflate")]
    run_crawl(pages(*hosts), mode=mode)
    for host in hosts:
        assert host.pages == ["/public"]
        (hit,) = host.robots_hits
        assert hit.headers["Accept-Encoding"] == "identity"


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
    """A plain text body is read whatever its Content-Encoding says."""
    hosts = [
        site.add(Answer(body, headers={"Content-Encoding": label}))
        for label in LABELS
        for body in (RULES, LATIN, RULES.decode().encode("utf-16"))
    ]
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


def packed_twice(*names: str) -> bytes:
    pack = {"gzip": gzip.compress, "deflate": zlib.compress, "identity": bytes}
    body = PERMITS + b"#" * 5_000 + RULES
    for name in names:
        body = pack[name](body)
    return body


PERMITS = b"User-agent: *\nAllow: /\n"
"""The beginning of a file whose rules come later."""

CUT = {
    "gzip, gzip": packed_twice("gzip", "gzip"),
    "deflate, gzip": packed_twice("deflate", "gzip"),
    "identity, gzip": packed_twice("identity", "gzip"),
    "gzip": gzip.compress(PERMITS) + gzip.compress(RULES),
}


@pytest.mark.parametrize("is_split", [False, True], ids=["a list", "two lines"])
def test_what_is_cut_within_several_encodings(
    site: Site, mode: str, is_split: bool
) -> None:
    """If the rest of a body with several encodings or members is missing, nothing is fetched."""
    hosts = []
    for names, body in CUT.items():
        fields = names.split(", ") if is_split else [names]
        head = b"".join(b"Content-Encoding: %b\r\n" % name.encode() for name in fields)
        # Without a length, the end of the connection is the end of the body.
        start = b"HTTP/1.1 200 OK\r\n" + head + b"\r\n"
        hosts.append(site.add(raw(start + body[: len(body) * 2 // 3])))
    result = run_crawl(pages(*hosts), mode=mode)
    assert [host.pages for host in hosts] == [[]] * len(hosts)
    assert result.stats["rep/robotstxt/unreachable"] == len(hosts)
    for host in hosts:
        assert result.lines(
            "WARNING", host.robotstxt, "encod" if host in hosts[:2] else "ends early"
        )


@pytest.mark.parametrize("is_enabled", [True, False])
def test_scrapy_decodes_nothing_of_it(site: Site, is_enabled: bool) -> None:
    """All members of a compressed body are read, with and without COMPRESSION_ENABLED."""
    members = gzip.compress(b"User-agent: *\n") + gzip.compress(b"Disallow: /private\n")
    host = site.add(Answer(members, headers={"Content-Encoding": "gzip"}))
    result = run_crawl(pages(host), settings={"COMPRESSION_ENABLED": is_enabled})
    assert host.pages == ["/public"]
    assert "httpcompression/response_count" not in result.stats


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_it_may_be_longer_than_what_is_read(site: Site, encoding: str) -> None:
    """A compressed body that is cut at 500 KiB still has its first rules."""
    noise = random.Random(9309).randbytes(MEGABYTE).hex().encode()
    lines = b"\n".join(noise[at : at + 99] for at in range(0, len(noise), 99))
    host = site.add(compressed(RULES + b"#" + lines.replace(b"\n", b"\n#"), encoding))
    result = run_crawl(pages(host))
    assert host.pages == ["/public"]
    assert result.stats["rep/robotstxt/successful"] == 1


@cache
def bomb(encoding: str) -> bytes:
    """Return rules and a comment of 1 GiB, in 5 MB of gzip or in some KB of Brotli."""
    if encoding == "gzip":
        packer = zlib.compressobj(1, zlib.DEFLATED, 31)
        pack, finish = packer.compress, packer.flush
    else:
        compressor = pytest.importorskip("brotli").Compressor(quality=1)
        pack, finish = compressor.process, compressor.finish
    packed = [pack(RULES), *(pack(b"#" * MEGABYTE) for _ in range(1024))]
    return b"".join([*packed, finish()])


@pytest.mark.parametrize("encoding", ["gzip", "br"])
def test_many_decompression_bombs(site: Site, mode: str, encoding: str) -> None:
    """Of a robots.txt that decodes to 1 GiB, no more is decoded than is read of any other, and
    what was decoded of one that is refused is freed. So 120 of them take little memory and time,
    and their first rules hold.
    """
    headers = {"Content-Encoding": encoding}
    good = Answer(bomb(encoding), headers=headers)
    # Damaged behind its first bytes, so that a part of it is decoded.
    bad = Answer(bomb(encoding)[:60] + b"\xff" * 99, headers=headers)
    hosts = [site.add(good) for _ in range(60)]
    refused = [site.add(bad) for _ in range(60)]
    result = run_crawl(pages(*hosts, *refused), mode=mode)
    assert [host.pages for host in hosts] == [["/public"]] * len(hosts)
    assert [host.pages for host in refused] == [[]] * len(refused)
    assert result.memory < 250 * MEGABYTE
    assert result.duration < 60
    assert len(result.lines("WARNING", "ends early, is damaged")) == len(refused)
