"""Which requests are sent, refused or answered by the robots.txt middleware, and its part in a dry
run. With fake responses.
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
LEDGER_OF_ALL = {"REP_LEDGER": "unused", "REP_LEDGER_LEVEL": "all"}


def middleware(
    answers: dict[str, Any] | None = None, **settings: Any
) -> tuple[RobotsTxtMiddleware, Crawler]:
    settings = {"USER_AGENT": "mybot", "REP_WAIT_TIMEOUT": 0, **settings}
    answers = {ROBOTS_URL: answer(ROBOTS_URL)} if answers is None else answers
    crawler = fake_crawler(settings, answers)
    return RobotsTxtMiddleware.from_crawler(crawler), crawler


async def ask(mw: RobotsTxtMiddleware, request: Request) -> Any:
    """Return the outcome of a request, which is sent and has ended if that is None."""
    frontier = Frontier.of(mw._crawler)
    entry = frontier.enter(request)
    try:
        outcome = await ensure_awaitable(mw.process_request(request))
        if outcome is None:
            mw.report(entry)
    finally:
        frontier.end(request, entry)
    return outcome


def asked(crawler: Crawler) -> list[str]:
    return [request.url for request in crawler.engine.asked]


# Verdicts.

LONG = f"{SITE}/{'a' * 70_000}"
BY_LINE_2 = (
    f"Refused by {ROBOTS_URL}, line 2 (disallow: /private/), in the group of line 1"
)
NO_HOST = (
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
    """A request with its *meta*, and the REP_OVERRIDES of its crawl."""

    url: str
    verdict: str
    """``sent``, or how the message of the refusal begins."""

    overrides: dict[str, str] = {}
    meta: dict[str, Any] = {}
    robots: bytes | None = ROBOTS
    """If None, the fetch of robots.txt fails: what is sent then needs no robots.txt."""


CASES = {
    "allowed": Case(PUBLIC, "sent"),
    "forbidden": Case(PRIVATE, BY_LINE_2),
    "forbidden in the form that servers see": Case(
        f"{SITE}/a/../private/1", f"{BY_LINE_2} (user-agent: *), as {PRIVATE}"
    ),
    "forbidden, as the fetch of robots.txt has failed": Case(
        PUBLIC, f"Refused by {ROBOTS_URL} (unreachable: no answer", robots=None
    ),
    "too long for its rules": Case(
        LONG,
        f"Refused by {ROBOTS_URL} (the URL is too long",
        robots=b"User-agent: *\nDisallow: /*?private=",
    ),
    "long": Case(LONG[:60_000], "sent", robots=b"User-agent: *\nDisallow: /*?private="),
    **{f"{url}: no robots.txt": Case(url, "sent", robots=None) for url in SCHEMES},
    # Overrides.
    "ignored": Case(PRIVATE, "sent", {"example.com": "ignore"}, robots=None),
    "ignored, also if too long": Case(LONG, "sent", {"*": "ignore"}, robots=None),
    "obeyed, by the more precise override": Case(
        PRIVATE, BY_LINE_2, {"*": "ignore", "example.com": "obey"}
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
    "ignored for another host": Case(PRIVATE, BY_LINE_2, {"other.example": "ignore"}),
    # dont_obey_robotstxt.
    "exempt": Case(PRIVATE, "sent", meta=EXEMPT, robots=None),
    "exempt, after a redirect within its origin": Case(
        PRIVATE, "sent", meta={**EXEMPT, "redirect_urls": [PUBLIC]}, robots=None
    ),
    "exempt, after a redirect from another origin": Case(
        PRIVATE, BY_LINE_2, meta={**EXEMPT, "redirect_urls": ["http://other.example/"]}
    ),
    # Hosts that cannot be read: no override applies to them.
    **{f"{url}: no host": Case(url, NO_HOST, {"*": "ignore"}) for url in BAD_URLS},
    "no host, exempt": Case("http://a|b/", "sent", meta=EXEMPT),
    "no host, exempt, after a redirect from another one": Case(
        "http://a|b/", NO_HOST, meta={**EXEMPT, "redirect_urls": ["http://[::/x"]}
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@coroutine_test
async def test_a_request_is_sent_or_refused_by_what_is_known(case: Case) -> None:
    """A request is sent or refused. Its errback, the signal and the stats get the refusal."""
    robots = None if case.robots is None else answer(ROBOTS_URL, case.robots)
    mw, crawler = middleware(
        {ROBOTS_URL: robots} if robots else {}, REP_OVERRIDES=case.overrides
    )
    seen = records(crawler)
    request = Request(SITE, meta=case.meta)
    request._url = case.url  # Like verbatim_url, where Scrapy has it.
    if case.verdict == "sent":
        assert await ask(mw, request) is None
        assert not seen
        return
    with pytest.raises(RobotsDenied) as caught:
        await ask(mw, request)
    assert str(caught.value).startswith(case.verdict)
    assert isinstance(caught.value, IgnoreRequest)
    (record,) = seen
    assert record is caught.value.record
    assert (record.verdict, record.url[:100]) == ("refused", case.url[:100])
    assert record.origin == ("" if case.verdict == NO_HOST else SITE)
    assert crawler.stats.get_value("robotstxt/forbidden") == 1
    assert crawler.stats.get_value(f"rep/denied/{record.reason}") == 1


def test_without_robotstxt_obey_the_middleware_is_disabled() -> None:
    """Without ROBOTSTXT_OBEY, the middleware is disabled."""
    with pytest.raises(NotConfigured):
        middleware(ROBOTSTXT_OBEY=False)


@coroutine_test
async def test_html_in_place_of_a_robotstxt_is_logged_and_parsed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An HTML page in place of a robots.txt is logged, and parsed like any other file."""
    caplog.set_level("INFO")
    body = b"<!DOCTYPE html>\n" + ROBOTS
    mw, _ = middleware({ROBOTS_URL: answer(ROBOTS_URL, body)})
    with pytest.raises(RobotsDenied):
        await ask(mw, Request(PRIVATE))
    assert any("is an HTML page" in line for line in caplog.messages)


