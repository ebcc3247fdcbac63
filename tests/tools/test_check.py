"""``scrapy rep check``: with a robots.txt file, where nothing is fetched, and on live servers.

``docs/commands.md`` has the text of a verdict; ``test_docs.py`` compares it.
"""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from scrapy.settings import default_settings

from scrapy_rep.base.settings import ADDON, GATE
from scrapy_rep.protocol.crawlers import CRAWLERS
from scrapy_rep.protocol.usage.statements import CATEGORIES
from tests.crawl.answers import Answer, redirect
from tests.tools.rep import ROBOTS, ROOT, Rep, scrapy_rep

if TYPE_CHECKING:
    from tests.crawl.server import Site

BASKET = "https://shop.example/basket/1"
TEA = "https://shop.example/tea"
FILE = ("--robots", "robots.txt")
COMMENTS = "# A comment.\n" * 8


def shown_lines(rep: Rep, robots: str, *options: str) -> list[int]:
    """The numbers of the lines of *robots* that the text shows for a denied URL."""
    Path("robots.txt").write_text(robots)
    out = rep("check", BASKET, *FILE, *options).out
    return [
        int(number) for number in re.findall(r"^ {1,4}(\d+)  \S", out, re.MULTILINE)
    ]


def test_the_excerpt_shows_the_user_agent_line_of_the_group(rep: Rep) -> None:
    """The excerpt shows by which user-agent line the group is the crawler's, wherever that is, and
    the other user-agent lines that share its rules.
    """
    rules = "Disallow: /a\n" * 20 + "Disallow: /basket/\n"
    shared = f"User-agent: mybot\nCrawl-delay: 10\n\nUser-agent: otherbot\n{rules}"
    assert shown_lines(rep, shared) == [1, 4, 23, 24, 25]
    assert shown_lines(rep, f"User-agent: *\n{rules}") == [1, 20, 21, 22]
    prefix = "User-agent: my\n" + rules
    assert shown_lines(rep, prefix, "--dialect", "classic") == [1, 20, 21, 22]
    delay = "User-agent: mybot\n" + COMMENTS + "Crawl-delay: 999"
    assert shown_lines(rep, delay) == [1, 8, 9, 10]


def test_of_a_long_list_of_crawlers_the_matching_one_is_shown(rep: Rep) -> None:
    """Of a long list of crawlers, the one that matches is shown, and those nearest to the rule."""
    names = [f"bot-{letter}" for letter in "abcdefghijklmnopqrst"]
    lines = [f"User-agent: {name}\n" for name in ["mybot", *names]]
    shown = shown_lines(rep, "".join(lines) + COMMENTS + "Disallow: /\n")
    assert shown == [1, *range(13, 22), 28, 29, 30]


def test_json_has_all_details_of_a_decision(rep: Rep) -> None:
    """JSON output has all details of a decision, also those that the text shows shortly: rates,
    and sitemaps.
    """
    record = rep.record("check", BASKET, *FILE)
    line = {"line": 5, "text": "Disallow: /basket/  # no robots"}
    assert record["context"][3] == line
    assert record["rule"] == {"kind": "disallow", "pattern": "/basket/", "line": 5}
    assert record["access"] == {
        "outcome": "file", "status": None, "redirects": [], "error": "", "html": False,
        "fetched": None, "why": "a file",
    }  # fmt: skip
    assert record["usage"] == {
        "purposes": {key: {"allowed": None, "because": None, "why": ""} for key in CATEGORIES},
        "statements": [], "licenses": [], "denied": False,
    }  # fmt: skip
    rest = {
        "url": BASKET, "agents": ["mybot"], "agents_named": True, "dialect": "rfc9309",
        "allowed": False, "reason": "rule", "agent": "mybot", "form": None,
        "why": "line 5, Disallow: /basket/", "robotstxt": "robots.txt", "crawl_delay": 2.0,
        "request_rate": None,
        "sitemaps": ["https://shop.example/sitemap.xml"],
    }  # fmt: skip
    assert {key: record[key] for key in rest} == rest
    sitemaps = "".join(f"Sitemap: https://a.example/{n}.xml\n" for n in range(8))
    rates = "User-agent: *\nRequest-rate: 1/5\n"
    Path("robots.txt").write_text(rates + sitemaps)
    out = rep("check", BASKET, *FILE).out
    assert "  request rate: 1/5s\n" in out
    assert "https://a.example/4.xml and 3 more\n" in out


