"""The Scrapy add-on that enables this package in a project: ``ADDONS = {"scrapy_rep.Addon": 500}``."""

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

# Components are given by their import paths, so that they are imported only when the add-on enables them (see
# Addon.update_settings).

_COMPONENTS = (
    ("DOWNLOADER_MIDDLEWARES", GATE),
    ("DOWNLOADER_MIDDLEWARES", "scrapy_rep.crawl.gate.ArrivalMiddleware"),
    ("DOWNLOADER_MIDDLEWARES", "scrapy_rep.crawl.wire.WireMiddleware"),
    ("DOWNLOADER_MIDDLEWARES", "scrapy_rep.crawl.pages.indexing.IndexingMiddleware"),
    ("SPIDER_MIDDLEWARES", "scrapy_rep.crawl.pages.output.OutputMiddleware"),
    ("EXTENSIONS", "scrapy_rep.crawl.ledger.extension.LedgerExtension"),
)

_BROWSER_COMPONENTS = (
    ("DOWNLOADER_MIDDLEWARES", "scrapy_rep.playwright.PlaywrightMiddleware"),
)

_SCHEDULER = "scrapy_rep.Scheduler"
_SHARED_SCHEDULER = "scrapy_rep.redis.SharedScheduler"

_SETTINGS_OF_CLASSES = {"Scheduler": "SCHEDULER", "SharedScheduler": "SCHEDULER"}
"""The classes of this package that can be the value of a setting. Maps the name of each class to the name of the
setting."""

_SETTINGS_WITH_CLASSES = (
    "DUPEFILTER_CLASS", "SCHEDULER", "SCHEDULER_DISK_QUEUE", "SCHEDULER_MEMORY_QUEUE",
    "SCHEDULER_PRIORITY_QUEUE", "SCHEDULER_QUEUE_CLASS",
)  # fmt: skip
_SETTINGS_WITH_COMPONENTS = (
    "DOWNLOADER_MIDDLEWARES", "EXTENSIONS", "ITEM_PIPELINES", "SPIDER_MIDDLEWARES"
)  # fmt: skip

_MIDDLEWARE_OF_SCRAPY = "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware"


