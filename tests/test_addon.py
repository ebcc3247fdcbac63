"""Tests of :class:`scrapy_rep.Addon`, and of project settings that override those of the add-on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from scrapy.downloadermiddlewares.robotstxt import (
    RobotsTxtMiddleware as ScrapysRobotsTxtMiddleware,
)
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

REP_MIDDLEWARE = "scrapy_rep.crawl.gate.RobotsTxtMiddleware"
SCRAPYS_MIDDLEWARE = "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware"


class Subclass(ScrapysRobotsTxtMiddleware):
    """A project's subclass of Scrapy's middleware."""


def settings_of(
    custom_settings: dict[str, Any] | None = None, **settings: Any
) -> BaseSettings:
    """Return the settings of a crawl after the add-on has changed them. *settings* are those of the project, and
    *custom_settings* those of the spider.
    """
    spider = type("ASpider", (Spider,), {"custom_settings": custom_settings})
    project = {"ADDONS": {"scrapy_rep.Addon": 500}, **settings}
    return get_crawler(spider, project).settings


@pytest.mark.parametrize("where", ["settings", "custom_settings"])
@pytest.mark.parametrize(
    ("orders", "rep_order", "scrapys_order"),
    [
        ({}, 100, None),
        ({SCRAPYS_MIDDLEWARE: 543}, 100, None),
        ({ScrapysRobotsTxtMiddleware: 100}, 100, None),
        ({REP_MIDDLEWARE: 650}, 650, None),
        ({RobotsTxtMiddleware: 650}, 650, None),
        ({REP_MIDDLEWARE: None}, None, 100),
        ({SCRAPYS_MIDDLEWARE: 543, REP_MIDDLEWARE: None}, None, 543),
    ],
)
def test_the_addon_replaces_scrapys_robotstxt_middleware(
    where: str,
    orders: dict[Any, int | None],
    rep_order: int | None,
    scrapys_order: int | None,
) -> None:
    """The add-on also sets ROBOTSTXT_OBEY. Scrapy's middleware is replaced even if the project or the spider lists it,
    by its import path or its class. The project can change the order of this package's middleware, or disable it: then
    Scrapy's middleware is kept.
    """
    changed = {"DOWNLOADER_MIDDLEWARES": orders} if orders else {}
    is_of_spider = where == "custom_settings"
    settings = settings_of(changed) if is_of_spider else settings_of(**changed)
    middlewares = settings.getwithbase("DOWNLOADER_MIDDLEWARES")
    loaded = {load_object(key): order for key, order in middlewares.items()}
    assert (loaded[RobotsTxtMiddleware], loaded[ScrapysRobotsTxtMiddleware]) == (
        rep_order,
        scrapys_order,
    )
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
    middlewares = settings_of(**settings).getwithbase("DOWNLOADER_MIDDLEWARES")
    assert (PlaywrightMiddleware in middlewares) is is_used


def test_the_repr_of_the_addon_has_its_version() -> None:
    """Scrapy logs the list of add-ons, so the version is in the log."""
    assert repr(scrapy_rep.Addon()) == f"<scrapy_rep.Addon {scrapy_rep.__version__}>"


def test_robotstxt_obey_of_the_project_overrides_the_addon() -> None:
    assert not settings_of(ROBOTSTXT_OBEY=False).getbool("ROBOTSTXT_OBEY")


@pytest.mark.parametrize(
    ("orders", "obeys", "warns"),
    [
        ({Subclass: 100}, True, True),
        ({Subclass: 100}, False, False),
        ({Subclass: 100, REP_MIDDLEWARE: None}, True, False),
        ({Subclass: None}, True, False),
    ],
)
def test_a_subclass_of_scrapys_middleware_is_kept_with_a_warning(
    caplog: pytest.LogCaptureFixture, orders: dict[Any, Any], obeys: bool, warns: bool
) -> None:
    """If both the subclass and this package's middleware are enabled, a warning explains which setting to change."""
    settings = settings_of(DOWNLOADER_MIDDLEWARES=orders, ROBOTSTXT_OBEY=obeys)
    orders_set = settings.getdict("DOWNLOADER_MIDDLEWARES")
    assert orders_set[Subclass] == orders[Subclass]
    records = [
        record for record in caplog.records if record.name == "scrapy_rep.crawl.addon"
    ]
    assert [record.levelname for record in records] == ["WARNING"] * warns
    for record in records:
        message = record.getMessage()
        assert "DOWNLOADER_MIDDLEWARES contains tests.test_addon.Subclass" in message
        assert f"set {REP_MIDDLEWARE} to None in DOWNLOADER_MIDDLEWARES" in message