SLOW = "User-agent: *\nDisallow: /a\nCrawl-delay: 200\n"
TOO_SLOW = (
    "line 3, Crawl-delay: 200 (robots.txt sets a longer delay than the crawl accepts; "
    "REP_SKIP_DELAY_OVER is 180)"
)
AIOHTTP = {"https": "scrapy.core.downloader.handlers._aiohttp.AiohttpDownloadHandler"}
DECODED = "User-agent: *\nDisallow: /a&b\n"
ORDER = "User-agent: *\nDisallow: /a\nAllow: /a/b\n"


VERDICTS: dict[str, tuple[str, str, dict[str, Any], dict[str, Any]]] = {
    "a URL that no rule matches": (ROBOTS, "/tea", {}, {"allowed": True, "why": "no rule matches"}),
    "a URL with a form that is denied":
        (ROBOTS, "/tea/../basket/1", {}, {"allowed": False, "form": BASKET}),
    "a URL as it is sent": (DECODED, "/a%26b", {}, {"allowed": True}),
    "a URL that aiohttp decodes":
        (DECODED, "/a%26b", {"DOWNLOAD_HANDLERS": AIOHTTP}, {"allowed": False}),
    "the dialect of an option":
        (ORDER, "/a/b --dialect=classic", {"REP_DIALECT": "google"}, {"allowed": False, "dialect": "classic"}),
    "the dialect of the settings":
        (ORDER, "/a/b", {"REP_DIALECT": "google"}, {"allowed": True, "dialect": "google"}),
    "a dialect by its path":
        (ORDER, "/a/b --dialect=scrapy_rep.protocol.dialect.CLASSIC", {}, {"allowed": False}),
    "a file goes before overrides":
        (ROBOTS, "/basket/1", {"REP_OVERRIDES": {"shop.example": "ignore"}}, {"allowed": False}),
    "a delay over REP_SKIP_DELAY_OVER": (
        SLOW, "/b", {}, {"allowed": False, "reason": "crawl-delay", "why": TOO_SLOW,
                  "rule": {"kind": "crawl-delay", "pattern": "200", "line": 3}},
    ),
    "a rule before a delay": (SLOW, "/a", {}, {"why": "line 2, Disallow: /a"}),
    "robots.txt of a slow host": (SLOW, "/robots.txt", {}, {"allowed": True}),
    "a delay that is not over REP_SKIP_DELAY_OVER":
        (SLOW, "/b", {"REP_SKIP_DELAY_OVER": 200}, {"allowed": True}),
    "a delay that a crawl ignores": (SLOW, "/b", {"REP_CRAWL_DELAY_OBEY": False}, {"allowed": True}),
    "a delay that a dialect does not have": (SLOW, "/b --dialect=google", {}, {"allowed": True}),
    "a rate over REP_SKIP_DELAY_OVER at some time of day":
        ("User-agent: *\nRequest-rate: 1/10m 0100-0200\n", "/b", {}, {"allowed": False, "reason": "crawl-delay"}),
    "an agent": (ROBOTS, "/tea --agent=otherbot", {}, {"agent": "otherbot"}),
    "the first agent that has a group":
        (ROBOTS, "/tea --agent=nobot, mybot, *", {}, {"agent": "mybot"}),
    "an option for each agent":
        (ROBOTS, "/tea --agent=nobot --agent=mybot", {}, {"agent": "mybot"}),
    "a comma at the end": (ROBOTS, "/tea --agent=mybot,", {}, {"agent": "mybot"}),
    "an agent without a group": (ROBOTS, "/tea --agent=nobot", {}, {"agent": "*"}),
    "everyone": (ROBOTS, "/tea --agent=*", {"USER_AGENT": None}, {"agents": ["*"]}),
    "a crawler with the name of Scrapy":
        (ROBOTS, "/tea --agent=Scrapy", {"USER_AGENT": None}, {"agents": ["Scrapy"]}),
    "a User-Agent header":
        (ROBOTS, "/tea --agent=Mozilla/5.0 (X11, Linux; compatible; mybot/1.0)", {}, {"agents": ["mybot"]}),
    "ROBOTSTXT_USER_AGENT":
        (ROBOTS, "/tea", {"ROBOTSTXT_USER_AGENT": ["mybot-news", "mybot"]}, {"agents": ["mybot-news", "mybot"]}),
    "ROBOTSTXT_USER_AGENT alone":
        (ROBOTS, "/tea", {"USER_AGENT": None, "ROBOTSTXT_USER_AGENT": "mybot"}, {"agents": ["mybot"]}),
    "DEFAULT_REQUEST_HEADERS":
        (ROBOTS, "/tea", {"DEFAULT_REQUEST_HEADERS": {"user-agent": b"otherbot"}}, {"agents": ["otherbot"]}),
}  # fmt: skip