class Addon:
    """The Scrapy add-on of this package. It enables the components of the package, sets ``ROBOTSTXT_OBEY`` and the
    scheduler, and disables Scrapy's RobotsTxtMiddleware. Scrapy does not start if a setting of this package is
    invalid.

    Settings of the project take precedence: the add-on sets ``ROBOTSTXT_OBEY`` at ``addon`` priority, and does not
    change the order of components that the project itself lists. In a dry run (``REP_DRY_RUN``), the add-on does not
    change ``ROBOTSTXT_OBEY`` and the scheduler, and does not disable Scrapy's RobotsTxtMiddleware.
    """

    def __init__(self, crawler: Crawler | None = None) -> None:
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Addon:
        """Return the add-on of a crawl. Raises SettingError if the project lists the add-on in a setting for
        middlewares, extensions or pipelines instead of ``ADDONS``.
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
        """Return the name and version of the add-on, which Scrapy logs in its list of enabled add-ons."""
        return f"<scrapy_rep.Addon {__version__}>"

    def update_settings(self, settings: BaseSettings) -> None:
        if settings.getbool("TWISTED_REACTOR_ENABLED", True):
            # Scrapy would import this module later, when more modules are loaded. The import would then take longer:
            # the module defines deprecated classes, and Scrapy calls inspect.stack() for each of them, which searches
            # all loaded modules.
            import_module("scrapy.core.downloader.contextfactory")
        _check_classes(settings)
        if not is_dry_run(settings):
            settings.set(OBEY, True, "addon")
            _use_scheduler(settings)
            _prepare_for_workers(settings)
            _replace_middleware_of_scrapy(settings)
        is_for_browsers = uses_playwright(settings)
        for name, path in _COMPONENTS + (
            _BROWSER_COMPONENTS if is_for_browsers else ()
        ):
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
        """Warn if another add-on has set ``SCHEDULER``, so that the crawl does not use ``scrapy_rep.Scheduler``. With
        another scheduler, requests that have to wait slow down requests to other hosts.
        """
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
            "Another add-on (%(addons)s) set %(setting)s to %(value)s. With this scheduler, requests "
            "that wait for a robots.txt or for the delay of their host count towards "
            "CONCURRENT_REQUESTS, and so slow down requests to other hosts. To use the scheduler of "
            "scrapy-rep, give scrapy_rep.Addon the greatest number in ADDONS, or set %(setting)s = "
            "%(ours)r in the settings of the project, which take precedence over add-ons",
            {
                "addons": ", ".join(others),
                "setting": name,
                "value": _path_of(settings[name]),
                "ours": _SCHEDULER,
            },
        )


def _path_of(value: Any) -> str:
    """Return the import path of the class in *value*, the value of a setting. *value* is a class or an import path."""
    return value if isinstance(value, str) else global_object_name(value)


def _check_classes(settings: BaseSettings) -> None:
    """Raise SettingError if a class of this package is the value of the wrong setting, such as a scheduler in
    ``DUPEFILTER_CLASS``.
    """
    for name in _SETTINGS_WITH_CLASSES:
        path = _path_of(settings[name]) if settings[name] else ""
        is_ours = path.startswith("scrapy_rep.")
        right_name = _SETTINGS_OF_CLASSES.get(path.rpartition(".")[2])
        if is_ours and right_name is not None and name != right_name:
            usual = f"{right_name} = {path!r}"
            raise SettingError(
                name,
                path,
                f"a class of another kind. This class belongs in {usual}",
            )


def _use_scheduler(settings: BaseSettings) -> None:
    """Set ``SCHEDULER`` to the scheduler of this package. Change nothing if the project sets ``SCHEDULER``. Also change
    nothing if the project sets ``SCHEDULER_PRIORITY_QUEUE``, because that setting has an effect only with Scrapy's own
    scheduler.
    """
    is_of_project = [
        (settings.getpriority(name) or 0) > SETTINGS_PRIORITIES["addon"]
        for name in ("SCHEDULER", "SCHEDULER_PRIORITY_QUEUE")
    ]
    if not any(is_of_project):
        settings.set("SCHEDULER", _SCHEDULER, "addon")


def _is_ours(settings: BaseSettings) -> bool:
    """Whether ``SCHEDULER`` is the scheduler of this package or a subclass of it."""
    # issubclass() cannot be used: Scrapy's BaseScheduler makes it return True for any class with the same methods.
    scheduler = load_object(settings["SCHEDULER"])
    return load_object(_SCHEDULER) in getattr(scheduler, "__mro__", ())


def _prepare_for_workers(settings: BaseSettings) -> None:
    """Replace the scheduler of scrapy-redis by the shared scheduler of this package, and set ``REP_STORE`` to the same
    Redis server. Change nothing if the project does not use scrapy-redis.

    The scheduler is not replaced if the project sets ``SCHEDULER_QUEUE_CLASS``, or if ``SCHEDULER`` is a subclass with
    methods or attributes of its own. ``REP_STORE`` is not changed if the project sets it, or if the settings of the
    Redis server cannot be written as a URL.
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
        settings.set("SCHEDULER", _SHARED_SCHEDULER, priority)


def _has_own_code(kind: type, base: type) -> bool:
    """Whether *kind*, a subclass of *base*, overrides or adds a method or an attribute."""
    subclasses = (cls for cls in kind.__mro__ if base in cls.__mro__[1:])
    names = (name for cls in subclasses for name in vars(cls))
    return any(name == "__init__" or not name.startswith("__") for name in names)


def _redis_url(settings: BaseSettings) -> str | None:
    """Return the URL of the Redis server in the settings of scrapy-redis. Return None if ``REDIS_PARAMS`` is set
    without ``REDIS_URL``, because the options in ``REDIS_PARAMS`` cannot be written as a URL.
    """
    if settings.get("REDIS_URL"):
        return str(settings["REDIS_URL"])
    if settings.getdict("REDIS_PARAMS"):
        return None
    host = settings.get("REDIS_HOST", "localhost")
    port = settings.get("REDIS_PORT", 6379)
    return f"redis://{host}:{port}/{settings.get('REDIS_DB', 0)}"


def _replace_middleware_of_scrapy(settings: BaseSettings) -> None:
    """Disable Scrapy's RobotsTxtMiddleware, even if the project lists it. If the project lists a subclass of Scrapy's
    RobotsTxtMiddleware, the subclass stays enabled, and a warning about it is logged if ``ROBOTSTXT_OBEY`` is True.
    Change nothing if the project disables the RobotsTxtMiddleware of this package.
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
            "%(setting)s contains %(subclass)s, a subclass of Scrapy's RobotsTxtMiddleware. So "
            "%(subclass)s judges each request in addition to scrapy-rep. It may refuse requests that "
            "scrapy-rep allows, ignores REP_OVERRIDES, and does not write its refusals to the "
            "ledger. Remove %(subclass)s from the setting. Or, to use only %(subclass)s, set "
            "%(ours)s to None in %(setting)s",
            {
                "setting": name,
                "subclass": global_object_name(subclass),
                "ours": GATE,
            },
        )