@coroutine_test
async def test_only_requests_of_the_package_skip_the_check() -> None:
    """Only the package's own requests skip the check, by class, which ``replace()`` keeps."""
    mw, crawler = middleware()
    await ask(mw, Request(PUBLIC))
    (robotstxt_request,) = crawler.engine.asked
    assert isinstance(robotstxt_request, RobotsTxtRequest)
    assert await ask(mw, robotstxt_request) is None
    assert await ask(mw, robotstxt_request.replace(url=PRIVATE)) is None
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
            await ask(mw, request)


@coroutine_test
async def test_an_exempt_request_keeps_to_pauses() -> None:
    """A request with ``dont_obey_robotstxt`` is refused if its host has asked for too long a pause.
    No ledger says that it was allowed.
    """
    mw, crawler = middleware(REP_LEDGER="ledger")
    seen = records(crawler)
    request = Request("http://paused.example/", meta=EXEMPT)
    WireMiddleware.from_crawler(crawler)
    back_off(crawler, Frontier.of(crawler).queues.of(request).host.key, 3600)
    with pytest.raises(RobotsDenied):
        await ask(mw, request)
    assert [record.reason for record in seen] == ["back-off"]


@coroutine_test
async def test_an_unreachable_host_is_asked_again_for_files_and_downloads() -> None:
    """They are refused until robots.txt may be fetched again. The next one waits for that fetch, and is judged by it."""
    mw, crawler = middleware({})
    with pytest.raises(RobotsDenied):
        await ask(mw, Request(PUBLIC))
    times = asked(crawler).count(ROBOTS_URL)
    (site,) = Frontier.of(crawler).limits.sites.values()
    with pytest.raises(RobotsDenied):
        await ask(mw, Request(PUBLIC))
    assert asked(crawler).count(ROBOTS_URL) == times
    for answers in {}, {ROBOTS_URL: answer(ROBOTS_URL)}:
        assert site.outage is not None
        site.outage.retry_at = 0.0
        crawler.engine.answers = answers
        call = ask(mw, Request(PUBLIC))
        if answers:
            assert await call is None
        else:
            with pytest.raises(RobotsDenied):
                await call
    assert asked(crawler).count(ROBOTS_URL) > times + 1