def test_an_invalid_setting_stops_the_crawl_at_the_start() -> None:
    with pytest.raises(SettingError, match="REP_DIALECT is 'gogle'"):
        settings_of(REP_DIALECT="gogle")


REP_SCHEDULER = "scrapy_rep.Scheduler"
SCRAPYS_SCHEDULER = "scrapy.core.scheduler.Scheduler"
SCRAPYS_QUEUE = "scrapy.pqueues.ScrapyPriorityQueue"


@pytest.mark.parametrize(
    ("settings", "scheduler"),
    [
        ({}, REP_SCHEDULER),
        ({"SCHEDULER": SCRAPYS_SCHEDULER}, SCRAPYS_SCHEDULER),
        ({"SCHEDULER_PRIORITY_QUEUE": SCRAPYS_QUEUE}, SCRAPYS_SCHEDULER),
        ({"SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.FifoMemoryQueue"}, REP_SCHEDULER),
        ({"DUPEFILTER_CLASS": "scrapy.dupefilters.BaseDupeFilter"}, REP_SCHEDULER),
        ({"REP_DRY_RUN": True}, SCRAPYS_SCHEDULER),
    ],
)
@pytest.mark.parametrize("where", ["settings", "custom_settings"])
def test_the_addon_sets_the_scheduler_unless_the_project_sets_it(
    where: str, settings: dict[str, Any], scheduler: str
) -> None:
    """The add-on sets SCHEDULER, unless the project or the spider sets SCHEDULER or SCHEDULER_PRIORITY_QUEUE. In a dry
    run, the add-on does not set it.
    """
    is_of_spider = where == "custom_settings" and "REP_DRY_RUN" not in settings
    changed = settings_of(settings) if is_of_spider else settings_of(**settings)
    assert global_object_name(load_object(changed["SCHEDULER"])) == global_object_name(
        load_object(scheduler)
    )
    for name, value in settings.items():
        assert changed[name] == value


@pytest.mark.parametrize(
    ("settings", "start", "end"),
    [
        (
            {"SCHEDULER_PRIORITY_QUEUE": REP_SCHEDULER},
            "SCHEDULER_PRIORITY_QUEUE is 'scrapy_rep.Scheduler', but",
            "SCHEDULER = 'scrapy_rep.Scheduler'.",
        ),
        (
            {"DUPEFILTER_CLASS": REP_SCHEDULER},
            "DUPEFILTER_CLASS is 'scrapy_rep.Scheduler', but",
            "SCHEDULER = 'scrapy_rep.Scheduler'.",
        ),
    ],
)
def test_a_class_in_the_wrong_setting_stops_the_crawl_at_the_start(
    settings: dict[str, Any], start: str, end: str
) -> None:
    """The error names the setting to which the class belongs."""
    with pytest.raises(SettingError) as caught:
        settings_of(**settings)
    message = str(caught.value)
    assert message.startswith(start)
    assert message.endswith(end)


@pytest.mark.parametrize(
    "name", ["DOWNLOADER_MIDDLEWARES", "SPIDER_MIDDLEWARES", "EXTENSIONS"]
)
def test_the_addon_in_a_setting_for_components_stops_the_crawl_at_the_start(
    name: str,
) -> None:
    """Without the error, Scrapy would create the add-on as a component, which has no effect."""
    crawler = get_crawler(Spider, {name: {"scrapy_rep.Addon": 543}})
    with pytest.raises(SettingError) as caught:
        scrapy_rep.Addon.from_crawler(crawler)
    assert str(caught.value) == (
        f"A key of {name} is 'scrapy_rep.Addon', but it must be another class: an add-on belongs "
        "in ADDONS = {'scrapy_rep.Addon': 500}."
    )
