"""The add-on, and settings of a project that override it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware as ScrapysOwn
from scrapy.spiders import Spider
from scrapy.utils.misc import load_object
from scrapy.utils.test import get_crawler

from scrapy_rep.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy_rep.exceptions import SettingError

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

OURS = "scrapy_rep.downloadermiddlewares.robotstxt.RobotsTxtMiddleware"
THEIRS = "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware"


def crawler_of(
    custom_settings: dict[str, Any] | None = None, **settings: Any
) -> Crawler:
    """Return a crawler of a project with *settings*, and a spider with *custom_settings*."""
    spider = type("ASpider", (Spider,), {"custom_settings": custom_settings})
    return get_crawler(spider, {"ADDONS": {"scrapy_rep.Addon": 500}, **settings})


def orders(**settings: Any) -> tuple[dict[Any, int | None], bool]:
    """Return the orders of both robots.txt middlewares, and the value of ROBOTSTXT_OBEY."""
    crawler = crawler_of(**settings)
    found = crawler.settings.getwithbase("DOWNLOADER_MIDDLEWARES")
    both = {
        component: order
        for key, order in found.items()
        if (component := load_object(key)) in {ScrapysOwn, RobotsTxtMiddleware}
    }
    return both, crawler.settings.getbool("ROBOTSTXT_OBEY")


def test_one_line() -> None:
    """The add-on sets ROBOTSTXT_OBEY, and replaces Scrapy's robots.txt middleware."""
    assert orders() == ({ScrapysOwn: None, RobotsTxtMiddleware: 595}, True)


def test_the_project_can_say_no() -> None:
    """ROBOTSTXT_OBEY in the project's settings has priority over the add-on."""
    _, obeys = orders(ROBOTSTXT_OBEY=False)
    assert obeys is False


@pytest.mark.parametrize("key", [OURS, RobotsTxtMiddleware])
def test_the_project_can_move_ours(key: Any) -> None:
    """An order that the project sets for this package's middleware is kept."""
    found, _ = orders(DOWNLOADER_MIDDLEWARES={key: 650})
    assert found == {ScrapysOwn: None, RobotsTxtMiddleware: 650}


@pytest.mark.parametrize("key", [THEIRS, ScrapysOwn], ids=["path", "class"])
@pytest.mark.parametrize("order", [100, 543])
@pytest.mark.parametrize("where", ["settings", "custom_settings"])
def test_the_project_names_theirs(where: str, key: Any, order: int) -> None:
    """If a project or a spider names Scrapy's own middleware, it is replaced, too."""
    named = {"DOWNLOADER_MIDDLEWARES": {key: order}}
    found, _ = orders(**named) if where == "settings" else orders(custom_settings=named)
    assert found == {ScrapysOwn: None, RobotsTxtMiddleware: 595}


def test_the_project_can_keep_theirs() -> None:
    """If the project disables this package's middleware, Scrapy's own one is kept."""
    found, _ = orders(DOWNLOADER_MIDDLEWARES={THEIRS: 543, OURS: None})
    assert found == {ScrapysOwn: 543, RobotsTxtMiddleware: None}
    found, _ = orders(DOWNLOADER_MIDDLEWARES={OURS: None})
    assert found == {ScrapysOwn: 100, RobotsTxtMiddleware: None}


class Subclass(ScrapysOwn):
    """A middleware of a project."""


def test_a_subclass_of_theirs(caplog: pytest.LogCaptureFixture) -> None:
    """A subclass of Scrapy's middleware is kept, and a warning says what to do."""
    found = crawler_of(DOWNLOADER_MIDDLEWARES={Subclass: 100})
    assert found.settings.getdict("DOWNLOADER_MIDDLEWARES")[Subclass] == 100
    (record,) = (each for each in caplog.records if each.name == "scrapy_rep.addon")
    assert record.levelname == "WARNING"
    message = record.getMessage()
    assert "DOWNLOADER_MIDDLEWARES names tests.test_addon.Subclass" in message
    assert f"set {OURS} there to None" in message


@pytest.mark.parametrize(
    "settings",
    [
        {"DOWNLOADER_MIDDLEWARES": {Subclass: None}},
        {"DOWNLOADER_MIDDLEWARES": {Subclass: 100, OURS: None}},
        {"DOWNLOADER_MIDDLEWARES": {Subclass: 100}, "ROBOTSTXT_OBEY": False},
    ],
)
def test_a_subclass_that_is_not_used_beside_ours(
    caplog: pytest.LogCaptureFixture, settings: dict[str, Any]
) -> None:
    """There is no warning if only one of the two middlewares is used, or none."""
    crawler_of(**settings)
    assert [each for each in caplog.records if each.name == "scrapy_rep.addon"] == []


def test_a_bad_setting_stops_the_start() -> None:
    """An invalid setting stops the crawl before anything is fetched."""
    with pytest.raises(SettingError, match="REP_DIALECT is 'gogle'"):
        orders(REP_DIALECT="gogle")
