"""``scrapy rep check`` with a robots.txt file: nothing is fetched."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from scrapy_rep.protocol.crawlers import CRAWLERS
from scrapy_rep.protocol.usage.vocabulary import CATEGORIES
from tests.commands.rep import ROBOTS, scrapy_rep

if TYPE_CHECKING:
    from tests.commands.conftest import Rep
    from tests.crawl.server import Site

BASKET = "https://shop.example/basket/1"
TEA = "https://shop.example/tea"
FILE = ("--robots", "robots.txt")


def found(rep: Rep, *arguments: str, url: str = BASKET, **settings: Any) -> Any:
    """Return the verdict on a URL by the file."""
    (record,) = rep("check", url, *FILE, *arguments, "--json", **settings).records(
        "check"
    )
    return record


def test_denied(rep: Rep) -> None:
    """A denied URL is shown with its rule in context, the agent whose group decides, the crawl delay
    and the sitemaps.
    """
    ended = rep("check", BASKET, *FILE)
    assert ended.status == 1
    assert ended.out == (
        f"denied   {BASKET}\n"
        "  line 5, Disallow: /basket/\n"
        "  group: mybot\n"
        "    3  User-agent: mybot\n"
        "    4  Crawl-delay: 2\n"
        "    5  Disallow: /basket/  # no robots\n"
        "    6  Allow: /basket/help\n"
        "    7  Sitemap: https://shop.example/sitemap.xml\n"
        "  robots.txt: robots.txt, a file\n"
        "  crawl delay: 2 s\n"
        "  sitemaps: https://shop.example/sitemap.xml\n"
        "\n"
    )


def test_json(rep: Rep) -> None:
    """JSON output has all details of a decision."""
    record = found(rep)
    context = record.pop("context")
    assert context[2] == {"line": 5, "text": "Disallow: /basket/  # no robots"}
    assert record == {
        "url": BASKET,
        "agents": ["mybot"],
        "agents_named": True,
        "dialect": "rfc9309",
        "allowed": False,
        "reason": "rule",
        "agent": "mybot",
        "rule": {"kind": "disallow", "pattern": "/basket/", "line": 5},
        "form": None,
        "why": "line 5, Disallow: /basket/",
        "robotstxt": "robots.txt",
        "access": {
            "outcome": "file", "status": None, "redirects": [], "error": "", "html": False,
            "why": "a file",
        },
        "crawl_delay": 2.0,
        "request_rate": None,
        "visit_time": None,
        "sitemaps": ["https://shop.example/sitemap.xml"],
        "usage": {
            "purposes": {
                purpose: {"allowed": None, "because": None, "why": ""}
                for purpose in CATEGORIES
            },
            "statements": [],
            "licenses": [],
            "denied": False,
        },
    }  # fmt: skip


def test_several(rep: Rep) -> None:
    """The exit status is 0 if every URL is allowed."""
    ended = rep("check", TEA, f"{BASKET[:-1]}help", *FILE)
    assert ended.status == 0
    assert "no rule matches" in ended.out
    assert "line 6, Allow: /basket/help" in ended.out
    assert rep("check", BASKET, TEA, *FILE).status == 1


def test_the_form_that_is_denied(rep: Rep) -> None:
    """A URL with a form that is denied is denied, as in a crawl, and the form is named."""
    around = BASKET.replace("/basket", "/tea/../basket")
    ended = rep("check", around, *FILE, "--brief")
    assert ended.status == 1
    assert ended.out == f"denied\t{around}\tline 5, Disallow: /basket/ (as {BASKET})\n"
    assert found(rep, url=around)["form"] == BASKET


def test_a_handler_that_decodes(rep: Rep) -> None:
    """If the project downloads with aiohttp, URLs are judged in the form that aiohttp sends."""
    Path("robots.txt").write_text("User-agent: *\nDisallow: /a&b\n")
    url = "https://shop.example/a%26b"
    assert found(rep, url=url)["allowed"]
    handler = "scrapy.core.downloader.handlers._aiohttp.AiohttpDownloadHandler"
    settings = {"DOWNLOAD_HANDLERS": {"https": handler}}
    assert not found(rep, url=url, **settings)["allowed"]


@pytest.mark.parametrize(
    ("agents", "group"),
    [
        (["--agent", "otherbot"], "otherbot"),
        (["--agent", "nobot,mybot"], "mybot"),
        (["--agent", "nobot", "--agent", "mybot"], "mybot"),
        (["--agent", "nobot, mybot, *"], "mybot"),
        (["--agent", "mybot,"], "mybot"),
        (["--agent", "nobot"], "*"),
        (["--agent", "*"], "*"),
        (["--agent", "Mozilla/5.0 (X11, Linux; compatible; mybot/1.0)"], "mybot"),
    ],
)
def test_agent(rep: Rep, agents: list[str], group: str) -> None:
    """``--agent`` is parsed like ROBOTSTXT_USER_AGENT."""
    assert found(rep, *agents)["agent"] == group


@pytest.mark.parametrize(
    ("options", "settings", "agents"),
    [
        ([], {"ROBOTSTXT_USER_AGENT": ["mybot-news", "mybot"]}, ["mybot-news", "mybot"]),
        ([], {"USER_AGENT": "otherbot/2"}, ["otherbot"]),
        ([], {"DEFAULT_REQUEST_HEADERS": {"user-agent": b"otherbot"}}, ["otherbot"]),
        ([], {"USER_AGENT": None, "ROBOTSTXT_USER_AGENT": "mybot"}, ["mybot"]),
        ([], {"USER_AGENT": "Scrapy/2.19.0"}, ["Scrapy"]),
        (["--agent", "Scrapy"], {"USER_AGENT": None}, ["Scrapy"]),
        (["--agent", "*"], {"USER_AGENT": None}, ["*"]),
    ],
)  # fmt: skip
def test_a_crawler_with_a_name(
    rep: Rep, options: list[str], settings: dict[str, object], agents: list[str]
) -> None:
    """Without ``--agent``, the agent comes from the settings, as in a crawl. If one of them names
    the crawler, nothing is said about its name.
    """
    ended = rep("check", BASKET, *FILE, *options, "--json", **settings)
    assert ended.err == ""
    (record,) = ended.records("check")
    assert (record["agents"], record["agents_named"]) == (agents, True)


def test_no_setting_names_the_crawler(rep: Rep) -> None:
    """If no setting names a crawler, the rules for everyone apply, and the output says so."""
    ended = rep("check", BASKET, *FILE, "--brief", USER_AGENT="Mozilla/5.0")
    assert ended.out == f"denied\t{BASKET}\tline 10, Disallow: /\n"
    assert "the rules for everyone are followed" in ended.err


def test_dialects(rep: Rep) -> None:
    """``--dialect`` goes before the settings; ``--dialects`` shows the decisions of all dialects,
    and whether they agree.
    """
    Path("robots.txt").write_text("User-agent: *\nDisallow: /a\nAllow: /a/b\n")
    url = "http://shop.example/a/b"
    path = "scrapy_rep.protocol.dialect.CLASSIC"
    for dialect, allowed in (("rfc9309", 1), ("classic", 0), ("google", 1), (path, 0)):
        record = found(rep, "--dialect", dialect, url=url, REP_DIALECT="google")
        assert record["allowed"] == allowed
    ended = rep("check", url, *FILE, "--dialects")
    assert ended.status == 0
    assert "  rfc9309                allowed  line 3, Allow: /a/b\n" in ended.out
    assert "  classic                denied   line 2, Disallow: /a\n" in ended.out
    record = found(rep, "--dialects", url=url)
    assert record["agree"] is False
    verdicts = {name: each["allowed"] for name, each in record["dialects"].items()}
    assert verdicts == {"rfc9309": True, "google": True, "classic": False}
    assert found(rep, "--dialects", url=TEA)["agree"] is True


def test_list(rep: Rep) -> None:
    """``-`` reads a list of URLs; blank lines are ignored, and the last needs no line end."""
    ended = rep("check", "-", *FILE, "--brief", stdin=f"{BASKET}\n\n  \n{TEA}")
    assert ended.status == 1
    verdicts = [line.split("\t")[:2] for line in ended.out.splitlines()]
    assert verdicts == [["denied", BASKET], ["allowed", TEA]]


def test_what_is_no_url(rep: Rep) -> None:
    """Invalid URLs in a list, or among arguments, are reported, and the others are judged."""
    bad = (
        b"shop.example\n\nhttp://[\n\xff\xfe\n" + b"http://a.example/" + b"a" * 300_000
    )
    ended = rep("check", "-", *FILE, "--brief", stdin=bad + b"\n" + BASKET.encode())
    assert ended.status == 2
    assert "line 1: 'shop.example' is not a URL" in ended.err
    assert "line 3: 'http://[' is not a URL" in ended.err
    assert "line 4: " in ended.err
    assert ended.out.endswith(f"denied\t{BASKET}\tline 5, Disallow: /basket/\n")
    ended = rep("check", "shop.example", TEA, "http://[", BASKET, *FILE, "--brief")
    assert ended.status == 2
    assert [line.split("\t")[1] for line in ended.out.splitlines()] == [TEA, BASKET]
    assert "argument 3: 'http://[' is not a URL" in ended.err


def test_long_list(rep: Rep) -> None:
    """For a list beyond the limits of concurrency and batch size, the output is in order."""
    urls = [f"https://h{n % 700}.example/basket/{n}" for n in range(5_000)]
    ended = rep("check", "-", *FILE, "--brief", stdin="\n".join(urls))
    assert [line.split("\t")[1] for line in ended.out.splitlines()] == urls


def test_summary_of_a_list(rep: Rep) -> None:
    """A list ends with a line on standard error that counts the allowed URLs."""
    Path("robots.txt").write_text(
        "User-agent: *\nContent-Usage: train-ai=n\nDisallow: /b"
    )
    urls = f"{BASKET}\n{TEA}\nnothing\nhttps://shop.example/"
    for purpose, words in (
        ("search", ""),
        ("train-ai", "; 2 of the allowed may not be used for a purpose of the crawl"),
    ):
        ended = rep("check", "-", *FILE, "--purpose", purpose, "--json", stdin=urls)
        counts = f"3 URLs: 2 allowed, 1 denied{words}; lines that are not URLs: 1"
        assert ended.err.endswith(f"\nscrapy rep: {counts}\n")
    assert rep("check", BASKET, *FILE).err == ""


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["shop.example/tea"], "'shop.example/tea' is not a URL of http"),
        (["file:///etc/passwd"], "'file:///etc/passwd' is not a URL of http"),
        (["http://["], "is not a URL"),
        (["\udcff"], "is not a URL"),
        (["", " "], "each URL is empty"),
        ([BASKET, "-"], "- reads all of standard input"),
        (["-", "--robots", "-"], "- reads all of standard input"),
        ([BASKET, "--robots", "nowhere.txt"], "nowhere.txt: No such file"),
        ([BASKET, "--robots", "a\0b"], "null"),
        ([BASKET, "--agent", "bot 2"], "--agent is"),
        ([BASKET, "--agent", ""], "--agent is"),
        ([BASKET, "--dialect", "latin"], "--dialect is 'latin'"),
        ([BASKET, "--purpose", "mining"], "--purpose is"),
        ([BASKET, "--nonsense"], "unrecognized arguments: --nonsense"),
        ([], "the following arguments are required"),
    ],
)
def test_wrong_usage(rep: Rep, arguments: list[str], why: str) -> None:
    """Wrong usage is reported in a sentence on standard error, with exit status 2."""
    ended = rep("check", *arguments)
    assert (ended.status, ended.out) == (2, "")
    assert why in ended.err
    assert "Traceback" not in ended.err


def test_wrong_setting(rep: Rep) -> None:
    """An invalid setting is reported in a sentence on standard error, with exit status 2."""
    ended = rep("check", BASKET, *FILE, REP_DIALECT="latin")
    assert ended.status == 2
    assert "REP_DIALECT is 'latin'" in ended.err


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


def test_overrides(rep: Rep) -> None:
    """``--robots`` goes before the overrides of the settings."""
    assert not found(rep, REP_OVERRIDES={"shop.example": "ignore"})["allowed"]


def test_a_project_that_turns_robots_txt_off(rep: Rep) -> None:
    """With ROBOTSTXT_OBEY = False in the settings, the verdict is that of robots.txt, and a note
    says that a crawl fetches the URL all the same.
    """
    off = rep("check", BASKET, *FILE, ROBOTSTXT_OBEY=False)
    assert off.status == 1
    assert "ROBOTSTXT_OBEY is False in the settings" in off.err
    assert not rep("check", BASKET, *FILE, ROBOTSTXT_OBEY=True).err


# Delays and visiting hours.


def test_pace(rep: Rep) -> None:
    """The request rate and the visit window are shown, and the first sitemaps."""
    sitemaps = "".join(f"Sitemap: https://a.example/{n}.xml\n" for n in range(8))
    Path("robots.txt").write_text(
        "User-agent: *\nRequest-rate: 1/5\nVisit-time: 0600-0845\n" + sitemaps
    )
    out = rep("check", BASKET, *FILE).out
    assert "  request rate: 1/5s\n  visit time: 06:00-08:45 UTC\n" in out
    assert "https://a.example/4.xml and 3 more\n" in out


def test_a_delay_over_the_limit(rep: Rep) -> None:
    """A host that asks for a longer delay than REP_CRAWL_DELAY_MAX is skipped in a crawl, so
    its URLs are denied, with the record and the setting.
    """
    Path("robots.txt").write_text("User-agent: *\nDisallow: /a\nCrawl-delay: 200\n")
    ended = rep("check", BASKET, *FILE, "--brief")
    why = (
        "line 3, Crawl-delay: 200 (the host asks for a longer delay than the crawl accepts; "
        "REP_CRAWL_DELAY_MAX is 180)"
    )
    assert (ended.status, ended.out) == (1, f"denied\t{BASKET}\t{why}\n")
    record = found(rep)
    assert (record["allowed"], record["reason"]) == (False, "crawl-delay")
    assert record["rule"] == {"kind": "crawl-delay", "pattern": "200", "line": 3}
    assert record["context"][-1] == {"line": 3, "text": "Crawl-delay: 200"}
    # A rule that forbids the URL decides first.
    assert found(rep, url="https://shop.example/a")["why"] == "line 2, Disallow: /a"
    # A crawl gets the robots.txt of a host that it skips.
    assert found(rep, url="https://shop.example/robots.txt")["allowed"]
    for settings in (
        {"REP_CRAWL_DELAY_MAX": 200},
        {"REP_CRAWL_DELAY": False},
        {"REP_DIALECT": "google"},
    ):
        assert found(rep, **settings)["allowed"]


def test_a_delay_over_the_limit_in_each_dialect(rep: Rep) -> None:
    """``--dialects`` applies the delay where the dialect has one, and shows the difference."""
    Path("robots.txt").write_text("User-agent: *\nRequest-rate: 1/10m\n")
    record = found(rep, "--dialects")
    reasons = {name: each["reason"] for name, each in record["dialects"].items()}
    assert reasons == {
        "rfc9309": "crawl-delay", "google": "no-rule", "classic": "crawl-delay"
    }  # fmt: skip
    assert record["agree"] is False


def test_hours(rep: Rep) -> None:
    """Outside of the visiting hours of a host, its URLs are denied if a crawl would not wait
    for them, with the setting that changes it. A rate for other hours refuses nothing now.
    """
    now = datetime.now(timezone.utc)
    hours = "-".join(f"{now + timedelta(hours=each):%H%M}" for each in (3, 9))
    Path("robots.txt").write_text(f"User-agent: *\nRequest-rate: 1/10m {hours}\n")
    assert found(rep)["allowed"]
    Path("robots.txt").write_text(f"User-agent: *\nVisit-time: {hours}\n")
    record = found(rep)
    assert (record["allowed"], record["reason"]) == (False, "visit-time")
    assert record["why"] == (
        f"line 2, Visit-time: {hours} (the host opens later than the crawl waits; "
        "REP_WAIT_MAX is 600)"
    )
    for settings in (
        {"REP_WAIT_MAX": 86400},
        {"REP_CRAWL_DELAY": False},
        {"REP_DIALECT": "google"},
    ):
        assert found(rep, **settings)["allowed"]


# Well-known crawlers, and the settings of a spider.

AI = """\
User-agent: GPTBot
Disallow: /

