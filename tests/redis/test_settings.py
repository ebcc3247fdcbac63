"""Tests of the settings of scrapy-redis. If a project sets the scheduler of scrapy-redis, the add-on replaces it with
:class:`SharedScheduler`, which reads the same settings.
"""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("scrapy_redis")

from scrapy import Spider
from scrapy.core.scheduler import Scheduler as ScrapyScheduler
from scrapy.utils.misc import load_object
from scrapy.utils.test import get_crawler
from scrapy_redis.queue import FifoQueue
from scrapy_redis.scheduler import Scheduler

from scrapy_rep.exceptions import SettingError
from scrapy_rep.redis import SharedScheduler
from scrapy_rep.redis.exchange import connect

URL = "redis://127.0.0.1:1/3"
REDIS = {"REDIS_URL": URL}


class EmptySubclass(Scheduler):
    """A scheduler of a project that overrides nothing."""


class ChangedScheduler(Scheduler):
    """A scheduler of a project that overrides a method."""

    def flush(self) -> None:
        """Delete nothing."""


class SubclassOfChanged(ChangedScheduler):
    """A scheduler that inherits an overridden method."""


@pytest.mark.parametrize(
    ("project", "scheduler", "store"),
    [
        (REDIS, SharedScheduler, URL),
        ({}, SharedScheduler, "redis://localhost:6379/0"),
        ({"SCHEDULER": EmptySubclass, **REDIS}, SharedScheduler, URL),
        # The add-on replaces no scheduler or queue class that the project has changed.
        ({"SCHEDULER": ChangedScheduler, **REDIS}, ChangedScheduler, URL),
        ({"SCHEDULER": SubclassOfChanged, **REDIS}, SubclassOfChanged, URL),
        ({"SCHEDULER_QUEUE_CLASS": FifoQueue, **REDIS}, Scheduler, URL),
        ({"SCHEDULER": ScrapyScheduler, **REDIS}, ScrapyScheduler, None),
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
    """*project* is what the project sets in addition to the scheduler of scrapy-redis. *scheduler* and *store* are the
    settings after the add-on has changed them.
    """
    settings = {"SCHEDULER": "scrapy_redis.scheduler.Scheduler", **project}
    addons = {"ADDONS": {"scrapy_rep.Addon": 500}}
    crawler_settings = get_crawler(Spider, addons | settings).settings
    assert load_object(crawler_settings["SCHEDULER"]) is scheduler
    assert crawler_settings["REP_STORE"] == store


def test_the_scheduler_in_a_setting_for_another_class_is_an_error() -> None:
    """The error names the right setting, ``SCHEDULER``."""
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
def test_the_client_connects_as_scrapy_redis_does_but_has_a_short_timeout_and_no_retries(
    settings: dict[str, Any],
) -> None:
    """The project's settings remain unchanged."""
    crawler = get_crawler(Spider, settings)
    options = connect(crawler.settings).connection_pool.connection_kwargs
    server = [options[name] for name in ("host", "port", "db", "password")]
    assert server == ["127.0.0.1", 7, 3, "secret"]
    assert options["socket_timeout"] <= 3
    assert not options["decode_responses"]
    assert options["retry"]._retries == 0
    assert crawler.settings["REDIS_DECODE_RESPONSES"] == settings.get(
        "REDIS_DECODE_RESPONSES"
    )


def test_redis_cls_can_be_a_function_that_returns_a_client() -> None:
    """scrapy-redis accepts a function too."""
    client = object()
    settings = {"REDIS_PARAMS": {"redis_cls": lambda **_: client}}
    assert connect(get_crawler(Spider, settings).settings) is client
