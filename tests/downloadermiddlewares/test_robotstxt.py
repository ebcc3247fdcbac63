"""The downloader middleware, with fake responses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request, signals
from scrapy.exceptions import IgnoreRequest, NotConfigured
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.defer import Deferred

from scrapy_rep.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy_rep.exceptions import RobotsDenied
from scrapy_rep.fetching.request import RobotsTxtRequest
from scrapy_rep.frontier.frontier import Frontier
from tests.fakes import answer, coroutine_test, fake_crawler, records

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

ROBOTS_URL = "http://example.com/robots.txt"
PRIVATE = "http://example.com/private/1"
PUBLIC = "http://example.com/public"


def middleware(
    answers: dict[str, Any] | None = None, **settings: Any
) -> tuple[RobotsTxtMiddleware, Crawler]:
    settings = {"USER_AGENT": "mybot", "REP_WAIT_MAX": 0, **settings}
    answers = {ROBOTS_URL: answer(ROBOTS_URL)} if answers is None else answers
    crawler = fake_crawler(settings, answers)
    return RobotsTxtMiddleware.from_crawler(crawler), crawler


async def ask(mw: RobotsTxtMiddleware, request: Request) -> Any:
    """Return the outcome of a request, resent as often as the middleware returns it."""
    while (outcome := await mw.process_request(request)) is request:
        pass
    return outcome


def asked(crawler: Crawler) -> list[str]:
    return [request.url for request in crawler.engine.asked]


def test_switched_off() -> None:
    """Without ROBOTSTXT_OBEY, the middleware is disabled."""
    with pytest.raises(NotConfigured):
        middleware(ROBOTSTXT_OBEY=False)


@coroutine_test
async def test_denial() -> None:
    """For a refused request, errback, stats, signal and log have the decision."""
    mw, crawler = middleware()
    seen = records(crawler)
    with pytest.raises(RobotsDenied) as caught:
        await ask(mw, Request(PRIVATE))
    record = caught.value.record
    assert (record.verdict, record.line, record.agent) == ("refused", 2, "*")
    assert (record.url, record.origin) == (PRIVATE, "http://example.com")
    assert record.statement == "Disallow: /private/"
    assert str(caught.value) == (
        f"Forbidden by {ROBOTS_URL}, line 2 (disallow: /private/)"
    )
    assert isinstance(caught.value, IgnoreRequest)
    assert seen == [record]
    assert crawler.stats.get_value("robotstxt/forbidden") == 1
    assert crawler.stats.get_value("rep/denied/rule") == 1


@coroutine_test
async def test_a_url_that_is_too_long_to_be_judged() -> None:
    """A URL that is too long is refused with its own reason, unless an override allows it."""
    body = b"User-agent: *\nDisallow: /*?private="
    answers = {ROBOTS_URL: answer(ROBOTS_URL, body=body)}
    mw, crawler = middleware(answers)
    long = f"http://example.com/{'a' * 70_000}"
    with pytest.raises(
        RobotsDenied, match=r"robots\.txt \(too-long: the URL is too long.*"
    ) as caught:
        await ask(mw, Request(long))
    assert caught.value.record.reason == "too-long"
    assert crawler.stats.get_value("rep/denied/too-long") == 1
    assert await ask(mw, Request(f"http://example.com/{'a' * 60_000}")) is None
    mw, _ = middleware(answers, REP_OVERRIDES={"example.com": "ignore"})
    assert await ask(mw, Request(long)) is None


@coroutine_test
async def test_one_fetch_for_an_origin() -> None:
    """An allowed request passes, and the second request causes no second fetch."""
    mw, crawler = middleware()
    assert await ask(mw, Request(PUBLIC)) is None
    assert await ask(mw, Request(f"{PUBLIC}/2")) is None
    assert asked(crawler) == [ROBOTS_URL]


@coroutine_test
async def test_each_waiter_gets_the_rules() -> None:
    """All requests that wait for one robots.txt follow its rules, not only the first."""
    landing: Deferred[Any] = Deferred()
    mw, crawler = middleware({ROBOTS_URL: lambda: landing})
    waiting = [
        deferred_from_coro(ask(mw, Request(f"{PRIVATE}{number}")))
        for number in range(20)
    ]
    denials: list[Any] = []
    for one in waiting:
        one.addErrback(denials.append)
    landing.callback(answer(ROBOTS_URL))
    for one in waiting:
        await maybe_deferred_to_future(one)
    assert len(denials) == 20
    assert all(denial.check(RobotsDenied) for denial in denials)
    assert asked(crawler) == [ROBOTS_URL]


@coroutine_test
async def test_a_waiter_that_is_cancelled_harms_no_other() -> None:
    """The fetch belongs to no request: if the first is cancelled, the others get the rules."""
    landing: Deferred[Any] = Deferred()
    mw, _ = middleware({ROBOTS_URL: lambda: landing})
    first = deferred_from_coro(ask(mw, Request(PUBLIC)))
    second = deferred_from_coro(ask(mw, Request(PUBLIC)))
    first.addErrback(lambda _: None)
    first.cancel()
    landing.callback(answer(ROBOTS_URL))
    await maybe_deferred_to_future(first)
    assert await maybe_deferred_to_future(second) is None


@coroutine_test
async def test_the_last_waiter_that_is_cancelled_ends_the_fetch() -> None:
    """If all requests that wait for a robots.txt are cancelled, so is its fetch. That says
    nothing about the site: the next request has robots.txt fetched again.
    """
    landing: Deferred[Any] = Deferred()
    mw, crawler = middleware({ROBOTS_URL: [lambda: landing, answer(ROBOTS_URL)]})
    waiting = [deferred_from_coro(ask(mw, Request(PUBLIC))) for _ in range(2)]
    for one in waiting:
        one.addErrback(lambda _: None)
    waiting[0].cancel()
    await maybe_deferred_to_future(waiting[0])
    assert not landing.called
    waiting[1].cancel()
    await maybe_deferred_to_future(waiting[1])
    assert await ask(mw, Request(PUBLIC)) is None
    assert landing.called
    assert asked(crawler) == [ROBOTS_URL] * 2
    with pytest.raises(RobotsDenied):
        await ask(mw, Request(PRIVATE))
    assert Frontier.of(crawler).core.waiting() == (0, 0, None)


@coroutine_test
async def test_a_failure_of_ours_is_no_permission() -> None:
    """After an internal error in the fetcher, no request waits, and none is allowed."""
    mw, _ = middleware({})  # The fake engine raises KeyError.
    with pytest.raises(RobotsDenied) as caught:
        await ask(mw, Request(PUBLIC))
    assert caught.value.record.reason == "unreachable"


@pytest.mark.parametrize(
    "url", ["data:,x", "file:///tmp/x", "s3://bucket/key", "ftp://example.com/private/"]
)
@coroutine_test
async def test_other_schemes_pass(url: str) -> None:
    """Requests of schemes without robots.txt pass."""
    mw, crawler = middleware()
    assert await ask(mw, Request(url)) is None
    assert asked(crawler) == []


@pytest.mark.parametrize(
    "url",
    [
        "http://a|b/",
        "https://%20/",
        "http://a:+80/",
        "HTTP://a:b/",
        "http://[::/",
        "HTTP://[",
    ],
)
@coroutine_test
async def test_a_host_that_cannot_be_read(url: str) -> None:
    """A URL without a valid host is refused with its own reason, unless overridden."""
    mw, crawler = middleware(REP_OVERRIDES={"*": "ignore"})
    seen = records(crawler)
    request = Request("http://example.com/")
    request._url = url  # Like verbatim_url, where Scrapy has it.
    with pytest.raises(
        RobotsDenied, match="host or port of the URL can't be read"
    ) as caught:
        await ask(mw, request)
    assert caught.value.record.reason == "bad-url"
    assert caught.value.record.origin == seen[0].origin == ""
    assert crawler.stats.get_value("robotstxt/forbidden") == 1
    assert crawler.stats.get_value("rep/denied/bad-url") == 1
    request.meta["dont_obey_robotstxt"] = True
    assert await ask(mw, request) is None
    request.meta["redirect_urls"] = ["http://[::/x"]
    with pytest.raises(RobotsDenied):
        await ask(mw, request)


@coroutine_test
async def test_who_may_skip_the_gate() -> None:
    """Only the package's own requests skip the check, by class, which ``replace()`` keeps."""
    mw, crawler = middleware()
    await ask(mw, Request(PUBLIC))
    (own,) = crawler.engine.asked
    assert isinstance(own, RobotsTxtRequest)
    assert await ask(mw, own) is None
    replaced = own.replace(url=PRIVATE)
    assert await ask(mw, replaced) is None
    meta = {key: own.meta[key] for key in own.meta if key != "dont_obey_robotstxt"}
    for request in (
        Request(PRIVATE, meta=meta),
        Request(PRIVATE, meta={"_rep_fetch": True}),
        own.replace(url=PRIVATE, cls=Request, meta=meta),
    ):
        with pytest.raises(RobotsDenied):
            await ask(mw, request)