@pytest.mark.parametrize("name", VERDICTS)
def test_the_verdict_is_that_of_a_crawl_with_these_options(rep: Rep, name: str) -> None:
    """The verdict is that of a crawl with these options and settings at this time. Since one of
    them names the crawler, nothing is said about its name.
    """
    robots, asked, settings, expected = VERDICTS[name]
    Path("robots.txt").write_text(robots)
    path, *options = re.split(" (?=--)", asked)
    arguments = ("check", f"https://shop.example{path}", *FILE, *options)
    record = rep.record(*arguments, **settings)
    assert expected.items() <= record.items()
    assert record["agents_named"]
    ended = rep(*arguments, **settings)
    assert (ended.status, ended.err) == (0 if record["allowed"] else 1, "")


def test_without_a_name_the_rules_for_everyone_apply_with_a_note(rep: Rep) -> None:
    """If no setting names a crawler, the rules for everyone apply, and the output says so. With
    ROBOTSTXT_OBEY = False in the settings, the verdict is that of robots.txt, and a note says that
    a crawl fetches the URL all the same.
    """
    ended = rep("check", BASKET, *FILE, "--brief", USER_AGENT="Mozilla/5.0")
    assert ended.out == f"denied\t{BASKET}\tline 10, Disallow: /\n"
    assert "this command follows the rules for everyone" in ended.err
    off = rep("check", BASKET, *FILE, ROBOTSTXT_OBEY=False)
    assert off.status == 1
    assert "ROBOTSTXT_OBEY is False in the settings" in off.err
    assert not rep("check", BASKET, *FILE, ROBOTSTXT_OBEY=True).err


NO_ADDON = {"ADDONS": {"scrapy_rep.Addon": None}}
PARSER = {"ROBOTSTXT_PARSER": "scrapy_rep.RobotParser"}
OURS = {"DOWNLOADER_MIDDLEWARES": {GATE: 595}}


