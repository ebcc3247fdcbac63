"""The Scrapy add-on: ``ADDONS = {"scrapy_rep.Addon": 500}``."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.settings import SETTINGS_PRIORITIES
from scrapy.utils.misc import load_object
from scrapy.utils.python import global_object_name

from scrapy_rep.base import __version__
from scrapy_rep.base.browsers import uses_playwright
from scrapy_rep.base.log import get_logger
from scrapy_rep.base.settings import ADDON, GATE, OBEY, is_dry_run
from scrapy_rep.exceptions import SettingError

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
_QUEUE_SETTING = "SCHEDULER_PRIORITY_QUEUE"

_SCHEDULER = "scrapy.core.scheduler.Scheduler"

_QUEUE_OF_REDIS = "scrapy_rep.redis.RedisHostQueue"
_SCHEDULER_OF_REDIS = "scrapy_redis.scheduler.Scheduler"

_SETTINGS_OF_CLASSES = {
    "DupeFilter": "DUPEFILTER_CLASS",
    "HostQueue": "SCHEDULER_PRIORITY_QUEUE",
    "RedisDupeFilter": "DUPEFILTER_CLASS",
    "RedisHostQueue": "SCHEDULER_QUEUE_CLASS",
}
"""The setting that each class of this package is for."""

_SETTINGS_WITH_CLASSES = (
    "DUPEFILTER_CLASS", "SCHEDULER", "SCHEDULER_DISK_QUEUE", "SCHEDULER_MEMORY_QUEUE",
    "SCHEDULER_PRIORITY_QUEUE", "SCHEDULER_QUEUE_CLASS",
)  # fmt: skip
_SETTINGS_WITH_COMPONENTS = (
    "DOWNLOADER_MIDDLEWARES", "EXTENSIONS", "ITEM_PIPELINES", "SPIDER_MIDDLEWARES"
)  # fmt: skip

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
        """Called by Scrapy. Raises SettingError if that makes it as a component of another kind."""
        if crawler.settings.frozen:
            for name in _SETTINGS_WITH_COMPONENTS:
                for key, order in crawler.settings.getdict(name).items():
                    if order is not None and load_object(key) is cls:
                        place = f"A key of {name}"
                        allowed = (
                            f"another class: an add-on belongs in ADDONS = {ADDON}"
                        )
                        raise SettingError(place, _path_of(key), allowed)
        return cls(crawler)

    def __repr__(self) -> str:
        """What Scrapy's list of add-ons in the log says."""
        return f"<scrapy_rep.Addon {__version__}>"

    def update_settings(self, settings: BaseSettings) -> None:
        if settings.getbool("TWISTED_REACTOR_ENABLED", True):
            # Each deprecated class in it has Scrapy look through all modules that are loaded, once
            # for each frame of the stack. Now these are fewer than when Scrapy needs the module.
            import_module("scrapy.core.downloader.contextfactory")
        _check_classes(settings)
        if not is_dry_run(settings):
            settings.set(OBEY, True, "addon")
            settings.set(_QUEUE_SETTING, _QUEUE, "addon")
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
        if self._crawler is not None and len(settings.getdict("ADDONS")) > 1:
            self._crawler.signals.connect(self._warn_of_others, signals.spider_opened)

    def _warn_of_others(self) -> None:
        """Warn if another add-on has replaced the scheduler or its queue."""
        assert self._crawler is not None
        settings, addons = self._crawler.settings, self._crawler.addons.addons
        if is_dry_run(settings) or not settings.getbool(OBEY) or _shares(settings):
            return
        others = [global_object_name(type(each)) for each in addons if each is not self]
        # The order of the add-ons decides only about what this one sets, too.
        order = "give scrapy_rep.Addon the greatest number in ADDONS, or "
        for name, ours, remedy in (
            ("SCHEDULER", _SCHEDULER, ""), (_QUEUE_SETTING, _QUEUE, order),
        ):  # fmt: skip
            if settings.getpriority(name) != SETTINGS_PRIORITIES["addon"]:
                continue
            if not _is_kind(settings[name], ours):
                logger.warning(
                    "Another add-on (%(addons)s) has set %(setting)s to %(value)s. With that, "
                    "requests that wait for a robots.txt or for the delay of their host take "
                    "places of CONCURRENT_REQUESTS and slow down other hosts. To mend that, "
                    "%(remedy)sset %(setting)s = %(ours)r in the settings of the project, which "
                    "come before those of add-ons",
                    {
                        "addons": ", ".join(others),
                        "setting": name,
                        "value": _path_of(settings[name]),
                        "ours": ours,
                        "remedy": remedy,
                    },
                )


