"""A server on the loopback interface for all hosts of the offline site, with an access log.

The folder ``hosts/NAME`` contains the robots.txt of the host NAME.example, and the host's pages with links or with
statements about indexing. For all other URLs of the host, the server generates a page that contains only its path.
"""

from __future__ import annotations

import re
import sys
import time
from html import escape
from http.server import BaseHTTPRequestHandler
from mimetypes import guess_type
from pathlib import Path
from socketserver import ThreadingTCPServer
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Callable

HOSTS = Path(__file__).resolve().with_name("hosts")

# The URLs whose response has a status other than 200, or additional headers. Each value contains the status and these
# headers.
SPECIAL: dict[str, tuple[int, dict[str, str]]] = {
    "http://down.example/robots.txt": (503, {}),
    "http://gallery.example/essay.html": (
        200,
        {"Content-Usage": "search=n, ai-use=n"},
    ),
    "http://moved.example/robots.txt": (
        301,
        {"Location": "http://docs.example/robots.txt"},
    ),
    "http://open.example/offer": (
        301,
        {"Location": "http://shop.example/basket/offer"},
    ),
    "http://press.example/fair.html": (
        200,
        {"X-Robots-Tag": "unavailable_after: 31 Dec 2099 23:59:59 GMT"},
    ),
    "http://press.example/paper.pdf": (200, {"X-Robots-Tag": "noindex, nofollow"}),
    "http://press.example/print.html": (200, {"X-Robots-Tag": "noindex"}),
    "http://press.example/rivals.html": (200, {"X-Robots-Tag": "otherbot: noindex"}),
}

# The URLs whose first response is a 429, with the seconds in its Retry-After header.
BUSY = {"http://bare.example/": 1}


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


def answer(url: str) -> Answer | None:
    """Return the site's response to a request for *url*. Return None if *url* belongs to no host of the site."""
    parts = re.match(r"http://([a-z]+)\.example(/[^?#]*)", url)
    if parts is None or not (folder := HOSTS / parts[1]).is_dir():
        return None
    path = unquote(parts[2])
    file = (folder / path.lstrip("/")).resolve()
    if file.is_dir():
        file /= "index.html"
    status = 200
    if file.is_relative_to(folder) and file.is_file():
        body = file.read_bytes()
    elif path == "/robots.txt" or path.startswith("/.well-known/"):
        status, body = 404, b""
    else:
        body = f"<title>{escape(path)}</title><p>{escape(path)}".encode()
    status, headers = SPECIAL.get(parts[0], (status, {}))
    media_type = guess_type(path)[0] or "text/html"
    return Answer(status, {"Content-Type": media_type, **headers}, body)


class Hit(NamedTuple):
    """An entry of the access log. *agent* is the User-Agent. *seconds* is the time of the request, in seconds on the
    monotonic clock. *retry_after* is the number of seconds in the response's Retry-After header, or 0 without this
    header.
    """

    url: str
    agent: str
    seconds: float
    retry_after: int

    @property
    def is_robotstxt(self) -> bool:
        return self.url.endswith("/robots.txt")


class Site(ThreadingTCPServer):
    """An HTTP proxy that responds for all hosts of the site. Clients send full URLs to a proxy, so the hosts do not
    need IP addresses or DNS.
    """

    daemon_threads = True

    def __init__(self, on_hit: Callable[[Hit], object] = bool) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.log: list[Hit] = []
        self.busy = dict(BUSY)
        self.on_hit = on_hit
        self.address = f"http://127.0.0.1:{self.server_address[1]}"
        Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def handle_error(self, request: Any, client_address: Any) -> None:
        # Broken connections are not reported. They occur if a worker is killed during a request.
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)

    def stop(self) -> None:
        self.shutdown()
        self.server_close()


class Handler(BaseHTTPRequestHandler):
    server: Site

    def do_GET(self) -> None:
        came = time.monotonic()
        response = answer(self.path)
        if response is None:
            self.do_CONNECT()
            return
        pause = self.server.busy.pop(self.path, 0)
        if pause:
            response = Answer(429, {"Retry-After": str(pause)}, b"")
        hit = Hit(self.path, self.headers.get("User-Agent", ""), came, pause)
        self.server.log.append(hit)
        self.server.on_hit(hit)
        self.send_response(response.status)
        for name, value in response.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(response.body)))
        self.end_headers()
        self.wfile.write(response.body)

    def do_CONNECT(self) -> None:
        """Respond with an error to requests for other hosts, so that no request leaves the machine."""
        self.send_error(502, "The offline site does not contain this host")

    def log_message(self, *args: Any) -> None:
        """Print nothing, because the site keeps its own access log."""
