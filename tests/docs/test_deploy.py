"""Tests of the steps on the page about deployment, with Scrapyd."""

from __future__ import annotations

import json
import socket
import sqlite3
import subprocess
import time
import zipfile
from contextlib import closing
from typing import TYPE_CHECKING, Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

from tests import effort, forks
from tests.crawl.answers import html
from tests.crawl.server import Site
from tests.docs.pages import ROOT, environment, samples

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.newest,
    pytest.mark.unmeasured,
    pytest.mark.slow,
    pytest.mark.skipif(not effort.is_long, reason="takes long: only with --long"),
]

pytest.importorskip("scrapyd")
pytest.importorskip("scrapyd_client")

PAGE = "docs/howto/deploy.md"
SPIDER = """
import scrapy
import scrapy_rep


class TeaSpider(scrapy.Spider):
    name = "tea"

    async def start(self):
        yield scrapy.Request(self.home)

    def parse(self, response):
        self.logger.info("The add-on is %s", scrapy_rep.__file__)
        yield from response.follow_all(css="a")
"""
ADDON = """
ADDONS = {"scrapy_rep.Addon": 500}
USER_AGENT = "mybot/1.0 (+https://example.com/mybot)"
REP_LEDGER = %r
"""
PATIENCE = 60
"""The time limit of a request to Scrapyd, in seconds."""


class Scrapyd:
    """A running Scrapyd with its data in *folder*, on a free port of the loopback interface."""

    def __init__(self, folder: Path) -> None:
        with closing(socket.create_server(("127.0.0.1", 0))) as free_socket:
            port = free_socket.getsockname()[1]
        self.address = f"http://127.0.0.1:{port}/"
        settings = f"http_port = {port}\nbind_address = 127.0.0.1\npoll_interval = 0.2"
        (folder / "scrapyd.conf").write_text(f"[scrapyd]\n{settings}\n")
        self.process = forks.Popen(
            ["scrapyd"],
            cwd=folder,
            env=environment() | {"PYTHONPATH": ""},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def call(self, method: str, **values: str) -> dict[str, Any]:
        """Return the response to an API call; *values* are sent as a POST request."""
        data = urlencode(values).encode() if values else None
        with urlopen(f"{self.address}{method}", data, timeout=PATIENCE) as answer:
            return json.load(answer)

    def wait_for_response(self, method: str, key: str = "status") -> dict[str, Any]:
        """Repeat an API call until its response has a value for *key*, and return the response."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            try:
                answer = self.call(method)
            except URLError:
                answer = {}
            if answer.get(key):
                return answer
            # Scrapyd does not notify its clients when it is ready, or when a job has ended.
            time.sleep(0.1)
        raise TimeoutError(method)


@pytest.fixture
def scrapyd(tmp_path: Path) -> Iterator[Scrapyd]:
    """Yield a running Scrapyd."""
    server = Scrapyd(tmp_path)
    yield server
    server.process.terminate()
    server.process.wait(PATIENCE)


def deploy(project: Path, *arguments: str) -> str:
    # scrapyd-deploy leaves a temporary folder.
    """Run scrapyd-deploy in the folder of a project, and return its output."""
    env = environment() | {"TMPDIR": str(project.parent)}
    process = forks.run(["scrapyd_client.deploy", *arguments], cwd=project, env=env)
    assert process.returncode == 0, process.stderr.decode()
    return process.stdout.decode()


def test_a_deployed_egg_with_the_add_on_obeys_robotstxt(
    scrapyd: Scrapyd, tmp_path: Path
) -> None:
    """Scrapyd runs a spider from an egg that contains this package, as docs/howto/deploy.md describes. The crawl obeys
    robots.txt and writes a ledger.
    """
    project = tmp_path / "shop"
    ledgers = tmp_path / "ledgers"
    forks.run(["scrapy", "startproject", "shop", str(project)], env=environment())
    (project / "shop" / "spiders" / "tea.py").write_text(SPIDER)
    with (project / "shop" / "settings.py").open("a") as settings:
        settings.write(ADDON % str(ledgers / "%(name)s-%(time)s.sqlite"))
    egg = project / "shop.egg"
    deploy(project, f"--build-egg={egg}")
    # --include-dependencies would fetch the add-on from an index.
    with zipfile.ZipFile(egg, "a") as archive:
        for path in (ROOT / "scrapy_rep").rglob("*"):
            if path.is_file() and path.suffix != ".pyc":
                archive.write(path, path.relative_to(ROOT))
    scrapyd.wait_for_response("daemonstatus.json")
    with (project / "scrapy.cfg").open("a") as config:
        config.write(f"url = {scrapyd.address}\n")
    assert '"spiders": 1' in deploy(project, f"--egg={egg}")
    with Site() as site:
        host = site.add("User-agent: mybot\nDisallow: /basket\n")
        host.answers["/"] = html('<a href="/tea">Tea</a><a href="/basket">Basket</a>')
        scrapyd.call("schedule.json", project="shop", spider="tea", home=host.url("/"))
        scrapyd.wait_for_response("listjobs.json?project=shop", "finished")
    assert sorted(host.pages) == ["/", "/tea"]
    [path] = ledgers.iterdir()
    with closing(sqlite3.connect(path)) as ledger:
        rows = ledger.execute("SELECT verdict, url FROM decision").fetchall()
    assert rows == [("refused", host.url("/basket"))]
    [log] = (tmp_path / "logs").rglob("*.log")
    assert f"The add-on is {tmp_path / 'eggs'}" in log.read_text()
    files_of_page = {
        sample.mark: sample.code for sample in samples("text") if sample.page == PAGE
    }
    assert files_of_page["file: requirements.txt"] == "scrapy-rep\n"