def _is_kind(named: Any, path: str) -> bool:
    """Whether a class, or the path of one, is the class at *path*, or a subclass of it."""
    # For issubclass(), each class with the methods of Scrapy's scheduler is a subclass of it.
    return load_object(path) in getattr(load_object(named), "__mro__", ())


def _shares(settings: BaseSettings) -> bool:
    """Whether the crawl uses the queue that workers share."""
    queue = settings["SCHEDULER_QUEUE_CLASS"]
    return bool(queue) and _is_of_redis(settings) and _is_kind(queue, _QUEUE_OF_REDIS)


def _path_of(named: Any) -> str:
    """Return the import path of a class that is named by it, or is there itself."""
    return named if isinstance(named, str) else global_object_name(named)


def _check_classes(settings: BaseSettings) -> None:
    """Raise SettingError if a class of this package is in a setting for classes of another kind,
    or is for scrapy-redis, and the scheduler is another one.
    """
    for name in _SETTINGS_WITH_CLASSES:
        if not (path := _ours(settings, name)):
            continue
        kind = path.rpartition(".")[2]
        meant = _SETTINGS_OF_CLASSES[kind]
        scheduler = (
            f" and SCHEDULER = {_SCHEDULER_OF_REDIS!r}"
            if kind.startswith("Redis")
            else ""
        )
        usual = f"{meant} = {path!r}{scheduler}"
        if name != meant:
            raise SettingError(name, path, f"another class: this one is for {usual}")
        if scheduler and not _is_of_redis(settings):
            allowed = (
                f"that of scrapy-redis, or a subclass of it: {path} is for {usual}"
            )
            raise SettingError("SCHEDULER", _path_of(settings["SCHEDULER"]), allowed)
        queue = settings["SCHEDULER_QUEUE_CLASS"]
        is_missing = queue is None and not is_dry_run(settings)  # The add-on sets it.
        if kind != "RedisDupeFilter" or is_missing:
            continue
        if queue is None or not _is_kind(queue, _QUEUE_OF_REDIS):
            allowed = f"{_QUEUE_OF_REDIS!r}, since {usual}"
            raise SettingError(
                "SCHEDULER_QUEUE_CLASS", queue and _path_of(queue), allowed
            )


def _ours(settings: BaseSettings, name: str) -> str:
    """Return the path of the class in a setting, if it is a queue or a filter of this package;
    else an empty string. It need not be imported for that.
    """
    path = _path_of(settings[name]) if settings[name] else ""
    is_ours = path.startswith("scrapy_rep.")
    return path if is_ours and path.rpartition(".")[2] in _SETTINGS_OF_CLASSES else ""


def _use_dupefilter(settings: BaseSettings) -> None:
    """Replace Scrapy's default duplicate filter by the one that shares the file of HostQueue."""
    name = "DUPEFILTER_CLASS"
    if settings.getpriority(name) == SETTINGS_PRIORITIES["default"]:
        settings.set(name, "scrapy_rep.DupeFilter", "addon")


def _uses_jobdir(settings: BaseSettings) -> bool:
    """Whether HostQueue keeps the requests of the crawl in its JOBDIR, if it has one."""
    if not settings["JOBDIR"]:
        return False
    return _is_kind(settings[_QUEUE_SETTING], _QUEUE) and _is_kind(
        settings["SCHEDULER"], _SCHEDULER
    )


def _prepare_for_workers(settings: BaseSettings) -> None:
    """With the scheduler of scrapy-redis, let all workers share a host queue and a store,
    unless the project sets its own. With this queue, also replace scrapy-redis' duplicate
    filter by the subclass for it.
    """
    if not _is_of_redis(settings):
        return
    if settings.getpriority("SCHEDULER_QUEUE_CLASS") is None:
        settings.set("SCHEDULER_QUEUE_CLASS", _QUEUE_OF_REDIS, "addon")
    url = _redis_url(settings)
    if settings.getpriority("REP_STORE") is None and url is not None:
        settings.set("REP_STORE", url, "addon")
    # The subclass leaves the fingerprints to this queue, so it works with no other.
    ours = load_object(_QUEUE_OF_REDIS)
    is_ours = issubclass(load_object(settings["SCHEDULER_QUEUE_CLASS"]), ours)
    name = "DUPEFILTER_CLASS"
    if is_ours and load_object(settings[name]).__module__ == "scrapy_redis.dupefilter":
        settings.set(
            name, "scrapy_rep.redis.RedisDupeFilter", settings.getpriority(name) or 0
        )


def _is_of_redis(settings: BaseSettings) -> bool:
    """Whether the scheduler is that of scrapy-redis."""
    scheduler = load_object(settings["SCHEDULER"])
    package = sys.modules.get("scrapy_redis.scheduler")
    return package is not None and issubclass(scheduler, package.Scheduler)


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