@coroutine_test
async def test_the_form_that_is_denied() -> None:
    """The error has the form of the URL that is denied, if it differs from the URL."""
    mw, _ = middleware()
    with pytest.raises(RobotsDenied) as caught:
        await ask(mw, Request("http://example.com/a/../private/1"))
    assert caught.value.record.form == PRIVATE
    assert str(caught.value).endswith(f"(disallow: /private/), as {PRIVATE}")


@coroutine_test
async def test_dont_obey_robotstxt() -> None:
    """dont_obey_robotstxt holds for redirects within the origin, and ends at another origin."""
    mw, _ = middleware()
    meta = {"dont_obey_robotstxt": True}
    assert await ask(mw, Request(PRIVATE, meta=meta)) is None
    meta["redirect_urls"] = ["http://example.com/before"]
    assert await ask(mw, Request(PRIVATE, meta=meta)) is None
    meta["redirect_urls"] = ["http://other.example/before"]
    with pytest.raises(RobotsDenied):
        await ask(mw, Request(PRIVATE, meta=meta))


@coroutine_test
async def test_an_exempt_request_that_is_refused_was_not_allowed() -> None:
    """A request that is exempt from robots.txt keeps to back-off. If it is refused for that, no
    ledger says that it was allowed.
    """
    mw, crawler = middleware(REP_LEDGER="ledger")
    seen = records(crawler)
    request = Request("http://paused.example/", meta={"dont_obey_robotstxt": True})
    frontier = Frontier.of(crawler)
    (scope,) = frontier.scopes_of(frontier.key_of(request))
    frontier.back_off(scope.key, 3600, None)
    with pytest.raises(RobotsDenied):
        await ask(mw, request)
    assert [each.reason for each in seen] == ["back-off"]


