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
    ("DOWNLOADER_MIDDLEWARES", "scrapy_rep.crawl.gate.ArrivalMiddleware"),
    ("DOWNLOADER_MIDDLEWARES", "scrapy_rep.crawl.wire.WireMiddleware"),
    ("DOWNLOADER_MIDDLEWARES", "scrapy_rep.crawl.pages.indexing.IndexingMiddleware"),
    ("SPIDER_MIDDLEWARES", "scrapy_rep.crawl.pages.output.OutputMiddleware"),
    ("EXTENSIONS", "scrapy_rep.crawl.ledger.extension.LedgerExtension"),
)

_OF_BROWSERS = (
    ("DOWNLOADER_MIDDLEWARES", "scrapy_rep.playwright.PlaywrightMiddleware"),
)

_SCHEDULER = "scrapy_rep.Scheduler"
_OF_WORKERS = "scrapy_rep.redis.SharedScheduler"

_SETTINGS_OF_CLASSES = {"Scheduler": "SCHEDULER", "SharedScheduler": "SCHEDULER"}
"""The setting to which each class of this package belongs."""

_SETTINGS_WITH_CLASSES = (
    "DUPEFILTER_CLASS", "SCHEDULER", "SCHEDULER_DISK_QUEUE", "SCHEDULER_MEMORY_QUEUE",
    "SCHEDULER_PRIORITY_QUEUE", "SCHEDULER_QUEUE_CLASS",
)  # fmt: skip
_SETTINGS_WITH_COMPONENTS = (
    "DOWNLOADER_MIDDLEWARES", "EXTENSIONS", "ITEM_PIPELINES", "SPIDER_MIDDLEWARES"
)  # fmt: skip

_MIDDLEWARE_OF_SCRAPY = "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware"


class Addon:
    """Enables the components of this package, and replaces Scrapy's RobotsTxtMiddleware. The components
    read the settings when they are made, so an invalid setting stops Scrapy at the start.

    The settings of the project take precedence: ``ROBOTSTXT_OBEY`` is set at ``addon``
    priority, and a component of this package that the project sets keeps the order that the
    project gives. A dry run (``REP_DRY_RUN``) leaves everything that could change the crawl as
    it is: ``ROBOTSTXT_OBEY``, the scheduler, its queues and filter, and Scrapy's middleware.
    """

    def __init__(self, crawler: Crawler | None = None) -> None:
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Addon:
        """Called by Scrapy. Raises SettingError if the add-on is in a setting for components of another
        kind.
        """
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
        """Return the name and version for Scrapy's list of add-ons in the log."""
        return f"<scrapy_rep.Addon {__version__}>"

    def update_settings(self, settings: BaseSettings) -> None:
        if settings.getbool("TWISTED_REACTOR_ENABLED", True):
            # For each deprecated class in it, Scrapy looks through all modules that are loaded, once
            # for each frame of the stack. Fewer are loaded now than when Scrapy needs this module.
            import_module("scrapy.core.downloader.contextfactory")
        _check_classes(settings)
        if not is_dry_run(settings):
            settings.set(OBEY, True, "addon")
            _use_scheduler(settings)
            _prepare_for_workers(settings)
            _replace_middleware_of_scrapy(settings)
        is_for_browsers = uses_playwright(settings)
        for name, path in _COMPONENTS + (_OF_BROWSERS if is_for_browsers else ()):
            component = load_object(path)
            settings.setdefault_in_component_priority_dict(
                name, component, component.ORDER
            )
        if self._crawler is not None and settings["JOBDIR"]:
            of_jobs = "prepare_folder" if _is_ours(settings) else "check_folder"
            check = load_object(f"scrapy_rep.crawl.frontier.jobs.{of_jobs}")
            check(self._crawler, settings)
        if self._crawler is not None and len(settings.getdict("ADDONS")) > 1:
            self._crawler.signals.connect(self._warn_of_others, signals.spider_opened)

    def _warn_of_others(self) -> None:
        """Warn if another add-on has replaced the scheduler."""
        assert self._crawler is not None
        settings, addons = self._crawler.settings, self._crawler.addons.addons
        name = "SCHEDULER"
        if is_dry_run(settings) or not settings.getbool(OBEY) or _is_ours(settings):
            return
        if settings.getpriority(name) != SETTINGS_PRIORITIES["addon"]:
            return
        others = [
            global_object_name(type(addon)) for addon in addons if addon is not self
        ]
        logger.warning(
            "Another add-on (%(addons)s) has set %(setting)s to %(value)s. With that, requests "
            "that wait for a robots.txt or for the delay of their host take places of "
            "CONCURRENT_REQUESTS and slow down other hosts. To mend that, give "
            "scrapy_rep.Addon the greatest number in ADDONS, or set %(setting)s = %(ours)r in "
            "the settings of the project, which come before those of add-ons",
            {
                "addons": ", ".join(others),
                "setting": name,
                "value": _path_of(settings[name]),
                "ours": _SCHEDULER,
            },
        )


