"""The Scrapy add-on: ``ADDONS = {"scrapy_rep.Addon": 500}``."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

from scrapy.core.scheduler import Scheduler
from scrapy.settings import SETTINGS_PRIORITIES
from scrapy.utils.misc import load_object
from scrapy.utils.python import global_object_name

from scrapy_rep.base import __version__
from scrapy_rep.base.browsers import uses_playwright
from scrapy_rep.base.log import get_logger
from scrapy_rep.base.settings import GATE, OBEY, is_dry_run

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

logger = get_logger(__name__)

# What the add-on enables is imported when it does so, not with this module.

_COMPONENTS = (
    ("DOWNLOADER_MIDDLEWARES", GATE),
    ("DOWNLOADER_MIDDLEWARES", "scrapy_rep.crawl.pages.indexing.IndexingMiddleware"),
    ("SPIDER_MIDDLEWARES", "scrapy_rep.crawl.pages.output.OutputMiddleware"),
    ("EXTENSIONS", "scrapy_rep.crawl.ledger.extension.LedgerExtension"),
)

_OF_BROWSERS = (
    ("DOWNLOADER_MIDDLEWARES", "scrapy_rep.playwright.PlaywrightMiddleware"),
)

_QUEUE = "scrapy_rep.HostQueue"

_SCRAPYS_OWN = "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware"


class Addon:
    """Enables this package's components, and replaces Scrapy's RobotsTxtMiddleware. The components
    read the settings when they are made, so that an invalid one stops Scrapy at the start.

    The project's own settings take precedence: ``ROBOTSTXT_OBEY`` is set at ``addon``
    priority, and a component of this package that the project sets keeps the order that the
    project gives. In a dry run (``REP_DRY_RUN``), everything that could change the crawl stays as
    it is: ``ROBOTSTXT_OBEY``, the scheduler, its queues and filter, and Scrapy's own middleware.
    """

    def __init__(self, crawler: Crawler | None = None) -> None:
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Addon:
        """Called by Scrapy."""
        return cls(crawler)

    def __repr__(self) -> str:
        """What Scrapy's list of add-ons in the log says."""
        return f"<scrapy_rep.Addon {__version__}>"

    def update_settings(self, settings: BaseSettings) -> None:
        if settings.getbool("TWISTED_REACTOR_ENABLED", True):
            # Each deprecated class in it has Scrapy look through all modules that are loaded, once
            # for each frame of the stack. Now these are fewer than when Scrapy needs the module.
            import_module("scrapy.core.downloader.contextfactory")
        if not is_dry_run(settings):
            settings.set(OBEY, True, "addon")
            settings.set("SCHEDULER_PRIORITY_QUEUE", _QUEUE, "addon")
            _use_dupefilter(settings)
            _prepare_for_workers(settings)
            _replace_scrapys_own(settings)
        is_for_browsers = uses_playwright(settings)
        for name, path in _COMPONENTS + (_OF_BROWSERS if is_for_browsers else ()):
            component = load_object(path)
            settings.setdefault_in_component_priority_dict(
                name, component, component.ORDER
            )
        if self._crawler is not None and _uses_jobdir(settings):
            job = load_object("scrapy_rep.crawl.frontier.jobdir.JobDir")
            job.of(self._crawler).make(settings)


def _use_dupefilter(settings: BaseSettings) -> None:
    """Replace Scrapy's default duplicate filter by the one that shares the file of HostQueue."""
    name = "DUPEFILTER_CLASS"
    if settings.getpriority(name) == SETTINGS_PRIORITIES["default"]:
        settings.set(name, "scrapy_rep.DupeFilter", "addon")


def _uses_jobdir(settings: BaseSettings) -> bool:
    """Whether HostQueue keeps the requests of the crawl in its JOBDIR, if it has one."""
    if not settings["JOBDIR"]:
        return False
    queue = load_object(settings["SCHEDULER_PRIORITY_QUEUE"])
    is_ours = isinstance(queue, type) and issubclass(queue, load_object(_QUEUE))
    # For issubclass(), each class with the methods of Scrapy's scheduler is a subclass of it.
    return is_ours and Scheduler in getattr(
        load_object(settings["SCHEDULER"]), "__mro__", ()
    )


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
        queue = "scrapy_rep.redis.RedisHostQueue"
        settings.set("SCHEDULER_QUEUE_CLASS", queue, "addon")
    url = _redis_url(settings)
    if settings.getpriority("REP_STORE") is None and url is not None:
        settings.set("REP_STORE", url, "addon")
    # The subclass leaves the fingerprints to this queue, so it works with no other.
    ours = load_object("scrapy_rep.redis.RedisHostQueue")
    is_ours = issubclass(load_object(settings["SCHEDULER_QUEUE_CLASS"]), ours)
    name = "DUPEFILTER_CLASS"
    if is_ours and load_object(settings[name]).__module__ == "scrapy_redis.dupefilter":
        settings.set(
            name, "scrapy_rep.redis.RedisDupeFilter", settings.getpriority(name) or 0
        )


def _redis_url(settings: BaseSettings) -> str | None:
    """The URL of scrapy-redis' server; None if a URL cannot express its settings."""
    if settings.get("REDIS_URL"):
        return str(settings["REDIS_URL"])
    if settings.getdict("REDIS_PARAMS"):
        return None
    host = settings.get("REDIS_HOST", "localhost")
    port = settings.get("REDIS_PORT", 6379)
    return f"redis://{host}:{port}/{settings.get('REDIS_DB', 0)}"


def _replace_scrapys_own(settings: BaseSettings) -> None:
    """Disable Scrapy's own middleware, also where the project names it, and warn about a
    subclass of it. If the project disables the one of this package, change nothing.
    """
    name = "DOWNLOADER_MIDDLEWARES"
    scrapys_own, gate = load_object(_SCRAPYS_OWN), load_object(GATE)
    orders, subclasses = {_SCRAPYS_OWN: None}, []
    for key, order in settings.getdict(name).items():
        component = load_object(key)
        if component is gate and order is None:
            return
        if component is scrapys_own:
            continue
        orders[key] = order
        is_class = isinstance(component, type)
        if is_class and issubclass(component, scrapys_own) and order is not None:
            subclasses.append(component)
    settings.set(name, orders, settings.getpriority(name) or 0)
    for subclass in subclasses if settings.getbool(OBEY) else ():
        logger.warning(
            "%(setting)s names %(subclass)s, a subclass of Scrapy's RobotsTxtMiddleware. It "
            "decides about each request in addition to scrapy-rep: it may refuse what "
            "scrapy-rep allows, REP_OVERRIDES has no effect on it, and the ledger does not "
            "record what it refuses. Remove it from the setting; or, to use it alone, set "
            "%(ours)s there to None.",
            {
                "setting": name,
                "subclass": global_object_name(subclass),
                "ours": GATE,
            },
        )