@pytest.mark.parametrize(
    ("settings", "ignored"),
    [
        ({"REP_DIALECT": "google"}, ""),
        (NO_ADDON, ""),
        ({"REP_DIALECT": "google", "REP_STORE": "memory://", **NO_ADDON}, "REP_DIALECT, REP_STORE"),
        ({"REP_DIALECT": "google", "ADDONS": {}}, "REP_DIALECT"),
        ({"REP_DIALECT": "google", "REP_MAX_AGE": 9, **PARSER, **NO_ADDON}, "REP_MAX_AGE"),
        ({"REP_DIALECT": "google", **PARSER, **NO_ADDON}, ""),
        ({"REP_DIALECT": "google", **OURS, **NO_ADDON}, ""),
        ({"REP_DIALECT": "google", "ADDONS": {"no.such.Addon": 1}}, ""),
        ({"REP_DIALECT": "google", "ADDONS": {"tests.crawl.component_spiders.QueueAddon": 1}}, "REP_DIALECT"),
    ],
)  # fmt: skip
def test_settings_that_need_the_addon_are_named(
    rep: Rep, settings: dict[str, Any], ignored: str
) -> None:
    """Settings of this package that a crawl of the project ignores, because the add-on is missing,
    are named on standard error, with what to write.
    """
    err = rep("check", TEA, *FILE, **settings).err
    words = f"scrapy rep: a crawl ignores {ignored}, because ADDONS does not contain scrapy_rep.Addon; "
    assert err == (f"{words}add ADDONS = {ADDON} to the settings\n" if ignored else "")
    assert rep("check", TEA, *FILE, "-s", "REP_DIALECT=google", **NO_ADDON).err == ""


def test_dialects_shows_the_decision_of_each(rep: Rep) -> None:
    """``--dialects`` shows the decisions of all dialects, also by a delay that one of them does
    not have, and whether they agree.
    """
    Path("robots.txt").write_text(ORDER)
    url = "http://shop.example/a/b"
    ended = rep("check", url, *FILE, "--dialects")
    assert ended.status == 0
    assert "  rfc9309                allowed  line 3, Allow: /a/b\n" in ended.out
    assert "  classic                denied   line 2, Disallow: /a\n" in ended.out
    assert rep.record("check", url, *FILE, "--dialects")["agree"] is False
    assert rep.record("check", TEA, *FILE, "--dialects")["agree"] is True
    Path("robots.txt").write_text("User-agent: *\nRequest-rate: 1/10m\n")
    decisions = rep.record("check", TEA, *FILE, "--dialects")["dialects"]
    assert {name: decision["reason"] for name, decision in decisions.items()} == {
        "rfc9309": "crawl-delay", "google": "no-rule", "classic": "crawl-delay"
    }  # fmt: skip


def test_of_several_urls_the_worst_sets_the_exit_status(rep: Rep) -> None:
    """URLs are arguments, or lines of standard input, without blank ones. One that is denied makes
    the exit status 1, and one that is no URL makes it 2; the others are judged all the same.
    """
    bad = b"shop.example\n  \n\xff\xfe\nhttp://a.example/" + b"a" * 300_000 + b"\n"
    ended = rep("check", "-", *FILE, "--brief", stdin=bad + BASKET.encode())
    assert ended.status == 2
    assert ended.out.endswith(f"denied\t{BASKET}\tline 5, Disallow: /basket/\n")
    assert "http://a.example/" not in ended.out, "only a part of the line was read"
    for message in (
        "line 1: 'shop.example' is not an http, https or ftp URL",
        "line 3: ",
        "line 4: the line is longer than 262,144 bytes, so it is not a URL",
    ):
        assert message in ended.err
    ended = rep("check", TEA, "http://[", BASKET, *FILE, "--brief")
    assert ended.status == 2
    assert [line.split("\t")[1] for line in ended.out.splitlines()] == [TEA, BASKET]
    assert "argument 2: 'http://[' is not an http, https or ftp URL" in ended.err
    assert rep("check", TEA, BASKET, *FILE).status == 1


