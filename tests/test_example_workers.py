"""The example project's settings for several workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests import forks
from tests.example import copy_project, environment
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
            "REDIS_URL": server.url,
            "SCRAPY_PROJECT": "workers",
        }
        found = forks.run(
            ["scrapy", "crawl", "demo"], cwd=project, env={**environment(), **settings}
        )
        printed = found.stdout.decode()
        assert found.returncode == 0, found.stderr
        assert "requests for a robots.txt: 12" in printed
        assert "requests that reached a forbidden path: 0" in printed
        kept = list(server.client().scan_iter("rep:entry:*"))
    # A host whose robots.txt can't be had is kept too, and when to ask again.
    assert len(kept) == 11
    (ledger,) = project.glob("demo-*.ledger")
    assert ledger.name in printed
