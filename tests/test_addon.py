"""The add-on, and settings of a project that override it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from scrapy.core.scheduler import Scheduler as ScrapysScheduler
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware as ScrapysOwn
from scrapy.dupefilters import RFPDupeFilter as ScrapysFilter
from scrapy.spiders import Spider
from scrapy.utils.misc import load_object
from scrapy.utils.test import get_crawler
from scrapy_redis.dupefilter import RFPDupeFilter
from scrapy_redis.queue import FifoQueue
from scrapy_redis.scheduler import Scheduler

import scrapy_rep
from scrapy_rep.crawl.gate import RobotsTxtMiddleware
from scrapy_rep.exceptions import SettingError
from scrapy_rep.playwright import PlaywrightMiddleware
from scrapy_rep.redis import RedisDupeFilter, RedisHostQueue

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

OURS = "scrapy_rep.crawl.gate.RobotsTxtMiddleware"
THEIRS = "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware"
URL = "redis://127.0.0.1:1/3"
REDIS = {"REDIS_URL": URL}
OF_REDIS = "SCHEDULER = 'scrapy_redis.scheduler.Scheduler'."


class Subclass(ScrapysOwn):
    """A middleware of a project."""


class OwnQueue(RedisHostQueue):
    pass


class OwnFilter(RFPDupeFilter):
    pass


class OwnScheduler(Scheduler):
    pass


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
        ({}, 595, None),
        ({THEIRS: 543}, 595, None),
        ({ScrapysOwn: 100}, 595, None),
        ({OURS: 650}, 650, None),
        ({RobotsTxtMiddleware: 650}, 650, None),
        ({OURS: None}, None, 100),
        ({THEIRS: 543, OURS: None}, None, 543),
    ],
)
def test_the_middleware(
    where: str, orders: dict[Any, int | None], ours: int | None, theirs: int | None
) -> None:
    """The add-on sets ROBOTSTXT_OBEY, and replaces Scrapy's robots.txt middleware, even if the
    project or the spider names that, by its path or its class. The project can move this
    package's middleware, or disable it: then Scrapy's own one is kept.
    """
    named = {"DOWNLOADER_MIDDLEWARES": orders} if orders else {}
    is_of_spider = where == "custom_settings"
    settings = settings_of(named) if is_of_spider else settings_of(**named)
    found = settings.getwithbase("DOWNLOADER_MIDDLEWARES")
    loaded = {load_object(key): order for key, order in found.items()}
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
def test_a_browser(settings: dict[str, Any], is_used: bool) -> None:
    """Only a crawl with scrapy-playwright has a middleware for its browser."""
    found = settings_of(**settings).getwithbase("DOWNLOADER_MIDDLEWARES")
    assert (PlaywrightMiddleware in found) is is_used


def test_what_the_log_calls_it() -> None:
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
def test_a_subclass_of_theirs(
    caplog: pytest.LogCaptureFixture, orders: dict[Any, Any], obeys: bool, warned: bool
) -> None:
    """A subclass of Scrapy's middleware is kept. If it is used beside this package's one, a
    warning says what to do.
    """
    settings = settings_of(DOWNLOADER_MIDDLEWARES=orders, ROBOTSTXT_OBEY=obeys)
    found = settings.getdict("DOWNLOADER_MIDDLEWARES")
    assert found[Subclass] == orders[Subclass]
    records = [each for each in caplog.records if each.name == "scrapy_rep.crawl.addon"]
    assert [each.levelname for each in records] == ["WARNING"] * warned
    for each in records:
        message = each.getMessage()
        assert "DOWNLOADER_MIDDLEWARES names tests.test_addon.Subclass" in message
        assert f"set {OURS} there to None" in message


def test_a_bad_setting_stops_the_start() -> None:
    """An invalid setting stops the crawl before anything is fetched."""
    with pytest.raises(SettingError, match="REP_DIALECT is 'gogle'"):
        settings_of(REP_DIALECT="gogle")


@pytest.mark.parametrize(
    ("project", "queue", "duplicates", "store"),
    [
        (REDIS, RedisHostQueue, RedisDupeFilter, URL),
        (
            {"SCHEDULER": Scheduler},
            RedisHostQueue,
            RedisDupeFilter,
            "redis://localhost:6379/0",
        ),
        ({"SCHEDULER": OwnScheduler, **REDIS}, RedisHostQueue, RedisDupeFilter, URL),
        # With Scrapy's scheduler, it sets none of the three.
        ({"SCHEDULER": ScrapysScheduler, **REDIS}, None, RFPDupeFilter, None),
        # This package's filter records fingerprints only together with its queue.
        ({"SCHEDULER_QUEUE_CLASS": FifoQueue, **REDIS}, FifoQueue, RFPDupeFilter, URL),
        ({"SCHEDULER_QUEUE_CLASS": OwnQueue, **REDIS}, OwnQueue, RedisDupeFilter, URL),
        ({"DUPEFILTER_CLASS": OwnFilter, **REDIS}, RedisHostQueue, OwnFilter, URL),
        (
            {"DUPEFILTER_CLASS": ScrapysFilter, **REDIS},
            RedisHostQueue,
            ScrapysFilter,
            URL,
        ),
        # The store is on the Redis server of the queue, if a URL can express its settings.
        (
            {"REP_STORE": "memory://", **REDIS},
            RedisHostQueue,
            RedisDupeFilter,
            "memory://",
        ),
        (
            {"REDIS_HOST": "r", "REDIS_PORT": 7},
            RedisHostQueue,
            RedisDupeFilter,
            "redis://r:7/0",
        ),
        ({"REDIS_PARAMS": {"password": "x"}}, RedisHostQueue, RedisDupeFilter, None),
        (
            {"REDIS_PARAMS": {"socket_timeout": 3}, **REDIS},
            RedisHostQueue,
            RedisDupeFilter,
            URL,
        ),
    ],
)
def test_several_workers(
    project: dict[str, Any], queue: type | None, duplicates: type, store: str | None
) -> None:
    """With scrapy-redis' scheduler, the add-on sets this package's queue, its duplicate filter
    and the store in Redis. What the project sets has priority.
    """
    theirs = {
        "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
        "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
    }
    found = settings_of(**theirs | project)
    named = found["SCHEDULER_QUEUE_CLASS"]
    assert (named and load_object(named)) is queue
    assert load_object(found["DUPEFILTER_CLASS"]) is duplicates
    assert found["REP_STORE"] == store


@pytest.mark.parametrize(
    ("settings", "start", "end"),
    [
        (
            {"SCHEDULER_PRIORITY_QUEUE": "scrapy_rep.redis.RedisHostQueue"},
            "SCHEDULER_PRIORITY_QUEUE is 'scrapy_rep.redis.RedisHostQueue', but",
            f"SCHEDULER_QUEUE_CLASS = 'scrapy_rep.redis.RedisHostQueue' and {OF_REDIS}",
        ),
        (
            {"SCHEDULER": RedisHostQueue},
            "SCHEDULER is 'scrapy_rep.redis.queue.RedisHostQueue', but",
            f"SCHEDULER_QUEUE_CLASS = 'scrapy_rep.redis.queue.RedisHostQueue' and {OF_REDIS}",
        ),
        (
            {"SCHEDULER_QUEUE_CLASS": "scrapy_rep.HostQueue", "SCHEDULER": Scheduler},
            "SCHEDULER_QUEUE_CLASS is 'scrapy_rep.HostQueue', but",
            "SCHEDULER_PRIORITY_QUEUE = 'scrapy_rep.HostQueue'.",
        ),
        (
            {"DUPEFILTER_CLASS": "scrapy_rep.redis.RedisHostQueue"},
            "DUPEFILTER_CLASS is ",
            OF_REDIS,
        ),
        (
            {"SCHEDULER_QUEUE_CLASS": RedisHostQueue},
            "SCHEDULER is 'scrapy.core.scheduler.Scheduler', but it must be that of scrapy-redis",
            OF_REDIS,
        ),
        (
            {"DUPEFILTER_CLASS": "scrapy_rep.redis.RedisDupeFilter"},
            "SCHEDULER is 'scrapy.core.scheduler.Scheduler', but it must be that of scrapy-redis",
            OF_REDIS,
        ),
        (
            {
                "DUPEFILTER_CLASS": RedisDupeFilter,
                "SCHEDULER_QUEUE_CLASS": FifoQueue,
                "SCHEDULER": Scheduler,
            },
            "SCHEDULER_QUEUE_CLASS is 'scrapy_redis.queue.FifoQueue', but it must be ",
            OF_REDIS,
        ),
    ],
)
def test_classes_in_the_wrong_setting(
    settings: dict[str, Any], start: str, end: str
) -> None:
    """A queue or a filter that its setting, or the scheduler, cannot use stops the crawl; the error
    says where it belongs.
    """
    with pytest.raises(SettingError) as caught:
        settings_of(**settings)
    message = str(caught.value)
    assert message.startswith(start)
    assert message.endswith(end)


@pytest.mark.parametrize(
    "name", ["DOWNLOADER_MIDDLEWARES", "SPIDER_MIDDLEWARES", "EXTENSIONS"]
)
def test_the_addon_among_components(name: str) -> None:
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