def test_a_long_list_is_judged_in_order_and_summed_up(rep: Rep) -> None:
    """For a list beyond the limits of concurrency and batch size, the output is in order. A line
    on standard error counts the allowed URLs, and those that the crawl may not use.
    """
    rules = "User-agent: *\nContent-Usage: train-ai=n\nDisallow: /0\nDisallow: /1"
    Path("robots.txt").write_text(rules)
    urls = [f"https://h{n % 300}.example/{n % 3}/{n}" for n in range(2_100)]
    denied = "; 700 of the allowed URLs must not be used for a purpose of the crawl"
    for purpose, bad, words in (
        ("search", [], ""),
        ("train-ai", ["nothing"], f"{denied}; lines that are not URLs: 1"),
    ):
        asked = ("check", "-", *FILE, "--brief", "--purpose", purpose)
        ended = rep(*asked, stdin="\n".join([*urls, *bad]))
        assert [line.split("\t")[1] for line in ended.out.splitlines()] == urls
        counts = f"2,100 URLs: 700 allowed, 1,400 denied{words}"
        assert ended.err.endswith(f"scrapy rep: {counts}\n")


def test_what_a_site_wrote_is_shown_visibly(rep: Rep) -> None:
    """Escape sequences and bidi controls of a robots.txt or a URL are shown as escapes."""
    evil = "\x1bcowned\x07\u202e\x9b2J"
    Path("robots.txt").write_bytes(
        f"User-agent: *\nDisallow: /{evil}\nSitemap: http://a.example/{evil}\n".encode()
    )
    for options in ([], ["--brief"], ["--dialects"], ["--json"]):
        ended = rep("check", f"http://a.example/{evil}", *FILE, *options)
        assert ended.status == 1
        # Only line ends, and the tabs between cells.
        assert ended.out.replace("\n", "").replace("\t", "").isprintable()
    assert json.loads(ended.out)["rule"]["pattern"] == f"/{evil}"
    assert rep("check", evil).err.replace("\n", "").isprintable()


USAGE = """\
Content-Signal: ai-input=no
License: https://shop.example/license.xml
User-agent: mybot
Content-Usage: train-ai=n
Content-Usage: /tea train-ai=y, search=y
Content-Signal: /tea ai-train=no
"""


def test_each_purpose_is_shown_with_its_statement(rep: Rep) -> None:
    """Each purpose is shown with its statement; requested purposes set the exit status."""
    Path("robots.txt").write_text(USAGE)
    ended = rep("check", TEA, *FILE)
    assert ended.status == 0
    start = ended.out.index("  for train-ai")
    assert ended.out[start:] == (
        "  for train-ai: disallowed by Content-Signal: /tea ai-train=no (robots.txt, line 6)\n"
        "  for ai-use: disallowed by Content-Signal: ai-input=no (robots.txt, line 1)\n"
        "  for search: allowed by Content-Usage: /tea train-ai=y, search=y (robots.txt, line 5)\n"
        "  licences and policies: https://shop.example/license.xml\n"
        "\n"
    )
    for purposes, settings, status in (
        ("search", {}, 0),
        ("search,ai-use", {}, 1),
        ("tdm", {}, 0),
        ("tdm", {"REP_USAGE_UNKNOWN": "deny"}, 1),
    ):
        asked = ("check", TEA, *FILE, "--purpose", purposes)
        assert rep(*asked, **settings).status == status


AI = """\
User-agent: GPTBot
Disallow: /

User-agent: Googlebot
Disallow: /t
Allow: /t*.html

User-agent: *
Crawl-delay: 900
"""


