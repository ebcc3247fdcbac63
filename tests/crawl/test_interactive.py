"""Commands that a person waits for do not wait for a robots.txt that is out of reach."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.crawl.answers import Answer
from tests.crawl.crawl import ADDON, ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.crawl.server import Site


@pytest.mark.parametrize("command", ["fetch", "shell"])
def test_a_site_that_answers_503(site: Site, command: str, tmp_path: Path) -> None:
    """They end at once, and say why."""
    host = site.add(Answer(status=503))
    code = ["-c", "print('the response is', response)"] if command == "shell" else []
    addons = f"ADDONS={json.dumps(ADDON['ADDONS'])}"
    python_path = os.pathsep.join(filter(None, [str(ROOT), os.getenv("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-m", "scrapy", command, "-s", addons, *code, host.url("/a")],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": python_path},
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    said = done.stdout + done.stderr
    assert host.pages == []
    assert len(host.robots_hits) == 1
    assert f"{host.robotstxt} is unreachable (status 503)" in said
    assert "are refused" in said
