"""``scrapy rep check --agents``, and the settings of a spider (``--spider``)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from scrapy_rep.protocol.crawlers import CRAWLERS
from tests.commands.rep import ROBOTS, scrapy_rep

if TYPE_CHECKING:
    from tests.commands.conftest import Rep
    from tests.crawl.server import Site

AI = """\
User-agent: GPTBot
Disallow: /

User-agent: Googlebot
Disallow: /t
Allow: /t*.html

User-agent: *
Crawl-delay: 900
"""
PAGE = "https://shop.example/tea.html"


def test_known_crawlers(rep: Rep) -> None:
    """Each known crawler is judged by its own group, as its operator says, and is shown with
    verdict, line and reason. The exit status is that of our own crawler.
    """
    Path("ai.txt").write_text(AI)
    asked = ("check", PAGE, "--robots", "ai.txt", "--agents")
    ended = rep(*asked, "--json", REP_CRAWL_DELAY_MAX=1000)
    (record,) = ended.records("check")
    assert ended.status == 0
    found = {each["token"]: each for each in record["crawlers"]}
    assert list(found) == [each.token for each in CRAWLERS.values()]
    assert (found["GPTBot"]["allowed"], found["GPTBot"]["rule"]["line"]) == (False, 2)
    assert found["Googlebot"]["rule"]["line"] == 6
    assert found["Googlebot"]["dialect"] == "google"
    assert found["Applebot"]["agent"] == "Googlebot", "it has no group of its own"
    assert found["CCBot"]["agent"] == "*"
    assert found["CCBot"]["source"] == "https://commoncrawl.org/ccbot"
    ended = rep(*asked)
    assert ended.status == 1, "a delay of 900 s is too long for our crawler, by default"
    lines = [line.split("  ") for line in ended.out.splitlines()]
    (gptbot,) = (line for line in lines if line[1:2] == ["GPTBot"])
    cells = [cell.strip() for cell in gptbot if cell]
    assert cells == ["GPTBot", "OpenAI", "AI training", "denied", "line 2, Disallow: /, in the group for GPTBot"]  # fmt: skip
    brief = rep(*asked, "--brief").out
    assert "\tGPTBot: denied\tline 2, Disallow: /\t" in brief
    assert brief.count("\n") == 1


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
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = shop.settings\n")
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").touch()
    (tmp_path / "shop" / "settings.py").write_text("SPIDER_MODULES = ['shop.spiders']")
    (tmp_path / "shop" / "spiders.py").write_text(SPIDERS)
    (tmp_path / "robots.txt").write_text(ROBOTS)
    (tmp_path / "page.html").write_text("<meta name=otherbot content=noindex>")
    url = "https://shop.example/basket/1"
    asked = ("check", url, "--robots", "robots.txt", "--json", "--spider")
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
    assert "no spider is named 'third'; the spiders are: first, second" in ended.err
