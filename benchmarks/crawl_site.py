"""Serves small sites on the loopback interface, in a process of its own, so that the time of the server is not
measured.

    python benchmarks/crawl_site.py HOSTS PAGES

HOSTS is the number of sites, and PAGES the number of pages of each site. The program prints its port on standard
output, and serves until its standard input is closed. The hosts are ``127.0.0.1``, ``127.0.0.2`` and so on, which all
belong to the loopback interface on Linux. Each response is built only once, and connections are kept alive.
"""

from __future__ import annotations

import asyncio
import sys

PAGE_SIZE = 20_000
LINKS = 20

ROBOTS = b"""\
# robots.txt
User-agent: *
Disallow: /admin/
Disallow: /cart
Disallow: /checkout
Disallow: /search
Disallow: /*?sort=
Disallow: /*?*filter=
Disallow: /*.pdf$
Allow: /admin/public/

User-agent: GPTBot
User-agent: CCBot
Disallow: /

Sitemap: https://example.com/sitemap.xml
"""
HEAD = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<title>Page {number} of a site</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="description" content="What page {number} is about, in one sentence">
<meta property="og:title" content="Page {number}"><meta property="og:type" content="article">
{robots}<link rel="canonical" href="/page/{number}">
<style>body {{ margin: 0 }} .text > p {{ color: #333 }}</style>
<script>window.page = {{"number": {number}, "ready": 1 < 2}};</script>
</head><body><h1 id="title">Page {number}</h1>
"""
LINK = '<li><a href="/page/{0}" title="To page {0}">Page {0}</a></li>\n'
TEXT = """<div class="text"><h2>Section {0}</h2>
<p>Mr. Fox, quick and brown, doesn&#8217;t <em>jump</em> over the lazy dog; it walks past, and
sits down where the <strong>sun</strong> has warmed the stones since the morning.</p></div>
"""
WORDS = '<meta name="robots" content="index, follow, max-image-preview:large">\n'


def page(number: int, pages: int) -> bytes:
    """Return the HTML of page *number* of a site with the given number of *pages*. Half of the pages contain a robots
    meta tag that forbids nothing.
    """
    links = "".join(LINK.format((number + n) % pages) for n in range(1, LINKS + 1))
    text = HEAD.format(number=number, robots=WORDS if number % 2 else "")
    text += f"<ul>\n{links}</ul>\n"
    section = 0
    while len(text) < PAGE_SIZE:
        section += 1
        text += TEXT.format(section)
    return f"{text}</body></html>\n".encode()


def answer(body: bytes, content_type: bytes, status: bytes = b"200 OK") -> bytes:
    head = b"HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n"
    return head % (status, content_type, len(body)) + body


class Connection(asyncio.Protocol):
    def __init__(self, answers: dict[bytes, bytes]) -> None:
        self._answers = answers
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while b"\r\n\r\n" in self._received:
            request, _, self._received = self._received.partition(b"\r\n\r\n")
            path = request.split(b" ", 2)[1]
            self._transport.write(self._answers.get(path, self._answers[b""]))


async def serve(hosts: int, pages: int) -> None:
    answers = {
        f"/page/{number}".encode(): answer(page(number, pages), b"text/html")
        for number in range(pages)
    }
    answers[b"/robots.txt"] = answer(ROBOTS, b"text/plain")
    answers[b""] = answer(b"", b"text/plain", b"404 Not Found")
    loop = asyncio.get_running_loop()
    port = (
        0  # The first host uses any free port, and the other hosts use the same port.
    )
    for number in range(1, hosts + 1):
        server = await loop.create_server(
            lambda: Connection(answers), f"127.0.0.{number}", port
        )
        port = server.sockets[0].getsockname()[1]
    print(port, flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), int(sys.argv[2])))
