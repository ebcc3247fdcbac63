"""Serves the bundled site on loopback, a port for each host, and logs every request."""

from __future__ import annotations

import logging
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
    from collections.abc import Iterable

SITE = Path(__file__).resolve().with_name("site")
logger = logging.getLogger(__name__)


class Hit(NamedTuple):
    """A line of the access log."""

    host: Host
    path: str
    status: int

    @property
    def url(self) -> str:
        return self.host.origin + self.path


class SiteServer:
    """The hosts of the site while they run; ``log`` has what reached them."""

    def __init__(self, hosts: Iterable[Host]):
        self.log: list[Hit] = []
        self._servers = []
        self._addresses = {}
        for host in hosts:
            server = _Server(("127.0.0.1", host.port), partial(_Handler, self, host))
            self._servers.append(server)
            port = server.server_address[1]
            self._addresses[f"{host.origin}/"] = f"http://127.0.0.1:{port}/"

    def start(self) -> None:
        for origin, address in self._addresses.items():
            logger.info("%s is at %s", origin, address)
        for server in self._servers:
            Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        for server in self._servers:
            server.shutdown()
            server.server_close()

    def real(self, text: str) -> str:
        """Put the real addresses in place of the names of hosts."""
        for origin, address in self._addresses.items():
            text = text.replace(origin, address)
        return text

    def named(self, text: str) -> str:
        """Put the names of hosts in place of their real addresses."""
        for origin, address in self._addresses.items():
            text = text.replace(address, origin)
        return text


class _Server(ThreadingTCPServer):
    # A plain TCP server: http.server's own looks its name up, which can take seconds.
    daemon_threads = True


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, site: SiteServer, host: Host, *args: Any):
        self.site = site
        self.host = host
        super().__init__(*args)

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        file = page_file(self.host, path)
        answer = self.host.answers.get(path) or Answer(200 if file else 404)
        self.site.log.append(Hit(self.host, self.path, answer.status))
        media_type = guess_type(file or "page.html")[0] or "application/octet-stream"
        body = file.read_bytes() if file else b""
        if media_type == "text/html":
            body = self.site.real(body.decode()).encode()
        self.send_response(answer.status)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(body)))
        for name, value in answer.headers:
            self.send_header(name, self.site.real(value))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Stay silent: the site keeps its own log."""


def page_file(host: Host, path: str) -> Path | None:
    root = SITE / host.name
    file = (root / path.lstrip("/")).resolve()
    if file.is_dir():
        file /= "index.html"
    return file if file.is_relative_to(root) and file.is_file() else None
