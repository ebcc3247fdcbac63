"""Tests of Scrapy's interactive commands: parse, fetch and shell."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests import forks
from tests.crawl.answers import Answer
from tests.crawl.crawl import ADDON

if TYPE_CHECKING:
    from pathlib import Path

    from tests.crawl.server import Site

PROJECT = """
from scrapy import Spider


class Pages(Spider):
    name = "pages"

    def parse(self, response):
        yield {"url": response.url}
        yield response.follow("/next")
"""


def test_scrapy_parse_says_what_a_crawl_would_drop(site: Site, tmp_path: Path) -> None:
    """``scrapy parse`` shows the items and links of the page, and logs that a crawl would drop them."""
    host = site.add("User-agent: *\nDisallow:\n")
    tag = {"Content-Type": "text/html", "X-Robots-Tag": "noindex, nofollow"}
    host.answers["/none"] = Answer(b"<html></html>", headers=tag)
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = settings\n")
    settings = f'SPIDER_MODULES = ["pages"]\nADDONS = {ADDON["ADDONS"]!r}\n'
    (tmp_path / "settings.py").write_text(settings)
    (tmp_path / "pages.py").write_text(PROJECT)
    reason = "which must not be {}: {} (header)"
    items, links = (
        reason.format("indexed", "noindex"),
        reason.format("followed", "nofollow"),
    )
    message = f"would drop its items, {items}; its links, {links}"
    for path in ("/none", "/fine"):
        command = ["scrapy", "parse", "--spider", "pages", host.url(path)]
        completed = forks.run(command, cwd=tmp_path)
        log = completed.stderr.decode()
        assert f"{{'url': '{host.url(path)}'}}" in completed.stdout.decode(), log
        assert ("would drop" in log) is (message in log) is (path == "/none")


@pytest.mark.parametrize("command", ["fetch", "shell"])
def test_fetch_and_shell_refuse_at_once_if_robotstxt_is_unreachable(
    site: Site, command: str, tmp_path: Path
) -> None:
    """The commands say why, and do not wait for the next attempt to fetch robots.txt."""
    host = site.add(Answer(status=503))
    code = ["-c", "print('the response is', response)"] if command == "shell" else []
    addons = f"ADDONS={json.dumps(ADDON['ADDONS'])}"
    arguments = ["scrapy", command, "-s", addons, *code, host.url("/a")]
    completed = forks.run(arguments, cwd=tmp_path)
    log = (completed.stdout + completed.stderr).decode()
    assert [hit.path for hit in host.hits] == ["/robots.txt"]
    assert f"{host.robotstxt} is unreachable (status 503)" in log
    assert "are refused" in log
