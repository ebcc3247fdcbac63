"""A robots.txt that is sent compressed, although the request does not ask for that.

``tests/fetching/test_decompression.py`` has each encoding and each kind of damage,
``lying_cases.py`` each encoding that Scrapy knows.
"""

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

pytestmark = [pytest.mark.newest, pytest.mark.unmeasured]

RULES = b"User-agent: *\nDisallow: /private\n"
MEGABYTE = 1024 * 1024


def pages(*hosts: Host) -> list[str]:
    return [host.url(path) for host in hosts for path in ("/private", "/public")]


def labelled(body: bytes, encoding: str) -> Answer:
    return Answer(body, headers={"Content-Encoding": encoding})


def test_what_is_read(site: Site, mode: str) -> None:
    """The rules of a compressed robots.txt hold, all members of it, also without
    COMPRESSION_ENABLED; those of plain text also under a wrong label. What can't be decoded is
    unreachable. The request asks for no compression.
    """
    members = gzip.compress(b"User-agent: *\n") + gzip.compress(b"Disallow: /private\n")
    read = [
        *(labelled(gzip.compress(RULES), "gzip"), labelled(members, "gzip")),
        *(labelled(zlib.compress(RULES), "deflate"), labelled(RULES, "x\x1b, gzip")),
    ]
    hosts = [site.add(answer) for answer in read]
    noise = site.add(labelled(random.Random(9309).randbytes(2000), "unknown"))
    settings = {"COMPRESSION_ENABLED": False}
    result = run_crawl(pages(*hosts, noise), mode=mode, settings=settings)
    assert [host.pages for host in hosts] == [["/public"]] * len(hosts)
    assert noise.pages == []
    (warning,) = result.lines("WARNING")
    assert f"{noise.robotstxt} is unreachable" in warning
    assert "unsupported encoding" in warning
    asked = {
        hit.headers["Accept-Encoding"] for host in hosts for hit in host.robots_hits
    }
    assert asked == {"identity"}
    assert "httpcompression/response_count" not in result.stats


def bomb(encoding: str) -> bytes:
    """Return rules and a comment of 100 MB."""
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    pack, finish = packer.compress, packer.flush
    if encoding == "br":
        compressor = pytest.importorskip("brotli").Compressor(quality=1)
        pack, finish = compressor.process, compressor.finish
    parts = [pack(RULES), *(pack(b"#" * MEGABYTE) for _ in range(100))]
    return b"".join([*parts, finish()])


def test_many_decompression_bombs(site: Site) -> None:
    """Of a robots.txt that decodes to 100 MB, no more is decoded than is read of any other, and
    what was decoded of one that is refused is freed. So 120 of them take little memory, and their
    first rules hold.
    """
    bombs = {encoding: bomb(encoding) for encoding in ("gzip", "br")}
    good = [labelled(body, encoding) for encoding, body in bombs.items()]
    # Damaged behind its first bytes, so that a part of it is decoded.
    bad = [
        labelled(one.body[:60] + b"\xff" * 99, one.headers["Content-Encoding"])
        for one in good
    ]
    hosts = [site.add(answer) for answer in good * 30]
    refused = [site.add(answer) for answer in bad * 30]
    result = run_crawl(pages(*hosts, *refused))
    assert [host.pages for host in hosts] == [["/public"]] * len(hosts)
    assert [host.pages for host in refused] == [[]] * len(refused)
    assert result.memory < 250 * MEGABYTE
    assert len(result.lines("WARNING", "ends early, is damaged")) == len(refused)
