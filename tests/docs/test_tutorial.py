"""The tutorial, executed as written: its files, its server and its commands, in order."""

from __future__ import annotations

import re
import shlex
from functools import partial
from http.server import SimpleHTTPRequestHandler
from socketserver import ThreadingTCPServer
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from tests import forks
from tests.docs.pages import samples
from tests.example import environment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.unmeasured

TUTORIAL = [sample for sample in samples() if sample.page == "docs/tutorial.md"]
LOG_PREFIX = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ")


class Handler(SimpleHTTPRequestHandler):
    """A handler like that of ``python3 -m http.server``, with a log of paths."""

    def __init__(self, log: list[str], *args: object, **kwargs: object) -> None:
        self.log = log
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]

    def log_request(self, *args: object) -> None:
        self.log.append(self.path)


class Server(ThreadingTCPServer):
    daemon_threads = True


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[tuple[int, list[str]]]:
    """Serve the site of the tutorial. Yields its port and its log."""
    log: list[str] = []
    handler = partial(Handler, log, directory=str(tmp_path / "site"))
    with Server(("127.0.0.1", 0), handler) as server:  # type: ignore[arg-type]
        Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server.server_address[1], log
        server.shutdown()


@pytest.mark.slow
def test_tutorial(tmp_path: Path, serving: tuple[int, list[str]]) -> None:
    """Commands print the shown lines in order, and the site's log has the named requests."""
    port, log = serving
    environ = environment() | {"COLUMNS": "200"}
    crawled: list[str] = []
    for sample in TUTORIAL:
        code = sample.code.replace("localhost:8000", f"127.0.0.1:{port}")
        kind, _, name = sample.mark.partition(" ")
        if kind == "file:":
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(code, encoding="utf-8")
        if kind == "run":
            command, _, shown = code.partition("\n")
            done = forks.run(
                shlex.split(command.removeprefix("$ ")), cwd=tmp_path, env=environ
            )
            printed = done.stdout.decode() + done.stderr.decode()
            assert "Traceback" not in printed
            missing = lines_missing(shown, printed)
            assert not missing, f"{command}\n{missing}\n{printed}"
        crawled = crawled or log.copy()
    pages = {"/": 1, "/letters.html": 1, "/basket/help.html": 1, "/tea.html": 1}
    assert sorted(crawled) == sorted(["/robots.txt", *pages])


def lines_missing(shown: str, printed: str) -> list[str]:
    """Return the lines that are not in the output, in this order."""
    rest = iter(printed.splitlines())
    return [
        line
        for line in shown.splitlines()
        if not any(line.strip() in LOG_PREFIX.sub("", other) for other in rest)
    ]