@coroutine_test
async def test_robotstxt_of_a_spider_is_answered_from_the_copy() -> None:
    """A spider that requests robots.txt gets the cached copy, with a flag."""
    mw, crawler = middleware()
    for _ in range(2):
        response = await ask(mw, Request(ROBOTS_URL))
        assert response is not None
        assert response.flags == ["robotstxt_copy"]
        assert response.text.startswith("User-agent: *")
    assert asked(crawler) == [ROBOTS_URL]
    assert crawler.stats.get_value("rep/robotstxt/from_copy") == 2


@pytest.mark.parametrize(
    "request_",
    [
        Request(ROBOTS_URL, method="HEAD"),
        Request(f"{ROBOTS_URL}?x=1"),
        Request(f"{ROBOTS_URL};x"),
        Request(ROBOTS_URL, meta={"dont_obey_robotstxt": True}),
    ],
)
@coroutine_test
async def test_robotstxt_of_a_spider_passes(request_: Request) -> None:
    """Only a plain GET of robots.txt is answered from the cached copy."""
    mw, _ = middleware()
    assert await ask(mw, request_) is None


@coroutine_test
async def test_an_unreachable_robotstxt_can_be_asked_for_by_the_spider() -> None:
    """If there is no copy to answer with, the spider's own request is sent."""
    mw, _ = middleware({ROBOTS_URL: answer(ROBOTS_URL, b"", 503)})
    assert await ask(mw, Request(ROBOTS_URL)) is None


