"""The add-on, and settings of a project that override it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware as ScrapysOwn
from scrapy.spiders import Spider
from scrapy.utils.misc import load_object
from scrapy.utils.python import global_object_name
from scrapy.utils.test import get_crawler

import scrapy_rep
from scrapy_rep.crawl.gate import RobotsTxtMiddleware
from scrapy_rep.exceptions import SettingError
from scrapy_rep.playwright import PlaywrightMiddleware

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

OURS = "scrapy_rep.crawl.gate.RobotsTxtMiddleware"
THEIRS = "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware"


class Subclass(ScrapysOwn):
    """A middleware of a project."""


def settings_of(
    custom_settings: dict[str, Any] | None = None, **settings: Any
) -> BaseSettings:
    """Return the settings of a crawl, of a project with *settings* and a spider with
    *custom_settings*.
    """
    spider = type("ASpider", (Spider,), {"custom_settings": custom_settings})
    project = {"ADDONS": {"scrapy_rep.Addon": 500}, **settings}
    return get_crawler(spider, project).settings


@pytest.mark.parametrize("where", ["settings", "custom_settings"])
@pytest.mark.parametrize(
    ("orders", "ours", "theirs"),
    [
        ({}, 100, None),
        ({THEIRS: 543}, 100, None),
        ({ScrapysOwn: 100}, 100, None),
        ({OURS: 650}, 650, None),
        ({RobotsTxtMiddleware: 650}, 650, None),
        ({OURS: None}, None, 100),
        ({THEIRS: 543, OURS: None}, None, 543),
    ],
)
def test_the_addon_replaces_scrapys_robotstxt_middleware(
    where: str, orders: dict[Any, int | None], ours: int | None, theirs: int | None
) -> None:
    """The add-on sets ROBOTSTXT_OBEY, and replaces Scrapy's robots.txt middleware, even if the
    project or the spider names that, by its path or its class. The project can move this
    package's middleware, or disable it: then Scrapy's own one is kept.
    """
    named = {"DOWNLOADER_MIDDLEWARES": orders} if orders else {}
    is_of_spider = where == "custom_settings"
    settings = settings_of(named) if is_of_spider else settings_of(**named)
    middlewares = settings.getwithbase("DOWNLOADER_MIDDLEWARES")
    loaded = {load_object(key): order for key, order in middlewares.items()}
    assert (loaded[RobotsTxtMiddleware], loaded[ScrapysOwn]) == (ours, theirs)
    assert settings.getbool("ROBOTSTXT_OBEY")


@pytest.mark.parametrize(
    ("settings", "is_used"),
    [
        ({}, False),
        ({"PLAYWRIGHT_ABORT_REQUEST": "project.abort"}, True),
        ({"DOWNLOAD_HANDLERS": {"https": "tests.browser.Handler"}}, False),
    ],
)
def test_only_a_crawl_with_playwright_has_the_browser_middleware(
    settings: dict[str, Any], is_used: bool
) -> None:
    """Only a crawl with scrapy-playwright has a middleware for its browser."""
    middlewares = settings_of(**settings).getwithbase("DOWNLOADER_MIDDLEWARES")
    assert (PlaywrightMiddleware in middlewares) is is_used


def test_the_log_has_the_addon_with_its_version() -> None:
    """Scrapy lists the add-ons in its log, this one with its version."""
    assert repr(scrapy_rep.Addon()) == f"<scrapy_rep.Addon {scrapy_rep.__version__}>"


def test_the_project_can_say_no() -> None:
    """ROBOTSTXT_OBEY in the project's settings has priority over the add-on."""
    assert not settings_of(ROBOTSTXT_OBEY=False).getbool("ROBOTSTXT_OBEY")


@pytest.mark.parametrize(
    ("orders", "obeys", "warned"),
    [
        ({Subclass: 100}, True, True),
        ({Subclass: 100}, False, False),
        ({Subclass: 100, OURS: None}, True, False),
        ({Subclass: None}, True, False),
    ],
)
def test_a_subclass_of_scrapys_middleware_is_kept_with_a_warning(
    caplog: pytest.LogCaptureFixture, orders: dict[Any, Any], obeys: bool, warned: bool
) -> None:
    """A subclass of Scrapy's middleware is kept. If it is used beside this package's one, a
    warning says what to do.
    """
    settings = settings_of(DOWNLOADER_MIDDLEWARES=orders, ROBOTSTXT_OBEY=obeys)
    orders_set = settings.getdict("DOWNLOADER_MIDDLEWARES")
    assert orders_set[Subclass] == orders[Subclass]
    records = [
        record for record in caplog.records if record.name == "scrapy_rep.crawl.addon"
    ]
    assert [record.levelname for record in records] == ["WARNING"] * warned
    for record in records:
        message = record.getMessage()
        assert "DOWNLOADER_MIDDLEWARES contains tests.test_addon.Subclass" in message
        assert f"set {OURS} to None in DOWNLOADER_MIDDLEWARES" in message