def _path_of(named: Any) -> str:
    """Return the import path of a class that a setting has, or names by its path."""
    return named if isinstance(named, str) else global_object_name(named)


def _check_classes(settings: BaseSettings) -> None:
    """Raise SettingError if a class of this package is in a setting for classes of another kind."""
    for name in _SETTINGS_WITH_CLASSES:
        path = _path_of(settings[name]) if settings[name] else ""
        kind = path.rpartition(".")[2]
        meant = (
            _SETTINGS_OF_CLASSES.get(kind) if path.startswith("scrapy_rep.") else None
        )
        if meant is not None and name != meant:
            usual = f"{meant} = {path!r}"
            raise SettingError(name, path, f"another class: this one is for {usual}")


def _use_scheduler(settings: BaseSettings) -> None:
    """Replace Scrapy's default scheduler, unless the project has a priority queue for it."""
    is_of_project = [
        (settings.getpriority(name) or 0) > SETTINGS_PRIORITIES["addon"]
        for name in ("SCHEDULER", "SCHEDULER_PRIORITY_QUEUE")
    ]
    if not any(is_of_project):
        settings.set("SCHEDULER", _SCHEDULER, "addon")


def _is_ours(settings: BaseSettings) -> bool:
    """Whether the crawl has the scheduler of this package."""
    # For issubclass(), each class with the methods of Scrapy's scheduler is a subclass of it.
    scheduler = load_object(settings["SCHEDULER"])
    return load_object(_SCHEDULER) in getattr(scheduler, "__mro__", ())


def _prepare_for_workers(settings: BaseSettings) -> None:
    """Replace the scheduler of scrapy-redis by that of this package, and let all workers share a store,
    unless the project sets its own.
    """
    scheduler = load_object(settings["SCHEDULER"])
    package = sys.modules.get("scrapy_redis.scheduler")
    if package is None or not issubclass(scheduler, package.Scheduler):
        return
    url = _redis_url(settings)
    if settings.getpriority("REP_STORE") is None and url is not None:
        settings.set("REP_STORE", url, "addon")
    if settings.getpriority("SCHEDULER_QUEUE_CLASS") is None and not _has_own_code(
        scheduler, package.Scheduler
    ):
        priority = settings.getpriority("SCHEDULER") or 0
        settings.set("SCHEDULER", _OF_WORKERS, priority)


def _has_own_code(kind: type, base: type) -> bool:
    """Whether *kind*, a subclass of *base*, has any method or attribute of its own."""
    subclasses = (cls for cls in kind.__mro__ if base in cls.__mro__[1:])
    names = (name for cls in subclasses for name in vars(cls))
    return any(name == "__init__" or not name.startswith("__") for name in names)


def _redis_url(settings: BaseSettings) -> str | None:
    """Return the URL of the server of scrapy-redis; None if a URL cannot express its settings."""
    if settings.get("REDIS_URL"):
        return str(settings["REDIS_URL"])
    if settings.getdict("REDIS_PARAMS"):
        return None
    host = settings.get("REDIS_HOST", "localhost")
    port = settings.get("REDIS_PORT", 6379)
    return f"redis://{host}:{port}/{settings.get('REDIS_DB', 0)}"


def _replace_middleware_of_scrapy(settings: BaseSettings) -> None:
    """Disable Scrapy's RobotsTxtMiddleware, also where the project names it, and warn about a
    subclass of it. If the project disables the middleware of this package, change nothing.
    """
    name = "DOWNLOADER_MIDDLEWARES"
    of_scrapy, gate = load_object(_MIDDLEWARE_OF_SCRAPY), load_object(GATE)
    orders, subclasses = {_MIDDLEWARE_OF_SCRAPY: None}, []
    for key, order in settings.getdict(name).items():
        component = load_object(key)
        if component is gate and order is None:
            return
        if component is of_scrapy:
            continue
        orders[key] = order
        is_class = isinstance(component, type)
        if is_class and issubclass(component, of_scrapy) and order is not None:
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