@coroutine_test
async def test_a_file_does_not_wait_for_a_robotstxt_that_is_unreachable() -> None:
    """Neither the file that has it fetched, nor a later one while no retry is due."""
    unreachable = answer(ROBOTS_URL, status=503)
    mw, crawler = middleware({ROBOTS_URL: unreachable}, REP_WAIT_TIMEOUT=600)
    Frontier.of(crawler).has_scheduler = True
    for _ in range(2):
        call = deferred_from_coro(ask(mw, Request(PUBLIC, callback=NO_CALLBACK)))
        soon: Deferred[None] = Deferred()
        call_later(0.05, soon.callback, None)
        await maybe_deferred_to_future(soon)
        assert call.called
        with pytest.raises(RobotsDenied):
            await maybe_deferred_to_future(call)
    assert asked(crawler).count(ROBOTS_URL) == 1


@coroutine_test
async def test_a_request_that_a_component_held_until_its_rules_were_stale_is_judged_again() -> (
    None
):
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
    sending = wire.process_request(request)
    assert await ensure_awaitable(sending) is None
    assert entry.judgement.fresh_until == fresh_until


# Requests that wait for one robots.txt.


@coroutine_test
async def test_all_requests_wait_for_one_fetch() -> None:
    """All requests that wait for one robots.txt follow its rules, also if the first of them is
    cancelled, and so do those that come later.
    """
    landing: Deferred[Any] = Deferred()
    mw, crawler = middleware({ROBOTS_URL: lambda: landing})
    urls = [PUBLIC, PRIVATE, PUBLIC, PRIVATE]
    first, *others = [deferred_from_coro(ask(mw, Request(url))) for url in urls]
    first.addErrback(lambda _: None)
    first.cancel()
    landing.callback(answer(ROBOTS_URL))
    await maybe_deferred_to_future(first)
    later = deferred_from_coro(ask(mw, Request(PUBLIC)))
    outcomes = []
    for waiting in (*others, later):
        waiting.addErrback(lambda failure: type(failure.value))
        outcomes.append(await maybe_deferred_to_future(waiting))
    assert outcomes == [RobotsDenied, None, RobotsDenied, None]
    assert asked(crawler) == [ROBOTS_URL]


@coroutine_test
async def test_the_last_request_that_is_cancelled_ends_the_fetch() -> None:
    """If all requests that wait for a robots.txt are cancelled, so is its fetch. That says
    nothing about the site: the next request has robots.txt fetched again.
    """
    landing: Deferred[Any] = Deferred()
    answers = [lambda: landing, answer(ROBOTS_URL)]
    mw, crawler = middleware({ROBOTS_URL: answers})
    waiting = [deferred_from_coro(ask(mw, Request(PUBLIC))) for _ in range(2)]
    for call in waiting:
        assert not landing.called
        call.addErrback(lambda _: None)
        call.cancel()
        await maybe_deferred_to_future(call)
    assert landing.called
    assert await ask(mw, Request(PUBLIC)) is None
    assert asked(crawler) == [ROBOTS_URL] * 2
    with pytest.raises(RobotsDenied):
        await ask(mw, Request(PRIVATE))
    assert Frontier.of(crawler).limits.waiting() == (0, 0, None)


# Requests of a spider for robots.txt.