def test_a_bad_setting_stops_the_start() -> None:
    """An invalid setting stops the crawl before anything is fetched."""
    with pytest.raises(SettingError, match="REP_DIALECT is 'gogle'"):
        settings_of(REP_DIALECT="gogle")


OURS_SCHEDULER = "scrapy_rep.Scheduler"
SCRAPYS_SCHEDULER = "scrapy.core.scheduler.Scheduler"
SCRAPYS_QUEUE = "scrapy.pqueues.ScrapyPriorityQueue"


@pytest.mark.parametrize(
    ("settings", "scheduler"),
    [
        ({}, OURS_SCHEDULER),
        ({"SCHEDULER": SCRAPYS_SCHEDULER}, SCRAPYS_SCHEDULER),
        ({"SCHEDULER_PRIORITY_QUEUE": SCRAPYS_QUEUE}, SCRAPYS_SCHEDULER),
        ({"SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.FifoMemoryQueue"}, OURS_SCHEDULER),
        ({"DUPEFILTER_CLASS": "scrapy.dupefilters.BaseDupeFilter"}, OURS_SCHEDULER),
        ({"REP_DRY_RUN": True}, SCRAPYS_SCHEDULER),
    ],
)
@pytest.mark.parametrize("where", ["settings", "custom_settings"])
def test_the_addon_sets_the_scheduler_unless_the_project_does(
    where: str, settings: dict[str, Any], scheduler: str
) -> None:
    """The add-on sets SCHEDULER, unless the project or the spider sets that or a SCHEDULER_PRIORITY_QUEUE.
    In a dry run, Scrapy's scheduler stays.
    """
    is_of_spider = where == "custom_settings" and "REP_DRY_RUN" not in settings
    read = settings_of(settings) if is_of_spider else settings_of(**settings)
    assert global_object_name(load_object(read["SCHEDULER"])) == global_object_name(
        load_object(scheduler)
    )
    for name, value in settings.items():
        assert read[name] == value


@pytest.mark.parametrize(
    ("settings", "start", "end"),
    [
        (
            {"SCHEDULER_PRIORITY_QUEUE": OURS_SCHEDULER},
            "SCHEDULER_PRIORITY_QUEUE is 'scrapy_rep.Scheduler', but",
            "SCHEDULER = 'scrapy_rep.Scheduler'.",
        ),
        (
            {"DUPEFILTER_CLASS": OURS_SCHEDULER},
            "DUPEFILTER_CLASS is 'scrapy_rep.Scheduler', but",
            "SCHEDULER = 'scrapy_rep.Scheduler'.",
        ),
    ],
)
def test_a_class_in_the_wrong_setting_stops_the_start(
    settings: dict[str, Any], start: str, end: str
) -> None:
    """A class of this package that its setting cannot use stops the crawl; the error says where it
    belongs.
    """
    with pytest.raises(SettingError) as caught:
        settings_of(**settings)
    message = str(caught.value)
    assert message.startswith(start)
    assert message.endswith(end)


@pytest.mark.parametrize(
    "name", ["DOWNLOADER_MIDDLEWARES", "SPIDER_MIDDLEWARES", "EXTENSIONS"]
)
def test_the_addon_among_components_stops_the_start(name: str) -> None:
    """The add-on in a setting for components, where Scrapy would make it without any effect, stops
    the crawl; the error says where it belongs.
    """
    crawler = get_crawler(Spider, {name: {"scrapy_rep.Addon": 543}})
    with pytest.raises(SettingError) as caught:
        scrapy_rep.Addon.from_crawler(crawler)
    assert str(caught.value) == (
        f"A key of {name} is 'scrapy_rep.Addon', but it must be another class: an add-on belongs "
        "in ADDONS = {'scrapy_rep.Addon': 500}."
    )
