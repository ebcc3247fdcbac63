"""The middleware of a dry run, with fake responses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred

from scrapy_rep.downloadermiddlewares.dryrun import DryRun
from tests.fakes import ROBOTS, answer, coroutine_test, fake_crawler, records

if TYPE_CHECKING:
    from scrapy.http import Response

pytestmark = pytest.mark.newest

SITE = "http://example.com"
ROBOTS_URL = f"{SITE}/robots.txt"


@coroutine_test
async def test_a_request_that_cannot_be_judged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One error message names a request with invalid purposes. Those that wait for the same
    robots.txt are judged.
    """
    fetched: Deferred[Response] = Deferred()
    settings: dict[str, Any] = {"REP_DRY_RUN": True, "USER_AGENT": "mybot"}
    crawler = fake_crawler(settings, {ROBOTS_URL: lambda: fetched})
    found = records(crawler)
    mw = DryRun(crawler)
    for path in ("/private/1", "/private/bad", "/private/2"):
        purposes = {"rep_purposes": "nonsense"} if path == "/private/bad" else {}
        mw.process_request(Request(SITE + path, meta=purposes))
    (waits,) = mw._fetches
    fetched.callback(answer(ROBOTS_URL, ROBOTS))
    await maybe_deferred_to_future(waits)
    assert [each.url for each in found] == [f"{SITE}/private/1", f"{SITE}/private/2"]
    errors = [each for each in caplog.records if each.levelname == "ERROR"]
    assert ["/private/bad" in each.getMessage() for each in errors] == [True]
    assert crawler.stats.get_value("rep/dry_run/not_judged") == 0