User-agent: Googlebot
Disallow: /t
Allow: /t*.html

User-agent: *
Crawl-delay: 900
"""


def test_known_crawlers(rep: Rep) -> None:
    """Each known crawler is judged by its own group, as its operator says, and is shown with
    verdict, line and reason. The exit status is that of our own crawler.
    """
    Path("robots.txt").write_text(AI)
    record = found(rep, "--agents", url=f"{TEA}.html", REP_CRAWL_DELAY_MAX=1000)
    assert record["allowed"]
    crawlers = {each["token"]: each for each in record["crawlers"]}
    assert list(crawlers) == [each.token for each in CRAWLERS.values()]
    gptbot = crawlers["GPTBot"]
    assert (gptbot["allowed"], gptbot["rule"]["line"]) == (False, 2)
    assert crawlers["Googlebot"]["rule"]["line"] == 6
    assert crawlers["Googlebot"]["dialect"] == "google"
    assert crawlers["Applebot"]["agent"] == "Googlebot", "it has no group of its own"
    assert crawlers["CCBot"]["agent"] == "*"
    assert crawlers["CCBot"]["source"] == "https://commoncrawl.org/ccbot"
    ended = rep("check", f"{TEA}.html", *FILE, "--agents")
    assert ended.status == 1, "a delay of 900 s is too long for our crawler, by default"
    assert (
        "  GPTBot                 denied   line 2, Disallow: /   (OpenAI, AI training)\n"
        in ended.out
    )
    brief = rep("check", TEA, *FILE, "--agents", "--brief").out
    assert f"\ndenied\t{TEA}\tline 2, Disallow: /\tGPTBot\n" in brief


def test_overrides_are_ours(site: Site, tmp_path: Path) -> None:
    """REP_OVERRIDES decide for our crawler alone: the others are judged by the robots.txt of the
    site, which is fetched for them.
    """
    shop = site.add("User-agent: *\nDisallow: /")
    override = ("-s", 'REP_OVERRIDES={"127.0.0.1": "ignore"}')
    asked = ("check", shop.url("/tea"), "--json", *override)
    (record,) = scrapy_rep(*asked, cwd=tmp_path).records("check")
    assert record["allowed"]
    assert not shop.robots_hits
    (record,) = scrapy_rep(*asked, "--agents", cwd=tmp_path).records("check")
    assert record["allowed"]
    assert not any(each["allowed"] for each in record["crawlers"])
    assert len(shop.robots_hits) == 1


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


def test_spider(tmp_path: Path) -> None:
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
    (record,) = scrapy_rep(*asked, "first", cwd=tmp_path).records("check")
    assert (record["agents"], record["dialect"]) == (["otherbot"], "google")
    assert (record["rule"]["line"], record["agents_named"]) == (5, True)
    (record,) = scrapy_rep(*asked, "second", cwd=tmp_path).records("check")
    assert (record["agents"], record["rule"]["line"]) == (["secondbot"], 10)
    ended = scrapy_rep(*asked, "first", "--agent", "*", cwd=tmp_path)
    assert ended.records("check")[0]["agent"] == "*"
    (record,) = scrapy_rep(
        "check", "https://open.example/", "--json", "--spider", "first", cwd=tmp_path
    ).records("check")
    assert record["reason"] == "override"
    for spider, is_indexable in (("first", False), ("second", True)):
        ended = scrapy_rep("page", "page.html", "--spider", spider, cwd=tmp_path)
        assert ended.out.startswith("indexable" if is_indexable else "noindex")
    ended = scrapy_rep(*asked, "third", cwd=tmp_path)
    assert (ended.status, ended.out) == (2, "")
    assert "Spider not found: third" in ended.err