@pytest.mark.parametrize(
    ("request_", "status", "is_copy"),
    [
        (Request(ROBOTS_URL), 200, True),
        (Request(ROBOTS_URL, method="HEAD"), 200, False),
        (Request(f"{ROBOTS_URL}?x=1"), 200, False),
        (Request(f"{ROBOTS_URL};x"), 200, False),
        (Request(ROBOTS_URL, meta=EXEMPT), 200, False),
        # There is no copy.
        (Request(ROBOTS_URL), 503, False),
    ],
)
@coroutine_test
async def test_a_spider_that_requests_robotstxt_gets_the_copy(
    request_: Request, status: int, is_copy: bool
) -> None:
    """A spider that requests robots.txt gets the copy of the crawl, with a flag. Only a plain GET
    is answered so; other requests are sent, and recorded at the ledger level "all".
    """
    answers = {ROBOTS_URL: answer(ROBOTS_URL, ROBOTS, status)}
    mw, crawler = middleware(answers, **LEDGER_OF_ALL)
    seen = records(crawler)
    for _ in range(2):
        response = await ask(mw, request_)
        if is_copy:
            assert (response.flags, response.body) == (["robotstxt_copy"], ROBOTS)
        else:
            assert response is None
    sent = [] if is_copy else [(request_.url, "allowed")] * 2
    assert [(record.url, record.verdict) for record in seen] == sent
    assert crawler.stats.get_value("rep/robotstxt/from_copy") == (
        2 if is_copy else None
    )


# Where a browser has arrived.


@pytest.mark.parametrize(
    ("url", "settings", "reported"),
    [
        (PUBLIC, {}, []),
        (PUBLIC, LEDGER_OF_ALL, [PUBLIC]),
        (ROBOTS_URL, {"REP_LEDGER": "unused"}, []),
        (ROBOTS_URL, LEDGER_OF_ALL, [ROBOTS_URL]),
    ],
)
@coroutine_test
async def test_a_page_at_which_a_browser_ends_counts_like_a_request(
    url: str, settings: dict[str, Any], reported: list[str]
) -> None:
    """A page at which a browser ends counts like a request for it: it is recorded at the ledger level
    "all", and so is a robots.txt, and the stat of an override counts it.
    """
    mw, crawler = middleware(**settings, REP_OVERRIDES={"example.com": "obey"})
    seen = records(crawler)
    response = HtmlResponse(url)
    assert await mw.check_arrival(Request(SITE), response) is response
    assert [record.url for record in seen if record.verdict == "allowed"] == reported
    assert crawler.stats.get_value("rep/override/obey") == 1


# The name of the crawler.


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
    """A User-Agent without a product token causes one warning at the start."""
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
async def test_a_request_with_invalid_purposes_fails_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One error message names a request with invalid purposes. Those that wait for the same
    robots.txt are judged.
    """
    fetched: Deferred[Response] = Deferred()
    settings: dict[str, Any] = {"REP_DRY_RUN": True, "USER_AGENT": "mybot"}
    crawler = fake_crawler(settings, {ROBOTS_URL: lambda: fetched})
    recorded = records(crawler)
    mw = DryRun(crawler)
    calls = []
    for path in ("/private/1", "/private/bad", "/private/2"):
        purposes = {"rep_purposes": "nonsense"} if path == "/private/bad" else {}
        request = Request(SITE + path, meta=purposes)
        calls.append(deferred_from_coro(mw.process_request(request)))
    fetched.callback(answer(ROBOTS_URL))
    for call in calls:
        await maybe_deferred_to_future(call)
    assert [record.url for record in recorded] == [
        f"{SITE}/private/1",
        f"{SITE}/private/2",
    ]
    errors = [record for record in caplog.records if record.levelname == "ERROR"]
    assert ["/private/bad" in record.getMessage() for record in errors] == [True]


@coroutine_test
async def test_a_cancelled_request_in_a_dry_run_is_no_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A cancelled request in a dry run is not sent, and is no error; others that wait for the same
    robots.txt are judged by it.
    """
    fetched: Deferred[Response] = Deferred()
    settings: dict[str, Any] = {"REP_DRY_RUN": True, "USER_AGENT": "mybot"}
    crawler = fake_crawler(settings, {ROBOTS_URL: lambda: fetched})
    recorded = records(crawler)
    mw = DryRun(crawler)
    first, second = (
        deferred_from_coro(mw.process_request(Request(f"{SITE}/private/{number}")))
        for number in (1, 2)
    )
    ended: list[object] = []
    first.addErrback(ended.append)
    first.cancel()
    fetched.callback(answer(ROBOTS_URL))
    await maybe_deferred_to_future(second)
    assert [(record.url, record.reason) for record in recorded] == [
        (f"{SITE}/private/2", "rule")
    ]
    assert len(ended) == 1
    assert not caplog.records
