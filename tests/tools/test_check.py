"""Tests of ``scrapy rep check``, with robots.txt files and with live servers.

``docs/commands.md`` shows complete outputs. ``test_docs.py`` compares them with the real output.
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
ROBOTS_FILE = ("--robots", "robots.txt")
COMMENTS = "# A comment.\n" * 8


def shown_lines(rep: Rep, robots: str, *options: str) -> list[int]:
    """Return the numbers of the lines of *robots* that the command shows for a denied URL."""
    Path("robots.txt").write_text(robots)
    out = rep("check", BASKET, *ROBOTS_FILE, *options).out
    return [
        int(number) for number in re.findall(r"^ {1,4}(\d+)  \S", out, re.MULTILINE)
    ]


def test_the_excerpt_shows_the_user_agent_line_of_the_group(rep: Rep) -> None:
    """The excerpt has the user-agent line that matches the crawler, also far above the rule, and
    the other user-agent lines of the group.
    """
    rules = "Disallow: /a\n" * 20 + "Disallow: /basket/\n"
    shared = f"User-agent: mybot\nCrawl-delay: 10\n\nUser-agent: otherbot\n{rules}"
    assert shown_lines(rep, shared) == [1, 4, 23, 24, 25]
    assert shown_lines(rep, f"User-agent: *\n{rules}") == [1, 20, 21, 22]
    prefix = "User-agent: my\n" + rules
    assert shown_lines(rep, prefix, "--dialect", "classic") == [1, 20, 21, 22]
    delay = "User-agent: mybot\n" + COMMENTS + "Crawl-delay: 999"
    assert shown_lines(rep, delay) == [1, 8, 9, 10]


def test_the_excerpt_cuts_a_long_list_of_user_agent_lines(rep: Rep) -> None:
    """The excerpt keeps the user-agent line that matches, and those nearest to the rule."""
    names = [f"bot-{letter}" for letter in "abcdefghijklmnopqrst"]
    lines = [f"User-agent: {name}\n" for name in ["mybot", *names]]
    shown = shown_lines(rep, "".join(lines) + COMMENTS + "Disallow: /\n")
    assert shown == [1, *range(13, 22), 28, 29, 30]


def test_json_has_all_details_of_a_decision(rep: Rep) -> None:
    """JSON has every detail of a decision. The text shortens some of them: the request rate, and a
    long list of sitemaps.
    """
    record = rep.record("check", BASKET, *ROBOTS_FILE)
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
    expected = {
        "url": BASKET, "agents": ["mybot"], "agents_named": True, "dialect": "rfc9309",
        "allowed": False, "reason": "rule", "agent": "mybot", "form": None,
        "why": "line 5, Disallow: /basket/", "robotstxt": "robots.txt", "crawl_delay": 2.0,
        "request_rate": None,
        "sitemaps": ["https://shop.example/sitemap.xml"],
    }  # fmt: skip
    assert {key: record[key] for key in expected} == expected
    sitemaps = "".join(f"Sitemap: https://a.example/{n}.xml\n" for n in range(8))
    rates = "User-agent: *\nRequest-rate: 1/5\n"
    Path("robots.txt").write_text(rates + sitemaps)
    out = rep("check", BASKET, *ROBOTS_FILE).out
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
    "a URL in the form in which it is requested": (DECODED, "/a%26b", {}, {"allowed": True}),
    "a URL that aiohttp decodes before it is requested":
        (DECODED, "/a%26b", {"DOWNLOAD_HANDLERS": AIOHTTP}, {"allowed": False}),
    "a dialect in an option, before that of the settings":
        (ORDER, "/a/b --dialect=classic", {"REP_DIALECT": "google"}, {"allowed": False, "dialect": "classic"}),
    "a dialect in the settings":
        (ORDER, "/a/b", {"REP_DIALECT": "google"}, {"allowed": True, "dialect": "google"}),
    "a dialect by its import path":
        (ORDER, "/a/b --dialect=scrapy_rep.protocol.dialect.CLASSIC", {}, {"allowed": False}),
    "overrides have no effect on a file":
        (ROBOTS, "/basket/1", {"REP_OVERRIDES": {"shop.example": "ignore"}}, {"allowed": False}),
    "a delay over REP_SKIP_DELAY_OVER": (
        SLOW, "/b", {}, {"allowed": False, "reason": "crawl-delay", "why": TOO_SLOW,
                  "rule": {"kind": "crawl-delay", "pattern": "200", "line": 3}},
    ),
    "a rule has precedence over a delay": (SLOW, "/a", {}, {"why": "line 2, Disallow: /a"}),
    "robots.txt of a slow host": (SLOW, "/robots.txt", {}, {"allowed": True}),
    "a delay that is not over REP_SKIP_DELAY_OVER":
        (SLOW, "/b", {"REP_SKIP_DELAY_OVER": 200}, {"allowed": True}),
    "REP_CRAWL_DELAY_OBEY = False": (SLOW, "/b", {"REP_CRAWL_DELAY_OBEY": False}, {"allowed": True}),
    "a dialect without Crawl-delay": (SLOW, "/b --dialect=google", {}, {"allowed": True}),
    "a rate over REP_SKIP_DELAY_OVER at some time of day":
        ("User-agent: *\nRequest-rate: 1/10m 0100-0200\n", "/b", {}, {"allowed": False, "reason": "crawl-delay"}),
    "an agent": (ROBOTS, "/tea --agent=otherbot", {}, {"agent": "otherbot"}),
    "the first agent that has a group":
        (ROBOTS, "/tea --agent=nobot, mybot, *", {}, {"agent": "mybot"}),
    "several --agent options":
        (ROBOTS, "/tea --agent=nobot --agent=mybot", {}, {"agent": "mybot"}),
    "a list of agents that ends with a comma": (ROBOTS, "/tea --agent=mybot,", {}, {"agent": "mybot"}),
    "an agent without a group": (ROBOTS, "/tea --agent=nobot", {}, {"agent": "*"}),
    "the group for all crawlers": (ROBOTS, "/tea --agent=*", {"USER_AGENT": None}, {"agents": ["*"]}),
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
    """The verdict is that of a crawl with these options and settings. There is no note on standard
    error about an unnamed crawler, since the options or settings name it.
    """
    robots, path_and_options, settings, expected = VERDICTS[name]
    Path("robots.txt").write_text(robots)
    path, *options = re.split(" (?=--)", path_and_options)
    arguments = ("check", f"https://shop.example{path}", *ROBOTS_FILE, *options)
    record = rep.record(*arguments, **settings)
    assert expected.items() <= record.items()
    assert record["agents_named"]
    result = rep(*arguments, **settings)
    assert (result.status, result.err) == (0 if record["allowed"] else 1, "")


def test_notes_on_an_unnamed_crawler_and_on_robotstxt_obey(rep: Rep) -> None:
    """If no setting names the crawler, the rules for all crawlers apply, and a note says so. If
    ROBOTSTXT_OBEY is False in the settings, the verdict is still that of robots.txt, and a note
    says that a crawl would fetch the URL anyway.
    """
    result = rep("check", BASKET, *ROBOTS_FILE, "--brief", USER_AGENT="Mozilla/5.0")
    assert result.out == f"denied\t{BASKET}\tline 10, Disallow: /\n"
    assert "this command follows the rules for everyone" in result.err
    not_obeyed = rep("check", BASKET, *ROBOTS_FILE, ROBOTSTXT_OBEY=False)
    assert not_obeyed.status == 1
    assert "ROBOTSTXT_OBEY is False in the settings" in not_obeyed.err
    assert not rep("check", BASKET, *ROBOTS_FILE, ROBOTSTXT_OBEY=True).err


WITHOUT_ADDON = {"ADDONS": {"scrapy_rep.Addon": None}}
WITH_PARSER = {"ROBOTSTXT_PARSER": "scrapy_rep.RobotParser"}
WITH_MIDDLEWARE = {"DOWNLOADER_MIDDLEWARES": {GATE: 595}}


@pytest.mark.parametrize(
    ("settings", "ignored"),
    [
        ({"REP_DIALECT": "google"}, ""),
        (WITHOUT_ADDON, ""),
        ({"REP_DIALECT": "google", "REP_STORE": "memory://", **WITHOUT_ADDON}, "REP_DIALECT, REP_STORE"),
        ({"REP_DIALECT": "google", "ADDONS": {}}, "REP_DIALECT"),
        ({"REP_DIALECT": "google", "REP_MAX_AGE": 9, **WITH_PARSER, **WITHOUT_ADDON}, "REP_MAX_AGE"),
        ({"REP_DIALECT": "google", **WITH_PARSER, **WITHOUT_ADDON}, ""),
        ({"REP_DIALECT": "google", **WITH_MIDDLEWARE, **WITHOUT_ADDON}, ""),
        ({"REP_DIALECT": "google", "ADDONS": {"no.such.Addon": 1}}, ""),
        ({"REP_DIALECT": "google", "ADDONS": {"tests.crawl.component_spiders.QueueAddon": 1}}, "REP_DIALECT"),
    ],
)  # fmt: skip
def test_settings_that_have_no_effect_without_the_addon_are_named(
    rep: Rep, settings: dict[str, Any], ignored: str
) -> None:
    """A crawl ignores settings of this package if the project does not enable the add-on. A note
    names them, and the line that enables the add-on.
    """
    err = rep("check", TEA, *ROBOTS_FILE, **settings).err
    message = f"scrapy rep: a crawl ignores {ignored}, because ADDONS does not contain scrapy_rep.Addon; "
    assert err == (
        f"{message}add ADDONS = {ADDON} to the settings\n" if ignored else ""
    )
    assert (
        rep("check", TEA, *ROBOTS_FILE, "-s", "REP_DIALECT=google", **WITHOUT_ADDON).err
        == ""
    )


def test_dialects_shows_the_decision_of_each_dialect(rep: Rep) -> None:
    """``--dialects`` shows the decision of each dialect, and whether the dialects agree. If robots.txt asks for a very
    long delay, the URL is denied, except in Google's dialect, which ignores delays.
    """
    Path("robots.txt").write_text(ORDER)
    url = "http://shop.example/a/b"
    result = rep("check", url, *ROBOTS_FILE, "--dialects")
    assert result.status == 0
    assert "  rfc9309                allowed  line 3, Allow: /a/b\n" in result.out
    assert "  classic                denied   line 2, Disallow: /a\n" in result.out
    assert rep.record("check", url, *ROBOTS_FILE, "--dialects")["agree"] is False
    assert rep.record("check", TEA, *ROBOTS_FILE, "--dialects")["agree"] is True
    Path("robots.txt").write_text("User-agent: *\nRequest-rate: 1/10m\n")
    decisions = rep.record("check", TEA, *ROBOTS_FILE, "--dialects")["dialects"]
    assert {name: decision["reason"] for name, decision in decisions.items()} == {
        "rfc9309": "crawl-delay", "google": "no-rule", "classic": "crawl-delay"
    }  # fmt: skip


def test_the_worst_of_several_urls_sets_the_exit_status(rep: Rep) -> None:
    """URLs are arguments, or lines of standard input; blank lines are ignored. A denied URL sets
    the exit status to 1, and a line that is no URL sets it to 2. The other URLs are judged in each
    case.
    """
    invalid_lines = (
        b"shop.example\n  \n\xff\xfe\nhttp://a.example/" + b"a" * 300_000 + b"\n"
    )
    result = rep(
        "check", "-", *ROBOTS_FILE, "--brief", stdin=invalid_lines + BASKET.encode()
    )
    assert result.status == 2
    assert result.out.endswith(f"denied\t{BASKET}\tline 5, Disallow: /basket/\n")
    assert "http://a.example/" not in result.out, "only a part of the line was read"
    for message in (
        "line 1: 'shop.example' is not an http, https or ftp URL",
        "line 3: ",
        "line 4: the line is longer than 262,144 bytes, so it is not a URL",
    ):
        assert message in result.err
    result = rep("check", TEA, "http://[", BASKET, *ROBOTS_FILE, "--brief")
    assert result.status == 2
    assert [line.split("\t")[1] for line in result.out.splitlines()] == [TEA, BASKET]
    assert "argument 2: 'http://[' is not an http, https or ftp URL" in result.err
    assert rep("check", TEA, BASKET, *ROBOTS_FILE).status == 1


def test_a_long_list_is_judged_in_order_and_summed_up(rep: Rep) -> None:
    """The list is longer than the batches and the concurrency of the command. A summary on standard
    error counts the allowed URLs, those of them that the crawl must not use for its purpose, and
    the lines that are no URLs.
    """
    rules = "User-agent: *\nContent-Usage: train-ai=n\nDisallow: /0\nDisallow: /1"
    Path("robots.txt").write_text(rules)
    urls = [f"https://h{n % 300}.example/{n % 3}/{n}" for n in range(2_100)]
    unusable = "; 700 of the allowed URLs must not be used for a purpose of the crawl"
    for purpose, invalid_lines, rest_of_summary in (
        ("search", [], ""),
        ("train-ai", ["nothing"], f"{unusable}; lines that are not URLs: 1"),
    ):
        arguments = ("check", "-", *ROBOTS_FILE, "--brief", "--purpose", purpose)
        result = rep(*arguments, stdin="\n".join([*urls, *invalid_lines]))
        assert [line.split("\t")[1] for line in result.out.splitlines()] == urls
        counts = f"2,100 URLs: 700 allowed, 1,400 denied{rest_of_summary}"
        assert result.err.endswith(f"scrapy rep: {counts}\n")


def test_control_characters_of_a_site_are_shown_as_escapes(rep: Rep) -> None:
    """Escape sequences and bidi controls in a robots.txt or a URL could deceive the user or control
    the terminal.
    """
    hostile_text = "\x1bcowned\x07\u202e\x9b2J"
    Path("robots.txt").write_bytes(
        f"User-agent: *\nDisallow: /{hostile_text}\nSitemap: http://a.example/{hostile_text}\n".encode()
    )
    for options in ([], ["--brief"], ["--dialects"], ["--json"]):
        result = rep(
            "check", f"http://a.example/{hostile_text}", *ROBOTS_FILE, *options
        )
        assert result.status == 1
        # Line ends and the tabs between cells are the only control characters.
        assert result.out.replace("\n", "").replace("\t", "").isprintable()
    assert json.loads(result.out)["rule"]["pattern"] == f"/{hostile_text}"
    assert rep("check", hostile_text).err.replace("\n", "").isprintable()


USAGE = """\
Content-Signal: ai-input=no
License: https://shop.example/license.xml
User-agent: mybot
Content-Usage: train-ai=n
Content-Usage: /tea train-ai=y, search=y
Content-Signal: /tea ai-train=no
"""


def test_each_purpose_is_shown_with_its_statement(rep: Rep) -> None:
    """Each purpose is shown with the statement that decides. The purposes of ``--purpose`` also
    affect the exit status.
    """
    Path("robots.txt").write_text(USAGE)
    result = rep("check", TEA, *ROBOTS_FILE)
    assert result.status == 0
    start = result.out.index("  for train-ai")
    assert result.out[start:] == (
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
        arguments = ("check", TEA, *ROBOTS_FILE, "--purpose", purposes)
        assert rep(*arguments, **settings).status == status


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
    """``--agents`` judges each known crawler by its own group, in the dialect that its operator
    documents, and shows verdict, line and reason. The exit status is that of the project's crawler.
    """
    Path("robots.txt").write_text(AI)
    arguments = ("check", f"{TEA}.html", *ROBOTS_FILE, "--agents")
    record = rep.record(*arguments, REP_SKIP_DELAY_OVER=1000)
    assert record["allowed"]
    crawlers = {record["token"]: record for record in record["crawlers"]}
    assert list(crawlers) == [crawler.token for crawler in CRAWLERS.values()]
    gptbot = crawlers["GPTBot"]
    assert (gptbot["allowed"], gptbot["rule"]["line"]) == (False, 2)
    assert crawlers["Googlebot"]["rule"]["line"] == 6
    assert crawlers["Googlebot"]["dialect"] == "google"
    assert crawlers["Applebot"]["agent"] == "Googlebot", (
        "Applebot falls back to the group of Googlebot"
    )
    assert crawlers["CCBot"]["agent"] == "*"
    assert rep(*arguments).status == 1, (
        "the project's crawler does not accept a delay of 900 s"
    )
    brief = rep("check", TEA, *ROBOTS_FILE, "--agents", "--brief").out
    assert f"\ndenied\t{TEA}\tline 2, Disallow: /\tGPTBot\n" in brief


# Live servers and projects.


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
    """With each reactor mode of Scrapy, a robots.txt is fetched once, with the User-Agent of the
    settings, and the output has the result of the fetch. A robots.txt whose gzip data is cut is
    unreachable.
    """
    shop = site.add(ROBOTS)
    truncated_gzip = gzip.compress(b"User-agent: *\nDisallow: /a\n")[:-9]
    hosts = [
        shop,
        shop,
        site.add(redirect(shop.robotstxt)),
        site.add(),
        site.add(Answer(status=503)),
        site.add(Answer(b"<!doctype html>", headers={"Content-Type": "text/html"})),
        site.add(Answer(truncated_gzip, headers={"Content-Encoding": "gzip"})),
    ]
    urls = [host.url(f"/basket/{number}") for number, host in enumerate(hosts)]
    result = scrapy_rep(
        "check", "-", "--agent", "mybot", "--json", *mode, "-s", "USER_AGENT=mybot/2.0",
        stdin="\n".join(urls), cwd=tmp_path,
    )  # fmt: skip
    assert result.status == 1
    # Without a reactor, Scrapy warns that this mode is experimental.
    lines = [line for line in result.err.splitlines() if "experimental" not in line]
    assert lines == ["scrapy rep: 7 URLs: 2 allowed, 3 denied, 2 unknown"]
    records = result.records("check")
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


def test_unreachable_hosts_set_the_exit_status_to_3(site: Site, tmp_path: Path) -> None:
    """The verdict is unknown if the host name does not resolve, the connection is refused, or the
    server responds with an error. If another URL of the list is denied, the exit status is 1.
    """
    refused, down = site.refusing(), site.add(Answer(status=503))
    forbidding = site.add("User-agent: *\nDisallow: /")
    resolver = 'DOWNLOADER_MIDDLEWARES={"tests.crawl.names.KnowsNoName": 1}'
    arguments = (
        "check",
        "-",
        "--agent",
        "mybot",
        "-s",
        resolver,
        "-s",
        "RETRY_TIMES=0",
    )
    unknown = ["http://nowhere.test/", refused.url("/"), down.url("/")]
    result = scrapy_rep(*arguments, "--brief", stdin="\n".join(unknown), cwd=tmp_path)
    assert result.status == 3
    assert result.out == "".join(
        f"unknown\t{url}\trobots.txt is unreachable\n" for url in unknown
    )
    assert result.err == "scrapy rep: 3 URLs: 0 allowed, 0 denied, 3 unknown\n"
    options = ("--dialects", "--agents", "--json")
    urls = "\n".join([*unknown, forbidding.url("/")])
    result = scrapy_rep(*arguments, *options, stdin=urls, cwd=tmp_path)
    assert result.status == 1
    for record, allowed in zip(
        result.records("check"), (None, None, None, False), strict=True
    ):
        other_verdicts = [*record["dialects"].values(), *record["crawlers"]]
        assert {verdict["allowed"] for verdict in (record, *other_verdicts)} == {
            allowed
        }
    result = scrapy_rep(
        *arguments[:1], unknown[0], *arguments[2:], "--dialects", cwd=tmp_path
    )
    assert result.status == 3
    assert result.out.startswith(
        f"unknown  {unknown[0]}\n  robots.txt is unreachable\n"
    )
    assert "the host name could not be resolved" in result.out
    assert "denied" not in result.out


def test_the_text_says_how_the_fetch_ended(site: Site, tmp_path: Path) -> None:
    """The text shows the result of the fetch of robots.txt, and what it means in each dialect if
    ``--dialects`` is given. If the crawl cannot start, the command reports an error, not a denial.
    """
    denying = site.add(Answer(status=403))
    redirecting = site.add(redirect(denying.robotstxt))
    result = scrapy_rep("check", redirecting.url("/"), "--dialects", cwd=tmp_path)
    assert result.status == 0
    assert result.out == (
        f"allowed  {redirecting.url('/')}\n"
        "  robots.txt does not exist, or access to it is denied\n"
        f"  robots.txt: {redirecting.robotstxt}, no robots.txt (status 403), redirected to "
        f"{denying.robotstxt}\n"
        "  rfc9309                allowed  robots.txt does not exist, or access to it is denied\n"
        "  google                 allowed  robots.txt does not exist, or access to it is denied\n"
        "  classic                denied   robots.txt does not exist, or access to it is denied\n"
        "\n"
    )
    broken = 'DOWNLOADER_MIDDLEWARES={"no.such.Middleware": 1}'
    result = scrapy_rep("check", redirecting.url("/"), "-s", broken, cwd=tmp_path)
    assert result.status == 2
    assert "Scrapy could not start a crawl with these settings" in result.err


def test_the_settings_of_a_project_are_used_but_nothing_is_written(
    site: Site, tmp_path: Path
) -> None:
    """In a project, requests are sent with its settings, but no ledger, feed, job, store or log is
    written.
    """
    shop = site.add(ROBOTS.replace("otherbot", "demobot"))
    files = [tmp_path / name for name in ("ledger", "feed.json", "job", "store")]
    result = scrapy_rep(
        "check", shop.url("/basket/1"), "--brief", "-s", "LOG_STDOUT=True",
        "-s", f"REP_LEDGER={files[0]}", "-s", f'FEEDS={{"{files[1]}": {{}}}}',
        "-s", f"JOBDIR={files[2]}", "-s", f"REP_STORE=sqlite:///{files[3]}", "-s", "CLOSESPIDER_TIMEOUT=0.001",
        # The middlewares of the project would send the requests to its offline site.
        "-s", "DOWNLOADER_MIDDLEWARES={}", cwd=ROOT / "example_project",
    )  # fmt: skip
    assert result.out.startswith(f"denied\t{shop.url('/basket/1')}\tline 5, ")
    assert result.status == 1
    assert "demobot" in shop.robots_hits[0].headers["User-Agent"]
    assert not any(path.exists() for path in files)


def test_overrides_apply_to_the_crawler_of_the_project_only(
    site: Site, tmp_path: Path
) -> None:
    """REP_OVERRIDES apply to the project's crawler only; the output has the reason and the end date
    of the override. The other known crawlers are judged by the robots.txt of the site, which is
    fetched only for them.
    """
    shop = site.add("User-agent: *\nDisallow: /")
    entry = '{"obey": false, "reason": "agreed", "until": "9000-01-01"}'
    arguments = (
        "check",
        shop.url("/"),
        "-s",
        f'REP_OVERRIDES={{"127.0.0.1": {entry}}}',
    )
    result = scrapy_rep(*arguments, cwd=tmp_path)
    assert result.status == 0
    source = "REP_OVERRIDES['127.0.0.1'] (agreed; until 9000-01-01)"
    assert f"robots.txt: {source}, set in the settings" in result.out
    assert not shop.robots_hits
    result = scrapy_rep(*arguments, "--agents", "--json", cwd=tmp_path)
    (record,) = result.records("check")
    assert record["allowed"]
    assert not any(crawler["allowed"] for crawler in record["crawlers"])
    assert len(shop.robots_hits) == 1
    text = "User-agent: mybot\\nDisallow: /\\nNoindex: /a"
    arguments = (
        "check",
        shop.url("/"),
        "-s",
        f'REP_OVERRIDES={{"127.0.0.1": "{text}"}}',
    )
    result = scrapy_rep(*arguments, cwd=tmp_path)
    warning = (
        "REP_OVERRIDES['127.0.0.1'], line 3: crawlers of this dialect ignore the field"
    )
    assert warning in result.err


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
    """``--spider`` takes agents, dialect and overrides from the settings of a spider. Other options
    have precedence. An unknown spider is wrong usage.
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
    arguments = ("check", BASKET, *ROBOTS_FILE, "--json", "--spider")
    for options, agent, dialect, line in (
        (["first"], "otherbot", "google", 5),
        (["second"], "secondbot", "rfc9309", 10),
        (["first", "--agent", "*"], "*", "google", 10),
    ):
        (record,) = scrapy_rep(*arguments, *options, cwd=tmp_path).records("check")
        assert (record["agents"], record["dialect"]) == ([agent], dialect)
        assert record["rule"]["line"] == line
    open_arguments = ("check", "https://open.example/", "--json", "--spider", "first")
    (record,) = scrapy_rep(*open_arguments, cwd=tmp_path).records("check")
    assert record["reason"] == "override"
    result = scrapy_rep("page", "page.html", "--spider", "first", cwd=tmp_path)
    assert result.out.startswith("noindex")
    result = scrapy_rep(*arguments, "third", cwd=tmp_path)
    assert (result.status, result.out) == (2, "")
    assert "Spider not found: third" in result.err
