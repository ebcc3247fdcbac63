"""Tests of :class:`RobotsTxtMiddleware`, which sends, refuses or answers requests, and of the robots.txt check in a dry
run. The responses are fakes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from scrapy import Request, signals
from scrapy.exceptions import IgnoreRequest, NotConfigured
from scrapy.http import HtmlResponse
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.asyncio import call_later
from scrapy.utils.defer import (
    deferred_from_coro,
    ensure_awaitable,
    maybe_deferred_to_future,
)
from twisted.internet.defer import Deferred

from scrapy_rep import back_off
from scrapy_rep.crawl.dryrun import DryRun
from scrapy_rep.crawl.fetching.request import RobotsTxtRequest
from scrapy_rep.crawl.frontier.frontier import Frontier
from scrapy_rep.crawl.gate import RobotsTxtMiddleware
from scrapy_rep.crawl.wire import WireMiddleware
from scrapy_rep.exceptions import RobotsDenied
from tests.fakes import ROBOTS, answer, coroutine_test, fake_crawler, records

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Response


SITE = "http://example.com"
ROBOTS_URL = f"{SITE}/robots.txt"
PRIVATE = f"{SITE}/private/1"
PUBLIC = f"{SITE}/public"
EXEMPT = {"dont_obey_robotstxt": True}
LEDGER_LEVEL_ALL = {"REP_LEDGER": "unused", "REP_LEDGER_LEVEL": "all"}


def middleware(
    answers: dict[str, Any] | None = None, **settings: Any
) -> tuple[RobotsTxtMiddleware, Crawler]:
    """Return the middleware of a crawl, and its crawler. *answers* maps URLs to responses. By default, only ROBOTS_URL
    has a response.
    """
    settings = {"USER_AGENT": "mybot", "REP_WAIT_TIMEOUT": 0, **settings}
    answers = {ROBOTS_URL: answer(ROBOTS_URL)} if answers is None else answers
    crawler = fake_crawler(settings, answers)
    return RobotsTxtMiddleware.from_crawler(crawler), crawler


async def process(mw: RobotsTxtMiddleware, request: Request) -> Any:
    """Pass *request* through the middleware, and end it. Return what the middleware returns: a response, or None if the
    request is sent. Raise RobotsDenied if the request is refused.
    """
    frontier = Frontier.of(mw._crawler)
    entry = frontier.enter(request)
    try:
        outcome = await ensure_awaitable(mw.process_request(request))
        if outcome is None:
            mw.report(entry)
    finally:
        frontier.end(request, entry)
    return outcome


def fetched_urls(crawler: Crawler) -> list[str]:
    """Return the URLs that were fetched by the engine of *crawler*, in order."""
    return [request.url for request in crawler.engine.asked]


# Allowed and forbidden requests.

LONG = f"{SITE}/{'a' * 70_000}"
REFUSED_BY_LINE_2 = (
    f"Refused by {ROBOTS_URL}, line 2 (disallow: /private/), in the group of line 1"
)
INVALID_HOST = (
    "Refused by scrapy-rep (the URL or the Host header has an invalid host or port)"
)
SCHEMES = ("data:,x", "file:///tmp/x", "s3://bucket/key", "ftp://example.com/private/")
BAD_URLS = (
    "http://a|b/",
    "https://%20/",
    "http://a:+80/",
    "HTTP://a:b/",
    "http://[::/",
    "HTTP://[",
)


class Case(NamedTuple):
    """A request, what the crawl knows about its site, and the expected verdict."""

    url: str
    verdict: str
    """``sent``, or the start of the message of the refusal."""

    overrides: dict[str, str] = {}
    """The REP_OVERRIDES of the crawl."""

    meta: dict[str, Any] = {}
    robots: bytes | None = ROBOTS
    """The robots.txt of the site. None means that its fetch fails: then only requests that need no robots.txt are sent.
    """


CASES = {
    "allowed": Case(PUBLIC, "sent"),
    "forbidden": Case(PRIVATE, REFUSED_BY_LINE_2),
    "forbidden once the dot segments are resolved": Case(
        f"{SITE}/a/../private/1", f"{REFUSED_BY_LINE_2} (user-agent: *), as {PRIVATE}"
    ),
    "forbidden, since robots.txt is unreachable": Case(
        PUBLIC, f"Refused by {ROBOTS_URL} (unreachable: no answer", robots=None
    ),
    "too long to be matched": Case(
        LONG,
        f"Refused by {ROBOTS_URL} (the URL is too long",
        robots=b"User-agent: *\nDisallow: /*?private=",
    ),
    "long": Case(LONG[:60_000], "sent", robots=b"User-agent: *\nDisallow: /*?private="),
    **{f"{url}: no robots.txt": Case(url, "sent", robots=None) for url in SCHEMES},
    # Overrides.
    "ignored": Case(PRIVATE, "sent", {"example.com": "ignore"}, robots=None),
    "ignored, even if too long": Case(LONG, "sent", {"*": "ignore"}, robots=None),
    "obeyed, by the more precise override": Case(
        PRIVATE, REFUSED_BY_LINE_2, {"*": "ignore", "example.com": "obey"}
    ),
    "allowed by an override": Case(
        PRIVATE, "sent", {"example.com": "User-agent: *\nAllow: /"}, robots=None
    ),
    "forbidden by an override": Case(
        PUBLIC,
        "Refused by REP_OVERRIDES['example.com'], line 2 (disallow: /)",
        {"example.com": "User-agent: *\nDisallow: /"},
        robots=None,
    ),
    "ignored for another host": Case(
        PRIVATE, REFUSED_BY_LINE_2, {"other.example": "ignore"}
    ),
    # dont_obey_robotstxt.
    "exempt": Case(PRIVATE, "sent", meta=EXEMPT, robots=None),
    "exempt, after a redirect within its origin": Case(
        PRIVATE, "sent", meta={**EXEMPT, "redirect_urls": [PUBLIC]}, robots=None
    ),
    "exempt, after a redirect from another origin": Case(
        PRIVATE,
        REFUSED_BY_LINE_2,
        meta={**EXEMPT, "redirect_urls": ["http://other.example/"]},
    ),
    # Invalid hosts. No override applies to them.
    **{
        f"{url}: invalid host": Case(url, INVALID_HOST, {"*": "ignore"})
        for url in BAD_URLS
    },
    "invalid host, exempt": Case("http://a|b/", "sent", meta=EXEMPT),
    "invalid host, exempt, after a redirect from another invalid host": Case(
        "http://a|b/", INVALID_HOST, meta={**EXEMPT, "redirect_urls": ["http://[::/x"]}
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@coroutine_test
async def test_robotstxt_overrides_and_meta_decide_whether_a_request_is_sent(
    case: Case,
) -> None:
    """The errback of a refused request, the signal ``decision_made`` and the stats get the refusal."""
    robots = None if case.robots is None else answer(ROBOTS_URL, case.robots)
    mw, crawler = middleware(
        {ROBOTS_URL: robots} if robots else {}, REP_OVERRIDES=case.overrides
    )
    recorded = records(crawler)
    request = Request(SITE, meta=case.meta)
    request._url = case.url  # Like verbatim_url in versions of Scrapy that have it.
    if case.verdict == "sent":
        assert await process(mw, request) is None
        assert not recorded
        return
    with pytest.raises(RobotsDenied) as caught:
        await process(mw, request)
    assert str(caught.value).startswith(case.verdict)
    assert isinstance(caught.value, IgnoreRequest)
    (record,) = recorded
    assert record is caught.value.record
    assert (record.verdict, record.url[:100]) == ("refused", case.url[:100])
    assert record.origin == ("" if case.verdict == INVALID_HOST else SITE)
    assert crawler.stats.get_value("robotstxt/forbidden") == 1
    assert crawler.stats.get_value(f"rep/denied/{record.reason}") == 1


def test_the_middleware_is_disabled_without_robotstxt_obey() -> None:
    with pytest.raises(NotConfigured):
        middleware(ROBOTSTXT_OBEY=False)


@coroutine_test
async def test_an_html_page_in_place_of_a_robotstxt_is_logged_and_parsed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    body = b"<!DOCTYPE html>\n" + ROBOTS
    mw, _ = middleware({ROBOTS_URL: answer(ROBOTS_URL, body)})
    with pytest.raises(RobotsDenied):
        await process(mw, Request(PRIVATE))
    assert any("is an HTML page" in line for line in caplog.messages)


@coroutine_test
async def test_only_requests_of_this_package_skip_the_check() -> None:
    """A request for robots.txt is recognised by its class, which ``replace()`` keeps. The meta keys of such a request
    do not exempt another request.
    """
    mw, crawler = middleware()
    await process(mw, Request(PUBLIC))
    (robotstxt_request,) = crawler.engine.asked
    assert isinstance(robotstxt_request, RobotsTxtRequest)
    assert await process(mw, robotstxt_request) is None
    assert await process(mw, robotstxt_request.replace(url=PRIVATE)) is None
    meta = {
        key: robotstxt_request.meta[key]
        for key in robotstxt_request.meta
        if key != "dont_obey_robotstxt"
    }
    for request in (
        Request(PRIVATE, meta=meta),
        Request(PRIVATE, meta={"_rep_fetch": True}),
        robotstxt_request.replace(url=PRIVATE, cls=Request, meta=meta),
    ):
        with pytest.raises(RobotsDenied):
            await process(mw, request)


@coroutine_test
async def test_a_request_that_is_exempt_from_robotstxt_obeys_pauses() -> None:
    """A request with ``dont_obey_robotstxt`` is refused if the pause of its host is too long to wait for. The only
    record is that of the refusal.
    """
    mw, crawler = middleware(REP_LEDGER="ledger")
    recorded = records(crawler)
    request = Request("http://paused.example/", meta=EXEMPT)
    WireMiddleware.from_crawler(crawler)
    back_off(crawler, Frontier.of(crawler).queues.of(request).host.key, 3600)
    with pytest.raises(RobotsDenied):
        await process(mw, request)
    assert [record.reason for record in recorded] == ["back-off"]


@coroutine_test
async def test_files_and_downloads_cause_a_retry_of_an_unreachable_robotstxt() -> None:
    """While robots.txt is unreachable, requests from outside the scheduler are refused without a fetch. When the next
    fetch is due, the next request waits for it, and is sent or refused by its result.
    """
    mw, crawler = middleware({})
    with pytest.raises(RobotsDenied):
        await process(mw, Request(PUBLIC))
    fetches = fetched_urls(crawler).count(ROBOTS_URL)
    (site,) = Frontier.of(crawler).limits.sites.values()
    with pytest.raises(RobotsDenied):
        await process(mw, Request(PUBLIC))
    assert fetched_urls(crawler).count(ROBOTS_URL) == fetches
    for answers in {}, {ROBOTS_URL: answer(ROBOTS_URL)}:
        assert site.outage is not None
        site.outage.retry_at = 0.0
        crawler.engine.answers = answers
        outcome = process(mw, Request(PUBLIC))
        if answers:
            assert await outcome is None
        else:
            with pytest.raises(RobotsDenied):
                await outcome
    assert fetched_urls(crawler).count(ROBOTS_URL) > fetches + 1


@coroutine_test
async def test_a_file_does_not_wait_for_an_unreachable_robotstxt() -> None:
    """The file of a media pipeline is refused at once, although REP_WAIT_TIMEOUT lets requests wait. The first file,
    whose request starts the fetch of robots.txt, is refused when the fetch has failed. Later files are refused without
    a fetch, as long as no retry is due.
    """
    unreachable = answer(ROBOTS_URL, status=503)
    mw, crawler = middleware({ROBOTS_URL: unreachable}, REP_WAIT_TIMEOUT=600)
    Frontier.of(crawler).has_scheduler = True
    for _ in range(2):
        outcome = deferred_from_coro(process(mw, Request(PUBLIC, callback=NO_CALLBACK)))
        pause: Deferred[None] = Deferred()
        call_later(0.05, pause.callback, None)
        await maybe_deferred_to_future(pause)
        assert outcome.called
        with pytest.raises(RobotsDenied):
            await maybe_deferred_to_future(outcome)
    assert fetched_urls(crawler).count(ROBOTS_URL) == 1


@coroutine_test
async def test_a_delayed_request_is_judged_again_if_its_rules_are_stale() -> None:
    """Another component may delay a request between this middleware and the :class:`WireMiddleware`. If the rules
    have become stale meanwhile, the request is judged again before it is sent.
    """
    mw, crawler = middleware()
    wire = WireMiddleware.from_crawler(crawler)
    wire._gate = mw
    request = Request(PUBLIC)
    entry = Frontier.of(crawler).enter(request)
    assert await ensure_awaitable(mw.process_request(request)) is None
    assert entry.judgement is not None
    fresh_until = entry.judgement.fresh_until
    entry.judgement = entry.judgement._replace(fresh_until=0.0)
    entry.may_use_stale = False
    assert await ensure_awaitable(wire.process_request(request)) is None
    assert entry.judgement.fresh_until == fresh_until


# Requests that wait for the same robots.txt.


@coroutine_test
async def test_concurrent_requests_wait_for_one_fetch() -> None:
    """The rules apply to all requests that wait for the fetch, and to later requests, even if the first request is
    cancelled.
    """
    robots_response: Deferred[Any] = Deferred()
    mw, crawler = middleware({ROBOTS_URL: lambda: robots_response})
    urls = [PUBLIC, PRIVATE, PUBLIC, PRIVATE]
    first, *others = [deferred_from_coro(process(mw, Request(url))) for url in urls]
    first.addErrback(lambda _: None)
    first.cancel()
    robots_response.callback(answer(ROBOTS_URL))
    await maybe_deferred_to_future(first)
    later = deferred_from_coro(process(mw, Request(PUBLIC)))
    outcomes = []
    for outcome in (*others, later):
        outcome.addErrback(lambda failure: type(failure.value))
        outcomes.append(await maybe_deferred_to_future(outcome))
    assert outcomes == [RobotsDenied, None, RobotsDenied, None]
    assert fetched_urls(crawler) == [ROBOTS_URL]


@coroutine_test
async def test_the_fetch_is_cancelled_when_all_waiting_requests_are_cancelled() -> None:
    """A cancelled fetch says nothing about the site. So robots.txt is fetched again for the next request."""
    robots_response: Deferred[Any] = Deferred()
    answers = [lambda: robots_response, answer(ROBOTS_URL)]
    mw, crawler = middleware({ROBOTS_URL: answers})
    outcomes = [deferred_from_coro(process(mw, Request(PUBLIC))) for _ in range(2)]
    for outcome in outcomes:
        assert not robots_response.called
        outcome.addErrback(lambda _: None)
        outcome.cancel()
        await maybe_deferred_to_future(outcome)
    assert robots_response.called
    assert await process(mw, Request(PUBLIC)) is None
    assert fetched_urls(crawler) == [ROBOTS_URL] * 2
    with pytest.raises(RobotsDenied):
        await process(mw, Request(PRIVATE))
    assert Frontier.of(crawler).limits.waiting() == (0, 0, None)


# A spider's own requests for robots.txt.


@pytest.mark.parametrize(
    ("request_", "status", "is_copy"),
    [
        (Request(ROBOTS_URL), 200, True),
        (Request(ROBOTS_URL, method="HEAD"), 200, False),
        (Request(f"{ROBOTS_URL}?x=1"), 200, False),
        (Request(f"{ROBOTS_URL};x"), 200, False),
        (Request(ROBOTS_URL, meta=EXEMPT), 200, False),
        # The fetch of the crawl has failed, so there is no copy.
        (Request(ROBOTS_URL), 503, False),
    ],
)
@coroutine_test
async def test_a_request_of_a_spider_for_robotstxt_is_answered_with_the_copy_of_the_crawl(
    request_: Request, status: int, is_copy: bool
) -> None:
    """A plain GET for robots.txt gets a copy of the robots.txt that the crawl has fetched, if this fetch was
    successful. The response is flagged as a copy. All other requests are sent, and recorded at the ledger level "all".
    """
    answers = {ROBOTS_URL: answer(ROBOTS_URL, ROBOTS, status)}
    mw, crawler = middleware(answers, **LEDGER_LEVEL_ALL)
    recorded = records(crawler)
    for _ in range(2):
        response = await process(mw, request_)
        if is_copy:
            assert (response.flags, response.body) == (["robotstxt_copy"], ROBOTS)
        else:
            assert response is None
    sent = [] if is_copy else [(request_.url, "allowed")] * 2
    assert [(record.url, record.verdict) for record in recorded] == sent
    assert crawler.stats.get_value("rep/robotstxt/from_copy") == (
        2 if is_copy else None
    )


# Pages that a browser has loaded.


@pytest.mark.parametrize(
    ("url", "settings", "reported"),
    [
        (PUBLIC, {}, []),
        (PUBLIC, LEDGER_LEVEL_ALL, [PUBLIC]),
        (ROBOTS_URL, {"REP_LEDGER": "unused"}, []),
        (ROBOTS_URL, LEDGER_LEVEL_ALL, [ROBOTS_URL]),
    ],
)
@coroutine_test
async def test_the_final_page_of_a_browser_counts_like_a_request(
    url: str, settings: dict[str, Any], reported: list[str]
) -> None:
    """A browser may follow redirects. Its final page is recorded at the ledger level "all", even if it is a robots.txt,
    and is counted in the stats about overrides, like a request for this page.
    """
    mw, crawler = middleware(**settings, REP_OVERRIDES={"example.com": "obey"})
    recorded = records(crawler)
    response = HtmlResponse(url)
    assert await mw.check_arrival(Request(SITE), response) is response
    assert [
        record.url for record in recorded if record.verdict == "allowed"
    ] == reported
    assert crawler.stats.get_value("rep/override/obey") == 1


# The product token of the crawler.


@pytest.mark.parametrize(
    ("agent", "agent_of_spider", "warns"),
    [
        ("Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0", None, True),
        ("", None, True),
        ("mybot/1.0", None, False),
        ("", "mybot", False),
    ],
)
def test_a_user_agent_without_a_token_causes_one_warning(
    caplog: pytest.LogCaptureFixture,
    agent: str,
    agent_of_spider: str | None,
    warns: bool,
) -> None:
    """The warning is logged when the spider opens."""
    mw, crawler = middleware(USER_AGENT=agent)
    if agent_of_spider is not None:
        crawler.spider.user_agent = agent_of_spider
    for _ in range(2):
        crawler.signals.send_catch_log(signals.spider_opened, spider=crawler.spider)
    warnings = [line for line in caplog.messages if "ROBOTSTXT_USER_AGENT" in line]
    assert len(warnings) == warns
    assert mw is not None


# Dry runs.


@coroutine_test
async def test_invalid_purposes_of_a_request_do_not_affect_other_requests(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An error message names the request with invalid purposes. The other requests that wait for the same robots.txt
    are judged.
    """
    robots_response: Deferred[Response] = Deferred()
    settings: dict[str, Any] = {"REP_DRY_RUN": True, "USER_AGENT": "mybot"}
    crawler = fake_crawler(settings, {ROBOTS_URL: lambda: robots_response})
    recorded = records(crawler)
    dry_run = DryRun(crawler)
    outcomes = []
    for path in ("/private/1", "/private/bad", "/private/2"):
        meta = {"rep_purposes": "nonsense"} if path == "/private/bad" else {}
        request = Request(SITE + path, meta=meta)
        outcomes.append(deferred_from_coro(dry_run.process_request(request)))
    robots_response.callback(answer(ROBOTS_URL))
    for outcome in outcomes:
        await maybe_deferred_to_future(outcome)
    assert [record.url for record in recorded] == [
        f"{SITE}/private/1",
        f"{SITE}/private/2",
    ]
    errors = [record for record in caplog.records if record.levelname == "ERROR"]
    assert ["/private/bad" in record.getMessage() for record in errors] == [True]


@coroutine_test
async def test_a_cancelled_request_in_a_dry_run_is_not_an_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Two requests wait for the same robots.txt, and the first one is cancelled. It is not sent, and nothing is logged.
    The second one is judged.
    """
    robots_response: Deferred[Response] = Deferred()
    settings: dict[str, Any] = {"REP_DRY_RUN": True, "USER_AGENT": "mybot"}
    crawler = fake_crawler(settings, {ROBOTS_URL: lambda: robots_response})
    recorded = records(crawler)
    dry_run = DryRun(crawler)
    first, second = (
        deferred_from_coro(dry_run.process_request(Request(f"{SITE}/private/{number}")))
        for number in (1, 2)
    )
    failures: list[object] = []
    first.addErrback(failures.append)
    first.cancel()
    robots_response.callback(answer(ROBOTS_URL))
    await maybe_deferred_to_future(second)
    assert [(record.url, record.reason) for record in recorded] == [
        (f"{SITE}/private/2", "rule")
    ]
    assert len(failures) == 1
    assert not caplog.records
