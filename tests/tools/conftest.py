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
    """Run ``scrapy rep`` in this process, in an empty folder with a ``robots.txt``."""
    monkeypatch.chdir(tmp_path)
    Path("robots.txt").write_text(ROBOTS)
    return Rep(capsys, monkeypatch)


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as site:
        yield site
