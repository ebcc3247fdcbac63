"""The scheduler of scrapy-redis in a project is what switches this one on, with its settings."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("scrapy_redis")

from scrapy import Spider
from scrapy.core.scheduler import Scheduler as ScrapysScheduler
from scrapy.utils.misc import load_object
from scrapy.utils.test import get_crawler
from scrapy_redis.queue import FifoQueue
from scrapy_redis.scheduler import Scheduler

from scrapy_rep.exceptions import SettingError
from scrapy_rep.redis import SharedScheduler
from scrapy_rep.redis.exchange import connect

URL = "redis://127.0.0.1:1/3"
REDIS = {"REDIS_URL": URL}


class Named(Scheduler):
    """A subclass without code of its own."""


class Changed(Scheduler):
    def flush(self) -> None:
        """Keep all."""


class Inherited(Changed):
    pass


@pytest.mark.parametrize(
    ("project", "scheduler", "store"),
    [
        (REDIS, SharedScheduler, URL),
        ({}, SharedScheduler, "redis://localhost:6379/0"),
        ({"SCHEDULER": Named, **REDIS}, SharedScheduler, URL),
        # What the project has made itself, it keeps.
        ({"SCHEDULER": Changed, **REDIS}, Changed, URL),
        ({"SCHEDULER": Inherited, **REDIS}, Inherited, URL),
        ({"SCHEDULER_QUEUE_CLASS": FifoQueue, **REDIS}, Scheduler, URL),
        ({"SCHEDULER": ScrapysScheduler, **REDIS}, ScrapysScheduler, None),
        ({"SCHEDULER": SharedScheduler, **REDIS}, SharedScheduler, None),
        # The store is on the Redis server of the queue, if a URL can express its settings.
        ({"REP_STORE": "memory://", **REDIS}, SharedScheduler, "memory://"),
        ({"REDIS_HOST": "r", "REDIS_PORT": 7}, SharedScheduler, "redis://r:7/0"),
        ({"REDIS_PARAMS": {"password": "x"}}, SharedScheduler, None),
        ({"REDIS_PARAMS": {"socket_timeout": 3}, **REDIS}, SharedScheduler, URL),
        ({"REP_DRY_RUN": True, **REDIS}, Scheduler, None),
    ],
)
def test_the_addon_sets_scheduler_and_store_unless_the_project_does(
    project: dict[str, Any], scheduler: type, store: str | None
) -> None:
    """The add-on sets this package's scheduler, and the store in Redis. What the project sets has priority."""
    settings = {"SCHEDULER": "scrapy_redis.scheduler.Scheduler", **project}
    addons = {"ADDONS": {"scrapy_rep.Addon": 500}}
    queue = get_crawler(Spider, addons | settings).settings
    assert load_object(queue["SCHEDULER"]) is scheduler
    assert queue["REP_STORE"] == store


def test_the_scheduler_in_a_setting_for_another_class_is_an_error() -> None:
    """An error names the setting that the scheduler is for."""
    settings = {
        "ADDONS": {"scrapy_rep.Addon": 500},
        "SCHEDULER_QUEUE_CLASS": "scrapy_rep.redis.SharedScheduler",
    }
    with pytest.raises(SettingError, match="SCHEDULER = "):
        get_crawler(Spider, settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"REDIS_URL": "redis://:secret@127.0.0.1:7/3"},
        {
            "REDIS_HOST": "127.0.0.1",
            "REDIS_PORT": 7,
            "REDIS_DB": 3,
            "REDIS_PARAMS": {"password": "secret", "socket_timeout": 99},
            "REDIS_DECODE_RESPONSES": True,
        },
    ],
)
def test_the_connection_follows_scrapy_redis_settings_and_fails_soon(
    settings: dict[str, Any],
) -> None:
    """The settings of scrapy-redis say where the server is. Calls end soon, and are not repeated by the client."""
    crawler = get_crawler(Spider, settings)
    options = connect(crawler.settings).connection_pool.connection_kwargs
    where = [options[name] for name in ("host", "port", "db", "password")]
    assert where == ["127.0.0.1", 7, 3, "secret"]
    assert options["socket_timeout"] <= 3
    assert not options["decode_responses"]
    assert options["retry"]._retries == 0
    assert crawler.settings["REDIS_DECODE_RESPONSES"] == settings.get(
        "REDIS_DECODE_RESPONSES"
    )


def test_a_function_can_make_the_client() -> None:
    """As with scrapy-redis, ``redis_cls`` need not be a class."""
    client = object()
    settings = {"REDIS_PARAMS": {"redis_cls": lambda **_: client}}
    assert connect(get_crawler(Spider, settings).settings) is client
