"""Tests of the log lines and the finish reason of a crawl."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Spider
from scrapy.exceptions import CloseSpider
from scrapy.signals import spider_idle

from scrapy_rep import back_off
from tests import forks
from tests.crawl.answers import Answer, busy, robots
from tests.crawl.crawl import ADDON, BY_HAND, ROOT, run_crawl
from tests.crawl.pauses import EARLY, limit, pages
from tests.crawl.spiders import PlanSpider

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from tests.crawl.server import Site

GATE = "scrapy_rep.crawl.gate.RobotsTxtMiddleware"
FORBIDS = "User-agent: *\nDisallow: /private\n"


class OwnReasonSpider(Spider):
    """Closes with the reason "mine" when it is idle."""

    name = "own-reason"
    start_urls: list[str] = []

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Any:
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.idle, spider_idle)
        return spider

    def idle(self) -> None:
        raise CloseSpider("mine")


REAL_RUN = (
    "ask for a delay: 1",
    "Requests refused: 1",
    "waited only for its crawl delay",
)
"""Phrases of the summary at the end of a crawl."""
DRY_RUN = (
    "ask for a delay: 1",
    "would be refused: 1",
    "has judged",
    "A real run would take",
)
"""Phrases of the summary at the end of a dry run."""


@pytest.mark.newest
@pytest.mark.parametrize(
    ("settings", "phrases"), [({}, REAL_RUN), ({"REP_DRY_RUN": True}, DRY_RUN)]
)
def test_each_line_of_the_summary_names_its_spider(
    site: Site, settings: dict[str, Any], phrases: tuple[str, ...]
) -> None:
    """Two crawls in one process write to the same log."""
    rules = f"{FORBIDS}Crawl-delay: 1.5\n"
    hosts = [site.add(rules, name=f"127.0.0.{number}") for number in (21, 22)]
    locked = site.add(Answer(status=401), name="127.0.0.23")
    urls = [[host.url("/private"), host.url("/public")] for host in hosts]
    urls[1].append(locked.url("/"))
    crawls = json.dumps([[settings, *urls_of_crawl] for urls_of_crawl in urls])
    command = ["tests.crawl.two_crawls", "asyncio", crawls, "INFO"]
    log = forks.run(command, cwd=ROOT).stderr.decode().splitlines()
    for phrase in phrases:
        for number in range(2):
            words = f"] [plan-{number}] ", phrase
            assert (
                len([line for line in log if all(word in line for word in words)]) == 1
            )
        assert len([line for line in log if phrase in line]) == 2
    (line,) = (line for line in log if "answered with 401 or 403: 1" in line)
    assert "] [plan-1] Requests for robots.txt" in line


class PausingSpider(PlanSpider):
    """Calls ``back_off`` after each page, and requests a second page after the first."""

    def note_response(self, response: Response) -> Iterator[Request]:
        super().note_response(response)
        back_off(self.crawler, response.url, delay=1)
        if response.url.endswith("/0"):
            yield self.request({"url": response.urljoin("/1")})


@pytest.mark.parametrize(
    ("paths", "status", "enable", "reason"),
    [
        ("/private/1 /private/2", 200, ADDON, "robots_denied"),
        ("/private/1", 503, ADDON, "robots_denied"),
        ("/private/1 /public", 200, ADDON, "finished"),
        ("/private/1 /public", 200, BY_HAND, "finished"),
        ("/public", 200, ADDON, "finished"),
    ],
)
def test_a_crawl_that_fetches_no_page_finishes_with_robots_denied(
    site: Site, mode: str, *, paths: str, status: int, enable: Any, reason: str
) -> None:
    """If all start requests are refused, the finish reason is "robots_denied". If a page is fetched, it is "finished".

    The first refusal of a start request is logged as a warning at once.
    """
    host = site.add(robots(FORBIDS, status=status))
    urls = map(host.url, paths.split())
    settings = {"REP_WAIT_TIMEOUT": 0}
    result = run_crawl(urls, settings=settings, enable=enable, mode=mode)
    assert result.stats["finish_reason"] == reason
    is_refused = "private" in paths
    assert len(result.lines("WARNING", "A start request is refused")) == is_refused


@pytest.mark.newest
def test_the_finish_reason_of_the_spider_replaces_robots_denied(site: Site) -> None:
    host = site.add(FORBIDS)
    spider = f"{__name__}.OwnReasonSpider"
    result = run_crawl([host.url("/private")], spider=spider)
    assert host.pages == []
    assert result.stats["finish_reason"] == "mine"


@pytest.mark.newest
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {},
            (
                "robots.txt is obeyed",
                "scrapy_rep.Scheduler",
                "memory://",
                "ledger: none",
            ),
        ),
        ({"REP_DRY_RUN": True}, ("a dry run", "scrapy.core.scheduler.")),
        (
            {"ROBOTSTXT_OBEY": False},
            ("is ignored (ROBOTSTXT_OBEY = False)", "REP_NOINDEX = 'drop'"),
        ),
        ({"USER_AGENT": "Mozilla/5.0"}, ("crawls as * ",)),
        (
            {"DOWNLOADER_MIDDLEWARES": {GATE: None}},
            (f"robots.txt is ignored, since {GATE} is disabled",),
        ),
    ],
)
def test_one_line_at_the_start_names_the_crawler_and_what_it_obeys(
    site: Site, settings: dict[str, Any], words: tuple[str, ...]
) -> None:
    """The line says which parts of the protocol the settings switch off."""
    host = site.add(FORBIDS)
    result = run_crawl([host.url("/")], settings=settings)
    (line,) = result.lines("INFO", "scrapy-rep ", " crawls as ", "dialect rfc9309")
    assert all(word in line for word in words)
    assert result.log.index(line) < result.log.index("Crawled")


@pytest.mark.newest
def test_one_line_names_the_first_host_that_slows_the_crawl_down(site: Site) -> None:
    """The line is logged when the Crawl-delay of this host is read. Only delays that are longer than that of
    the project count.
    """
    rules = "User-agent: *\nCrawl-delay: {}\n"
    names = {f"{name}.test": ["127.0.0.1"] for name in ("quick", "slow", "slower")}
    delays = zip(names, (0.01, 0.2, 0.3), strict=True)
    hosts = [site.add(rules.format(delay), name=name) for name, delay in delays]
    urls = [host.url("/") for host in hosts]
    settings = {"DOWNLOAD_DELAY": 0.1, "RANDOMIZE_DOWNLOAD_DELAY": False}
    result = run_crawl(urls, settings=settings, names=names)
    (line,) = result.lines("INFO", "between requests, and the crawl keeps to it")
    assert hosts[0].origin not in line
    assert "asks for 0." in line


@pytest.mark.newest
@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"ADDONS": {}}, "ADDONS"),
        ({"REP_DRY_RUN": True}, "a dry run (REP_DRY_RUN)"),
        ({"REP_BACKOFF_MAX": 0}, "REP_BACKOFF_MAX is 0"),
        ({"ROBOTSTXT_OBEY": False}, ""),
        ({}, ""),
    ],
    ids=["without the add-on", "in a dry run", "off", "not obeying", "obeying"],
)
def test_back_off_warns_if_it_cannot_pause_the_host(
    site: Site, settings: dict[str, Any], reason: str
) -> None:
    """Only the first call warns, with the reason, and no log line says that there is a pause."""
    host = site.add()
    spider = f"{__name__}.PausingSpider"
    settings = {"REP_BACKOFF_MAX": 60, "REP_WAIT_TIMEOUT": 60, **settings}
    result = run_crawl([host.url("/0")], spider=spider, settings=settings)
    assert host.pages == ["/0", "/1"]
    assert len(result.lines("INFO", "gets no request for")) == (not reason)
    assert result.stats.get("rep/backoff/pauses", 0) > 0 or reason
    lines = result.lines("WARNING", "back_off() pauses nothing in this crawl", reason)
    assert len(lines) == len(result.lines("WARNING", "back_off()")) == bool(reason)
    assert (host.gaps[-1] > 1 - EARLY) is not bool(reason)


@pytest.mark.newest
def test_the_log_names_hosts_whose_requests_waited_long(site: Site) -> None:
    """At the end, the log names the hosts whose requests waited for the Crawl-delay for a second or more. Time
    in which the requests also waited for a delay of the project or for a pause does not count.
    Refused requests do not count either.
    """
    rules = "User-agent: *\nDisallow: /private\nCrawl-delay: {}\n"
    delays = {"slow": 0.6, "slower": 1.5, "paced": 0.3, "busy": 0.2, "refused": 1.2}
    names = {name: f"127.0.0.{number}" for number, name in enumerate(delays, 21)}
    hosts = {
        name: site.add(rules.format(delay), name=names[name])
        for name, delay in delays.items()
    }
    limit(hosts["busy"], 1, busy(429, "2"), seconds=0)
    urls = [
        url
        for name, host in hosts.items()
        for url in pages(host, 3, "private" if name == "refused" else "page")
    ]
    unrandomized = {"randomize_delay": False}
    settings = {
        "REP_BACKOFF_MAX": 60,
        "REP_WAIT_TIMEOUT": 60,
        "RETRY_ENABLED": True,
        "DOWNLOAD_SLOTS": {
            names["paced"]: {"delay": 0.6, **unrandomized},
            names["slower"]: {"delay": 0.5, **unrandomized},
        },
    }
    result = run_crawl(urls, settings=settings)
    assert len(result.responses) == 12
    lines = "\n".join(result.lines("INFO", "waited only for its crawl delay"))
    waits = re.findall(r"For ([\d:]+), requests to (\S+) waited only", lines)
    times = {host: time for time, host in waits}
    assert times.keys() == {names["slow"], names["slower"]}
    assert times[names["slow"]] == "0:00:02"
    assert times[names["slower"]] in {"0:00:03", "0:00:04"}
    # The stat is the sum for all hosts, including hosts that the log does not name.
    assert 4.7 < result.stats["rep/crawl_delay/waited"] < 7


SCRAPY = "Scrapy/2.19.0 (+https://scrapy.org)"
CRAWLERS = "User-agent: GPTBot\nUser-agent: Scrapy\nDisallow: /\n\n"


@pytest.mark.newest
@pytest.mark.parametrize("is_dry", [False, True])
@pytest.mark.parametrize(
    ("rules", "agent", "is_nameless"),
    [
        (CRAWLERS, SCRAPY, True),
        ("User-agent: *\nDisallow: /\n", SCRAPY, False),
        (f"{CRAWLERS}User-agent: Scrapy\nUser-agent: testbot\nDisallow: /\n", "testbot", False),
    ],
)  # fmt: skip
def test_a_refusal_by_a_group_for_scrapy_recommends_to_set_user_agent(
    site: Site, mode: str, *, rules: str, agent: str, is_nameless: bool, is_dry: bool
) -> None:
    """The group is for all crawlers that keep Scrapy's default User-Agent. The first refusal is logged as a
    warning, even if the request is no start request. The warning and the summary say that the crawler needs
    its own name.
    """
    open_host, host = site.add(), site.add(rules, name="127.0.0.2")
    second_step = [host.url("/1"), host.url("/2")]
    settings = {"USER_AGENT": agent, "REP_DRY_RUN": is_dry}
    result = run_crawl(
        [open_host.url("/")], then=second_step, settings=settings, mode=mode
    )
    assert host.pages == (["/1", "/2"] if is_dry else [])
    verb = "would be refused" if is_dry else "is refused"
    lines = result.lines("WARNING", f"A request {verb}, because robots.txt disallows;")
    assert len(lines) == is_nameless
    lines += result.lines("INFO", "Requests ", "refused: 2")
    for line in lines:
        assert ("set USER_AGENT" in line) is is_nameless
        assert ("REP_OVERRIDES" in line) is not is_nameless
    assert len(lines) == 1 + is_nameless


@pytest.mark.newest
def test_a_refusal_names_the_user_agent_line_of_its_group(site: Site) -> None:
    """The log line has the user-agent line by which the group applies to the crawler. Long user-agent lines
    are cut.
    """
    host = site.add(f"{CRAWLERS}User-agent: *\nCrawl-delay: 999\n")
    groups = {
        SCRAPY: "line 3 (disallow: /), in the group of line 2 (user-agent: Scrapy): <GET",
        "testbot": "line 6 (crawl-delay: 999), in the group of line 5 (user-agent: *): robots.txt",
    }
    for agent, words in groups.items():
        result = run_crawl([host.url("/1")], settings={"USER_AGENT": agent})
        assert len(result.lines("DEBUG", "Refused by", words)) == 1
    override = {
        "127.0.0.1": f"User-agent: {'a' * 1000}\nUser-agent: mybot\nDisallow: /"
    }
    settings = {"REP_OVERRIDES": override, "USER_AGENT": "a" * 1000}
    (line,) = run_crawl([host.url("/1")], settings=settings).lines(
        "DEBUG", "Refused by"
    )
    assert "in the group of line 1 (user-agent: aaa" in line
    assert len(line) < 600


@pytest.mark.newest
def test_robotstxt_with_401_or_403_allows_everything_and_is_counted(site: Site) -> None:
    """The log has a line about the first robots.txt with such a status, and at the end the number of these files."""
    hosts = [
        site.add(Answer(status=status), name=f"h{status}.test")
        for status in (401, 403, 404)
    ]
    names = {host.name: ["127.0.0.1"] for host in hosts}
    result = run_crawl([host.url("/") for host in hosts], names=names)
    assert [host.pages for host in hosts] == [["/"]] * 3
    assert len(result.lines("INFO", "no robots.txt (status 40", "is allowed")) == 1
    assert len(result.lines("INFO", "answered with 401 or 403: 2.")) == 1
