"""Serves the bundled site on loopback, and logs every request."""

from __future__ import annotations

import time
from functools import partial
from http.server import BaseHTTPRequestHandler
from mimetypes import guess_type
from pathlib import Path
from socketserver import ThreadingTCPServer
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlsplit

from demo.hosts import Answer, Host

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

SITE = Path(__file__).resolve().with_name("site")
WORKER = "X-Worker"


class Hit(NamedTuple):
    """A line of the access log."""

    url: str
    host: Host
    status: int
    seconds: float
    """The time of arrival, on the monotonic clock."""

    worker: str = ""
    """The name of the worker that sent it."""


class SiteServer:
    """Serves all hosts of the site; ``log`` has the requests that reached them.

    It is an HTTP proxy: clients request whole URLs, so that hosts need no addresses.
    """

    def __init__(
        self, hosts: Iterable[Host], on_hit: Callable[[Hit], None] | None = None
    ):
        self.log: list[Hit] = []
        self.on_hit = on_hit
        self.hosts = {host.origin: host for host in hosts}
        self._server = _Server(("127.0.0.1", 0), partial(_Handler, self))
        self.address = "http://127.0.0.1:{1}".format(*self._server.server_address)

    def start(self) -> None:
        Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingTCPServer):
    # A plain TCP server: http.server's own looks up its name, which can take seconds.
    daemon_threads = True


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, site: SiteServer, *args: Any):
        self.site = site
        super().__init__(*args)

    def do_GET(self) -> None:
        came = time.monotonic()
        parts = urlsplit(self.path)
        host = self.site.hosts.get(f"{parts.scheme}://{parts.netloc}")
        if host is None:
            self.do_CONNECT()
            return
        path = unquote(parts.path)
        file = page_file(host, path)
        answer = host.answers.get(path) or Answer(200 if file else 404)
        worker = self.headers.get(WORKER, "")
        hit = Hit(self.path, host, answer.status, came, worker)
        self.site.log.append(hit)
        if self.site.on_hit is not None:
            self.site.on_hit(hit)
        body = answer.body
        if body is None:
            body = file.read_bytes() if file else b""
        media_type = guess_type(file or path)[0] or "application/octet-stream"
        self.send_response(answer.status)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(body)))
        for name, value in answer.headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_CONNECT(self) -> None:
        """Refuse tunnels: no request leaves the machine."""
        self.send_error(502, "The bundled site has no such host")

    def log_message(self, *args: Any) -> None:
        """Log nothing: the site keeps its own log."""


def page_file(host: Host, path: str) -> Path | None:
    root = SITE / host.name
    file = (root / path.lstrip("/")).resolve()
    if file.is_dir():
        file /= "index.html"
    return file if file.is_relative_to(root) and file.is_file() else None
