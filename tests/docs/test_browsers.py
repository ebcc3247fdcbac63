"""The spider of the page on browsers, run as written, with Chromium."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests import forks
from tests.browser import CHROMIUM
from tests.crawl.server import Site
from tests.crawl.test_browser import SETTINGS, html, script
from tests.docs.pages import samples
from tests.example import environment

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("scrapy_playwright", reason="scrapy-playwright is not installed")

pytestmark = [
    pytest.mark.newest,
    pytest.mark.slow,
    pytest.mark.unmeasured,
    pytest.mark.skipif(CHROMIUM is None, reason="There is no Chromium"),
]

HOST = "https://shop.example/"


def test_browsers(tmp_path: Path) -> None:
    """The spider follows links, and Chromium requests nothing that robots.txt forbids. The
    log has the lines of the page.
    """
    spider, lines = (
        sample.code
        for sample in samples("python", "text")
        if sample.page == "docs/howto/browsers.md"
    )
    with Site() as site:
        host = site.add("User-agent: *\nDisallow: /private\n")
        host.answers |= {
            "/": html(
                '<script src="/private/track.js"></script><a href="/tea">Tea</a>'
            ),
            "/private/track.js": script("fetch('/more')"),
            "/tea": html("<script>document.title = 'Tea'</script>"),
        }
        (tmp_path / "browser.py").write_text(spider.replace(HOST, host.url("/")))
        command = ["scrapy", "runspider", "browser.py", "-O", "pages.json"]
        for name, value in SETTINGS.items():
            if name.startswith("PLAYWRIGHT_"):
                command += ["-s", f"{name}={json.dumps(value)}"]
        done = forks.run(command, cwd=tmp_path, env=environment())
        log = done.stderr.decode()
        assert sorted(host.pages) == ["/", "/tea"], log
    assert "'rep/browser/aborted': 1" in log
    assert "ERROR" not in log
    for line in lines.replace(HOST, host.url("/")).splitlines():
        assert line in log
    items = json.loads((tmp_path / "pages.json").read_text())
    assert [item["title"] for item in items] == ["A page", "Tea"]
