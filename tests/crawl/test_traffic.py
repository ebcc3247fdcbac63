"""The ledger has what was fetched, and the delays that were kept, by the access log."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from tests.crawl.answers import Answer, busy
from tests.crawl.crawl import run_crawl
from tests.crawl.test_ledger import rows
from tests.crawl.test_politeness import DELAY, NOTING_SLOTS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.crawl.server import Host, Site

pytestmark = [pytest.mark.newest, pytest.mark.unmeasured]

BODY = b"<html><body>" + b"x" * 1000


def traffic(path: Path, host: Host) -> dict[str, Any]:
    """Return the row of a host; the test fails if there are several, or none."""
    found = rows(path, "SELECT * FROM traffic WHERE origin = ?", host.origin)
    by_hour = Counter(row["hour"] for row in found)
    assert len(found) == len(by_hour) in (1, 2)  # A test may run when an hour begins.
    row = max(found, key=lambda row: (row["gap"] is not None, row["pages"]))
    return row | {key: sum(one[key] for one in found) for key in ("pages", "bytes")}


def urls(host: Host, count: int) -> list[str]:
    return [host.url(f"/{number}") for number in range(count)]


@pytest.mark.parametrize("level", ["denied", "all"])
def test_what_was_fetched(site: Site, mode: str, tmp_path: Path, level: str) -> None:
    """Each response counts, with the bytes that came, by its host. Those to robots.txt do not, and
    those from an HTTP cache do not come from the host.
    """
    one, two = site.add("User-agent: *\nDisallow: /no\n"), site.add()
    one.answers |= {"/0": Answer(BODY), "/1": Answer(b"gone", status=404)}
    path = tmp_path / "ledger"
    settings = {
        "REP_LEDGER": str(path),
        "REP_LEDGER_LEVEL": level,
        "HTTPCACHE_ENABLED": True,
        "HTTPCACHE_DIR": str(tmp_path / "cache"),
    }
    start = [*urls(one, 5), one.url("/no"), two.url("/0")]
    for _ in range(2):
        run_crawl(start, mode=mode, settings=settings)
    page = sum(len(one.answer(f"/{number}").body) for number in range(5))
    found = traffic(path, one)
    assert (found["crawl"], found["pages"], found["bytes"]) == (1, 5, page)
    assert (found["delay"], found["gap"], found["pauses"]) == (None, None, 0)
    assert traffic(path, two)["pages"] == len(two.pages) == 1
    progress = rows(path, "SELECT sum(pages) AS n, sum(bytes) AS b FROM progress")
    assert progress == [{"n": 6, "b": page + len(two.answer("/0").body)}]


@pytest.mark.parametrize("count", [1, 6])
def test_the_delay_that_was_kept(
    site: Site, mode: str, tmp_path: Path, count: int
) -> None:
    """The gap is not shorter than the delay, nor longer than any that the host has seen. The first
    page has a gap too, from robots.txt. The progress of the crawl has how many requests waited.
    """
    host, other = site.add(DELAY.format(0.25)), site.add()
    path = tmp_path / "ledger"
    settings = {"REP_LEDGER": str(path), **NOTING_SLOTS}
    start = [*urls(host, count), *urls(other, 5)]
    result = run_crawl(start, mode=mode, settings=settings)
    found = traffic(path, host)
    times = result.stats[f"sent_at/{host.name}"]
    seen = [after.time - before.time for before, after in pairwise(host.hits)]
    assert len(times) == len(host.hits) + len(other.hits)
    assert found["delay"] == 0.25
    assert 0.25 <= found["gap"] <= min(seen) + 0.001
    (most,) = rows(path, "SELECT max(waiting) AS n FROM progress")
    assert count - 3 <= most["n"] <= count + 5


def test_a_pause_that_was_kept(site: Site, mode: str, tmp_path: Path) -> None:
    """A pause is counted with its seconds, and with those until the next request."""
    host = site.add("User-agent: *\nDisallow:\n")
    host.answers["/0"] = [busy(429, "1"), Answer(BODY)]
    path = tmp_path / "ledger"
    settings = {"REP_LEDGER": str(path), "REP_BACKOFF_MAX": 60, "RETRY_ENABLED": True}
    run_crawl(urls(host, 1), mode=mode, settings=settings | {"REP_WAIT_MAX": 60})
    found = traffic(path, host)
    asking, after = (hit for hit in host.hits if hit.path == "/0")
    assert (found["pages"], found["pauses"], found["pause"]) == (2, 1, 1.0)
    assert 1.0 <= found["resumed"] <= after.time - asking.time + 0.001
