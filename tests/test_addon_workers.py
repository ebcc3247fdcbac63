"""The add-on in a project with scrapy-redis' scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("scrapy_redis")

from scrapy import Spider
from scrapy.core.scheduler import Scheduler as ScrapysScheduler
from scrapy.dupefilters import RFPDupeFilter as ScrapysFilter
from scrapy.utils.misc import load_object
from scrapy.utils.test import get_crawler
from scrapy_redis.dupefilter import RFPDupeFilter
from scrapy_redis.queue import FifoQueue
from scrapy_redis.scheduler import Scheduler

from scrapy_rep.frontier.redis import HostQueue
from scrapy_rep.frontier.redis.dupefilter import DupeFilter

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

URL = "redis://127.0.0.1:1/3"


class OwnQueue(HostQueue):
    pass


class OwnFilter(RFPDupeFilter):
    pass


class OwnScheduler(Scheduler):
    pass


def settings_of(**settings: Any) -> BaseSettings:
    project = {
        "ADDONS": {"scrapy_rep.Addon": 500},
        "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
        "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
        **settings,
    }
    return get_crawler(Spider, project).settings


@pytest.mark.parametrize(
    "scheduler", ["scrapy_redis.scheduler.Scheduler", Scheduler, OwnScheduler]
)
def test_one_line(scheduler: Any) -> None:
    """With scrapy-redis' scheduler, the add-on sets this package's queue, its duplicate
    filter and the store in Redis.
    """
    found = settings_of(SCHEDULER=scheduler, REDIS_URL=URL)
    assert load_object(found["SCHEDULER_QUEUE_CLASS"]) is HostQueue
    assert load_object(found["DUPEFILTER_CLASS"]) is DupeFilter
    assert found["REP_STORE"] == URL


def test_other_schedulers() -> None:
    """With Scrapy's scheduler, the add-on sets none of the three."""
    found = settings_of(SCHEDULER=ScrapysScheduler, REDIS_URL=URL)
    assert found["SCHEDULER_QUEUE_CLASS"] is None
    assert load_object(found["DUPEFILTER_CLASS"]) is RFPDupeFilter
    assert found["REP_STORE"] is None


def test_the_project_has_a_queue() -> None:
    """If the project sets a queue class, it keeps that and its duplicate filter, because
    this package's filter records fingerprints only together with this package's queue.
    """
    found = settings_of(SCHEDULER_QUEUE_CLASS="scrapy_redis.queue.FifoQueue")
    assert load_object(found["SCHEDULER_QUEUE_CLASS"]) is FifoQueue
    assert load_object(found["DUPEFILTER_CLASS"]) is RFPDupeFilter


def test_the_project_has_a_queue_of_our_kind() -> None:
    found = settings_of(SCHEDULER_QUEUE_CLASS=OwnQueue)
    assert found["SCHEDULER_QUEUE_CLASS"] is OwnQueue
    assert load_object(found["DUPEFILTER_CLASS"]) is DupeFilter


@pytest.mark.parametrize("own", [OwnFilter, ScrapysFilter])
def test_the_project_has_a_filter(own: type) -> None:
    assert settings_of(DUPEFILTER_CLASS=own)["DUPEFILTER_CLASS"] is own


def test_the_project_has_a_store() -> None:
    found = settings_of(REP_STORE="memory://", REDIS_URL=URL)
    assert found["REP_STORE"] == "memory://"


@pytest.mark.parametrize(
    ("settings", "url"),
    [
        ({}, "redis://localhost:6379/0"),
        ({"REDIS_HOST": "r.example", "REDIS_PORT": 7}, "redis://r.example:7/0"),
        ({"REDIS_PARAMS": {"password": "x"}}, None),
        ({"REDIS_PARAMS": {"socket_timeout": 3}, "REDIS_URL": URL}, URL),
    ],
)
def test_where_the_store_is(settings: dict[str, Any], url: str | None) -> None:
    """The store is on the Redis server of the queue, if a URL can express
    the connection settings.
    """
    assert settings_of(**settings)["REP_STORE"] == url