def test_each_known_crawler_is_judged_by_its_own_group(rep: Rep) -> None:
    """Each known crawler is judged by its own group, as its operator says, and is shown with
    verdict, line and reason. The exit status is that of our own crawler.
    """
    Path("robots.txt").write_text(AI)
    asked = ("check", f"{TEA}.html", *FILE, "--agents")
    record = rep.record(*asked, REP_SKIP_DELAY_OVER=1000)
    assert record["allowed"]
    crawlers = {record["token"]: record for record in record["crawlers"]}
    assert list(crawlers) == [crawler.token for crawler in CRAWLERS.values()]
    gptbot = crawlers["GPTBot"]
    assert (gptbot["allowed"], gptbot["rule"]["line"]) == (False, 2)
    assert crawlers["Googlebot"]["rule"]["line"] == 6
    assert crawlers["Googlebot"]["dialect"] == "google"
    assert crawlers["Applebot"]["agent"] == "Googlebot", "it has no group of its own"
    assert crawlers["CCBot"]["agent"] == "*"
    assert rep(*asked).status == 1, "a delay of 900 s is too long for our crawler"
    brief = rep("check", TEA, *FILE, "--agents", "--brief").out
    assert f"\ndenied\t{TEA}\tline 2, Disallow: /\tGPTBot\n" in brief


# Live servers, and projects.


@pytest.mark.parametrize(
    "mode",
    [
        pytest.param((), id="asyncio"),
        pytest.param(("-s", "TWISTED_REACTOR="), id="select"),
        pytest.param(
            ("-s", "TWISTED_REACTOR_ENABLED=False"),
            id="reactorless",
            marks=pytest.mark.skipif(
                not hasattr(default_settings, "TWISTED_REACTOR_ENABLED"),
                reason="This Scrapy needs a Twisted reactor",
            ),
        ),
    ],
)
def test_each_live_robotstxt_is_fetched_once(
    site: Site, tmp_path: Path, mode: tuple[str, ...]
) -> None:
    """Each robots.txt is fetched once, with the User-Agent of the settings, in any mode of Scrapy;
    the result includes the outcome. One that is compressed without its end is unreachable.
    """
    shop = site.add(ROBOTS)
    cut = gzip.compress(b"User-agent: *\nDisallow: /a\n")[:-9]
    hosts = [
        shop,
        shop,
        site.add(redirect(shop.robotstxt)),
        site.add(),
        site.add(Answer(status=503)),
        site.add(Answer(b"<!doctype html>", headers={"Content-Type": "text/html"})),
        site.add(Answer(cut, headers={"Content-Encoding": "gzip"})),
    ]
    urls = [host.url(f"/basket/{number}") for number, host in enumerate(hosts)]
    ended = scrapy_rep(
        "check", "-", "--agent", "mybot", "--json", *mode, "-s", "USER_AGENT=mybot/2.0",
        stdin="\n".join(urls), cwd=tmp_path,
    )  # fmt: skip
    assert ended.status == 1
    # Scrapy warns of features that need a reactor.
    lines = [line for line in ended.err.splitlines() if "experimental" not in line]
    assert lines == ["scrapy rep: 7 URLs: 2 allowed, 3 denied, 2 unknown"]
    records = ended.records("check")
    assert [record["url"] for record in records] == urls
    assert [(record["access"]["outcome"], record["allowed"]) for record in records] == [
        *[("successful", False)] * 3, ("unavailable", True), ("unreachable", None),
        ("successful", True), ("unreachable", None),
    ]  # fmt: skip
    assert records[2]["access"]["redirects"] == [shop.robotstxt]
    assert records[4]["access"]["status"] == 503
    assert records[5]["access"]["html"] is True
    assert records[5]["access"]["why"] == (
        "successful (status 200), but the response is an HTML page, such as the challenge of a bot wall, "
        "and not a robots.txt; only lines in the form of rules count"
    )
    assert "ends early, is damaged" in records[6]["access"]["why"]
    assert [len(host.robots_hits) for host in hosts[:6]] == [2, 2, 1, 1, 1, 1]
    assert not any(host.pages for host in hosts)
    assert {hit.headers["User-Agent"] for hit in site.log} == {"mybot/2.0"}


