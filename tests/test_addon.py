"""The add-on, and settings of a project that override it."""

from __future__ import annotations

from typing import Any

import pytest
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware as ScrapysOwn
from scrapy.spiders import Spider
from scrapy.utils.misc import load_object
from scrapy.utils.test import get_crawler

from scrapy_rep.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy_rep.exceptions import SettingError

OURS = "scrapy_rep.downloadermiddlewares.robotstxt.RobotsTxtMiddleware"
THEIRS = "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware"


def orders(**settings: Any) -> tuple[dict[Any, int | None], bool]:
    """Return the orders of both robots.txt middlewares, and the value of ROBOTSTXT_OBEY."""
    crawler = get_crawler(Spider, {"ADDONS": {"scrapy_rep.Addon": 500}, **settings})
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


def test_the_project_can_keep_theirs() -> None:
    """If the project's settings name Scrapy's own middleware, the add-on keeps it."""
    found, _ = orders(DOWNLOADER_MIDDLEWARES={THEIRS: 100, OURS: None})
    assert found == {ScrapysOwn: 100, RobotsTxtMiddleware: None}


def test_a_bad_setting_stops_the_start() -> None:
    """An invalid setting stops the crawl before anything is fetched."""
    with pytest.raises(SettingError, match="REP_DIALECT is 'gogle'"):
        orders(REP_DIALECT="gogle")