@coroutine_test
async def test_that_the_spider_asks_for_robotstxt_is_recorded() -> None:
    """At the level "all", a spider's request for robots.txt is recorded even if it is sent to
    the server.
    """
    answers = {ROBOTS_URL: answer(ROBOTS_URL, b"", 503)}
    mw, crawler = middleware(answers, REP_LEDGER="ledger", REP_LEDGER_LEVEL="all")
    seen = records(crawler)
    assert await ask(mw, Request(ROBOTS_URL)) is None
    (told,) = seen
    assert (told.url, told.verdict) == (ROBOTS_URL, "allowed")
    assert told.fetched


@pytest.mark.parametrize(
    ("overrides", "allowed", "kind"),
    [
        ({"example.com": "ignore"}, True, "ignore"),
        ({"*": "ignore", "example.com": "obey"}, False, "obey"),
        ({"example.com": "User-agent: *\nAllow: /"}, True, "robotstxt"),
        ({"example.com": "User-agent: *\nDisallow: /"}, False, "robotstxt"),
        ({"other.example": "ignore"}, False, None),
    ],
)
@coroutine_test
async def test_overrides(
    overrides: dict[str, str],
    allowed: bool,
    kind: str | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An override decides, is counted each time, and is logged once."""
    caplog.set_level("INFO")
    mw, crawler = middleware(REP_OVERRIDES=overrides)
    for _ in range(2):
        try:
            await ask(mw, Request(PRIVATE))
        except RobotsDenied:
            assert not allowed
        else:
            assert allowed
    count = crawler.stats.get_value(f"rep/override/{kind}")
    assert count == (2 if kind else None)
    assert sum("REP_OVERRIDES" in line for line in caplog.messages) == bool(kind)
    assert bool(asked(crawler)) == (kind in {None, "obey"})


@coroutine_test
async def test_html_is_noted(caplog: pytest.LogCaptureFixture) -> None:
    """An HTML page in place of a robots.txt is logged, and parsed like any other file."""
    caplog.set_level("INFO")
    body = b"<!DOCTYPE html>\nUser-agent: *\nDisallow: /private/\n"
    mw, _ = middleware({ROBOTS_URL: answer(ROBOTS_URL, body)})
    with pytest.raises(RobotsDenied):
        await ask(mw, Request(PRIVATE))
    assert any("is an HTML page" in line for line in caplog.messages)


@pytest.mark.parametrize(
    ("settings", "spider_agent", "warns"),
    [
        ({"USER_AGENT": "Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0"}, None, True),
        ({"USER_AGENT": ""}, None, True),
        ({"USER_AGENT": "mybot/1.0"}, None, False),
        ({"USER_AGENT": "", "ROBOTSTXT_USER_AGENT": "mybot"}, None, False),
        ({"USER_AGENT": ""}, "mybot", False),
        (
            {"USER_AGENT": "", "DEFAULT_REQUEST_HEADERS": {"user-agent": b"mybot"}},
            None,
            False,
        ),
    ],
)
def test_warning_about_the_agent(
    settings: dict[str, Any],
    spider_agent: str | None,
    warns: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A User-Agent without a product token causes one warning at the start."""
    mw, crawler = middleware(**settings)
    if spider_agent:
        crawler.spider.user_agent = spider_agent
    for _ in range(2):
        crawler.signals.send_catch_log(signals.spider_opened, spider=crawler.spider)
    warnings = [line for line in caplog.messages if "ROBOTSTXT_USER_AGENT" in line]
    assert len(warnings) == warns
    assert mw is not None