def test_without_an_answer_the_status_is_3(site: Site, tmp_path: Path) -> None:
    """What a crawl may fetch of a host that does not resolve, refuses connections or answers with an
    error of the server is unknown, with the exit status 3; in a list, a denied URL goes first.
    """
    refused, down = site.refusing(), site.add(Answer(status=503))
    closed = site.add("User-agent: *\nDisallow: /")
    resolver = 'DOWNLOADER_MIDDLEWARES={"tests.crawl.names.KnowsNoName": 1}'
    asked = ("check", "-", "--agent", "mybot", "-s", resolver, "-s", "RETRY_TIMES=0")
    unknown = ["http://nowhere.test/", refused.url("/"), down.url("/")]
    ended = scrapy_rep(*asked, "--brief", stdin="\n".join(unknown), cwd=tmp_path)
    assert ended.status == 3
    assert ended.out == "".join(
        f"unknown\t{url}\trobots.txt is unreachable\n" for url in unknown
    )
    assert ended.err == "scrapy rep: 3 URLs: 0 allowed, 0 denied, 3 unknown\n"
    more = ("--dialects", "--agents", "--json")
    urls = "\n".join([*unknown, closed.url("/")])
    ended = scrapy_rep(*asked, *more, stdin=urls, cwd=tmp_path)
    assert ended.status == 1
    for record, allowed in zip(
        ended.records("check"), (None, None, None, False), strict=True
    ):
        others = [*record["dialects"].values(), *record["crawlers"]]
        assert {verdict["allowed"] for verdict in (record, *others)} == {allowed}
    ended = scrapy_rep(*asked[:1], unknown[0], *asked[2:], "--dialects", cwd=tmp_path)
    assert ended.status == 3
    assert ended.out.startswith(f"unknown  {unknown[0]}\n  robots.txt is unreachable\n")
    assert "the host name could not be resolved" in ended.out
    assert "denied" not in ended.out


def test_the_text_says_how_the_fetch_ended(site: Site, tmp_path: Path) -> None:
    """The text output says how the fetch of robots.txt ended, for each dialect if requested. A crawl
    that cannot start is reported as an error, not as a denial.
    """
    closed = site.add(Answer(status=403))
    moved = site.add(redirect(closed.robotstxt))
    ended = scrapy_rep("check", moved.url("/"), "--dialects", cwd=tmp_path)
    assert ended.status == 0
    assert ended.out == (
        f"allowed  {moved.url('/')}\n"
        "  robots.txt does not exist, or access to it is denied\n"
        f"  robots.txt: {moved.robotstxt}, no robots.txt (status 403), redirected to "
        f"{closed.robotstxt}\n"
        "  rfc9309                allowed  robots.txt does not exist, or access to it is denied\n"
        "  google                 allowed  robots.txt does not exist, or access to it is denied\n"
        "  classic                denied   robots.txt does not exist, or access to it is denied\n"
        "\n"
    )
    broken = 'DOWNLOADER_MIDDLEWARES={"no.such.Middleware": 1}'
    ended = scrapy_rep("check", moved.url("/"), "-s", broken, cwd=tmp_path)
    assert ended.status == 2
    assert "Scrapy could not start a crawl with these settings" in ended.err


def test_a_project_lends_its_settings_and_nothing_is_written(
    site: Site, tmp_path: Path
) -> None:
    """In a project, requests use its settings, but no ledger, feed, job or log is written."""
    shop = site.add(ROBOTS.replace("otherbot", "demobot"))
    files = [tmp_path / name for name in ("ledger", "feed.json", "job", "store")]
    ended = scrapy_rep(
        "check", shop.url("/basket/1"), "--brief", "-s", "LOG_STDOUT=True",
        "-s", f"REP_LEDGER={files[0]}", "-s", f'FEEDS={{"{files[1]}": {{}}}}',
        "-s", f"JOBDIR={files[2]}", "-s", f"REP_STORE=sqlite:///{files[3]}", "-s", "CLOSESPIDER_TIMEOUT=0.001",
        # The middlewares of the project would send the requests to its offline site.
        "-s", "DOWNLOADER_MIDDLEWARES={}", cwd=ROOT / "example_project",
    )  # fmt: skip
    assert ended.out.startswith(f"denied\t{shop.url('/basket/1')}\tline 5, ")
    assert ended.status == 1
    assert "demobot" in shop.robots_hits[0].headers["User-Agent"]
    assert not any(path.exists() for path in files)


