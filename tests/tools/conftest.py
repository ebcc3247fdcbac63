from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.crawl.server import Site
from tests.tools.rep import ROBOTS, Rep

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def rep(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Rep:
    """Return a callable that runs ``scrapy rep`` in this process. The current folder is a new one
    that has only a ``robots.txt``.
    """
    monkeypatch.chdir(tmp_path)
    Path("robots.txt").write_text(ROBOTS)
    return Rep(capsys, monkeypatch)


@pytest.fixture
def site() -> Iterator[Site]:
    """Yield a server on the loopback interface, to which tests add hosts."""
    with Site() as site:
        yield site
