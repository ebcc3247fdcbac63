"""The Scrapy add-on: ``ADDONS = {"scrapy_rep.Addon": 500}``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from scrapy.utils.misc import load_object

from scrapy_rep.downloadermiddlewares.indexing import IndexingMiddleware
from scrapy_rep.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy_rep.extensions.ledger import Ledger
from scrapy_rep.settings import OBEY, RepSettings
from scrapy_rep.spidermiddlewares.indexing import IndexingGateMiddleware

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

_SCRAPYS_OWN = "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware"


class Addon:
    """Enables this package's components, and replaces Scrapy's RobotsTxtMiddleware.

    The project's own settings take precedence: ``ROBOTSTXT_OBEY`` is set at ``addon``
    priority, and a component that the project sets keeps the order that the project gives.
    """

    def update_settings(self, settings: BaseSettings) -> None:
        settings.set(OBEY, True, "addon")
        settings.set("SCHEDULER_PRIORITY_QUEUE", "scrapy_rep.HostQueue", "addon")
        _prepare_for_workers(settings)
        _disable_scrapys_own(settings)
        for name, component in (
            ("DOWNLOADER_MIDDLEWARES", RobotsTxtMiddleware),
            ("DOWNLOADER_MIDDLEWARES", IndexingMiddleware),
            ("SPIDER_MIDDLEWARES", IndexingGateMiddleware),
            ("EXTENSIONS", Ledger),
        ):
            settings.setdefault_in_component_priority_dict(
                name, component, component.ORDER
            )
        # An invalid setting stops Scrapy at the start, not at the first request.
        RepSettings.from_settings(settings)


def _prepare_for_workers(settings: BaseSettings) -> None:
    """With the scheduler of scrapy-redis, let all workers share a host queue and a store,
    unless the project sets its own. With this queue, also replace scrapy-redis' duplicate
    filter by the subclass for it.
    """
    scheduler = load_object(settings["SCHEDULER"])
    package = sys.modules.get("scrapy_redis.scheduler")
    if package is None or not issubclass(scheduler, package.Scheduler):
        return
    if settings.getpriority("SCHEDULER_QUEUE_CLASS") is None:
        queue = "scrapy_rep.frontier.redis.HostQueue"
        settings.set("SCHEDULER_QUEUE_CLASS", queue, "addon")
    url = _redis_url(settings)
    if settings.getpriority("REP_STORE") is None and url is not None:
        settings.set("REP_STORE", url, "addon")
    # The subclass leaves the fingerprints to this queue, so it works with no other.
    from scrapy_rep.frontier.redis import HostQueue  # noqa: PLC0415  needs scrapy-redis

    is_ours = issubclass(load_object(settings["SCHEDULER_QUEUE_CLASS"]), HostQueue)
    name = "DUPEFILTER_CLASS"
    if is_ours and load_object(settings[name]).__module__ == "scrapy_redis.dupefilter":
        ours = "scrapy_rep.frontier.redis.dupefilter.DupeFilter"
        settings.set(name, ours, settings.getpriority(name) or 0)


def _redis_url(settings: BaseSettings) -> str | None:
    """The URL of scrapy-redis' server; None if a URL cannot express its settings."""
    if settings.get("REDIS_URL"):
        return str(settings["REDIS_URL"])
    if settings.getdict("REDIS_PARAMS"):
        return None
    host = settings.get("REDIS_HOST", "localhost")
    port = settings.get("REDIS_PORT", 6379)
    return f"redis://{host}:{port}/{settings.get('REDIS_DB', 0)}"


def _disable_scrapys_own(settings: BaseSettings) -> None:
    """Disable Scrapy's own middleware, unless the project sets it.

    ``setdefault_in_component_priority_dict`` cannot do this: Scrapy 2.14 does not recognise
    a class as the component whose import path is in the ``_BASE`` setting.
    """
    name = "DOWNLOADER_MIDDLEWARES"
    orders = settings.getdict(name)
    component = load_object(_SCRAPYS_OWN)
    if all(load_object(key) is not component for key in orders):
        orders[_SCRAPYS_OWN] = None
        settings.set(name, orders, settings.getpriority(name) or 0)