def test_overrides_decide_for_our_crawler_alone(site: Site, tmp_path: Path) -> None:
    """REP_OVERRIDES decide for our crawler alone, and the reason and the end of the one that decides
    are shown. The others are judged by the robots.txt of the site, which is fetched for them.
    """
    shop = site.add("User-agent: *\nDisallow: /")
    entry = '{"obey": false, "reason": "agreed", "until": "9000-01-01"}'
    asked = ("check", shop.url("/"), "-s", f'REP_OVERRIDES={{"127.0.0.1": {entry}}}')
    ended = scrapy_rep(*asked, cwd=tmp_path)
    assert ended.status == 0
    where = "REP_OVERRIDES['127.0.0.1'] (agreed; until 9000-01-01)"
    assert f"robots.txt: {where}, set in the settings" in ended.out
    assert not shop.robots_hits
    ended = scrapy_rep(*asked, "--agents", "--json", cwd=tmp_path)
    (record,) = ended.records("check")
    assert record["allowed"]
    assert not any(crawler["allowed"] for crawler in record["crawlers"])
    assert len(shop.robots_hits) == 1
    text = "User-agent: mybot\\nDisallow: /\\nNoindex: /a"
    asked = ("check", shop.url("/"), "-s", f'REP_OVERRIDES={{"127.0.0.1": "{text}"}}')
    ended = scrapy_rep(*asked, cwd=tmp_path)
    warning = (
        "REP_OVERRIDES['127.0.0.1'], line 3: crawlers of this dialect ignore the field"
    )
    assert warning in ended.err


SPIDERS = """\
import scrapy

class First(scrapy.Spider):
    name = "first"
    custom_settings = {
        "USER_AGENT": "otherbot/1.0",
        "REP_DIALECT": "google",
        "REP_OVERRIDES": {"open.example": "ignore"},
    }

class Second(scrapy.Spider):
    name = "second"
    user_agent = "secondbot/2.0"
"""


def test_spider_takes_the_settings_of_the_spider(tmp_path: Path) -> None:
    """With --spider, agents, dialect and overrides are those of its settings. Options go first;
    an unknown spider is wrong usage.
    """
    (tmp_path / "shop").mkdir()
    for name, text in {
        "scrapy.cfg": "[settings]\ndefault = shop.settings\n",
        "shop/__init__.py": "",
        "shop/settings.py": "SPIDER_MODULES = ['shop.spiders']",
        "shop/spiders.py": SPIDERS,
        "robots.txt": ROBOTS,
        "page.html": "<meta name=otherbot content=noindex>",
    }.items():
        (tmp_path / name).write_text(text)
    asked = ("check", BASKET, *FILE, "--json", "--spider")
    for options, agent, dialect, line in (
        (["first"], "otherbot", "google", 5),
        (["second"], "secondbot", "rfc9309", 10),
        (["first", "--agent", "*"], "*", "google", 10),
    ):
        (record,) = scrapy_rep(*asked, *options, cwd=tmp_path).records("check")
        assert (record["agents"], record["dialect"]) == ([agent], dialect)
        assert record["rule"]["line"] == line
    asked_open = ("check", "https://open.example/", "--json", "--spider", "first")
    (record,) = scrapy_rep(*asked_open, cwd=tmp_path).records("check")
    assert record["reason"] == "override"
    ended = scrapy_rep("page", "page.html", "--spider", "first", cwd=tmp_path)
    assert ended.out.startswith("noindex")
    ended = scrapy_rep(*asked, "third", cwd=tmp_path)
    assert (ended.status, ended.out) == (2, "")
    assert "Spider not found: third" in ended.err
