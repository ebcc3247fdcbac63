"""The example project's settings for several workers."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.example import ROOT, copy_project
from tests.stores.redis_server import BINARY, RedisServer

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.skipif(BINARY is None, reason="There is no redis-server on the PATH")
def test_workers(tmp_path: Path) -> None:
    """The demo runs on a queue and a store in Redis, and forbids what it did before. Each
    worker has a ledger of its own.
    """
    pytest.importorskip("scrapy_redis")
    project = copy_project(tmp_path)
    with RedisServer() as server:
        settings = {
            "PYTHONPATH": str(ROOT),
            "REDIS_URL": server.url,
            "SCRAPY_PROJECT": "workers",
        }
        found = subprocess.run(
            [sys.executable, "-m", "scrapy", "crawl", "demo"],
            cwd=project,
            env={**os.environ, **settings},
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert "requests for a robots.txt: 12" in found.stdout
        assert "requests that reached a forbidden path: 0" in found.stdout
        kept = list(server.client().scan_iter("rep:entry:*"))
    # A host whose robots.txt can't be had is kept too, and when to ask again.
    assert len(kept) == 11
    (ledger,) = project.glob("demo-*.ledger")
    assert ledger.name in found.stdout
