"""A crawl in a forked process has the result of a crawl in a new one."""

from __future__ import annotations

from typing import Any

import pytest

from tests import forks
from tests.crawl.crawl import CrawlResult, run_crawl
from tests.crawl.server import Site


@pytest.mark.slow
@pytest.mark.unmeasured
def test_a_crawl_in_a_new_process_has_the_same_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A crawl in a new Python process has the same result as one in a forked process."""
    with Site() as site:
        host = site.add("User-agent: *\nDisallow: /private/\n")
        urls = [host.url("/public"), host.url("/private/1")]
        forked = run_crawl(urls)
        monkeypatch.setattr(forks, "CAN_FORK", False)
        fresh = run_crawl(urls)
    assert host.pages == ["/public", "/public"]
    assert timeless(fresh) == timeless(forked)


def timeless(crawl: CrawlResult) -> list[Any]:
    """Return the result of *crawl*, and its stats without times."""
    stats = {
        key: value
        for key, value in crawl.stats.items()
        if not key.endswith("_time") and not isinstance(value, float)
    }
    return [crawl.exit_code, crawl.errors, crawl.responses, stats]
