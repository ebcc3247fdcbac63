"""The exceptions of this package that spiders, commands and projects can catch.

Control characters in a message are escaped, since messages contain text from servers and Scrapy logs them. The
record of an exception has the text unchanged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.exceptions import DropItem, IgnoreRequest

from scrapy_rep.protocol.text import visible

if TYPE_CHECKING:
    from scrapy_rep.record import Record


class SettingError(ValueError):
    """A setting has an invalid value. The message has the setting, its value, and the allowed values."""

    def __init__(self, name: str, value: object, allowed: str) -> None:
        super().__init__(f"{name} is {value!r}, but it must be {allowed}.")


class _Denied(Exception):
    """The base class of exceptions for requests, items and files that are withheld."""

    def __init__(self, message: str, record: Record) -> None:
        super().__init__(visible(message))
        self.record = record
        """The decision, with its evidence."""


class RobotsDenied(_Denied, IgnoreRequest):
    """A request is refused by robots.txt or an override, or because of too long a pause, or too many pages, of its
    host. The errback of the request gets the exception.
    """


class SpiderClosing(IgnoreRequest):
    """The spider closes while a request waits for robots.txt or for its turn. The request is not sent."""


class BackingOff(IgnoreRequest):
    """A request for robots.txt is not sent, because its host has asked for a longer pause than the crawl accepts.
    The message has the length of the pause.
    """


class FileDenied(_Denied, IgnoreRequest):
    """A file is withheld from a media pipeline, or from other code that downloads it without a callback, because
    the file must not be indexed, or not be used for a purpose of the crawl. An HTML page does not count as a
    file.
    """


class _Dropped(_Denied):
    """The base class of exceptions for a dropped item."""

    def __init__(self, message: str, record: Record) -> None:
        super().__init__(message, record)
        # The level at which Scrapy logs each dropped item. DEBUG is enough here: a warning about the first one, and
        # one with their number at the end, come from DecisionReporter.
        self.log_level: str | None = "DEBUG"


class ItemDenied(_Dropped, DropItem):
    """An item is dropped, because its page must not be indexed; or because the images of the page must not be
    indexed, and their URLs cannot be removed from the item. The message has the URL of the page, and the
    statement with its source.
    """


class UsageDenied(_Dropped, DropItem):
    """An item is dropped, because its page, or images whose URLs cannot be removed from the item, must not be
    used for a purpose of the crawl. The message has the URL of the page, and the statement that disallows
    the use.
    """


class JobError(Exception):
    """A crawl cannot use its JOBDIR: the queue there is damaged, in use or of another scheduler. The message says
    what to do.
    """

    @classmethod
    def unusable(cls, path: object, why: object) -> JobError:
        """Return the error for a file of the JOBDIR at *path* that cannot be read or written."""
        return cls(
            visible(
                f"{path} cannot be used: {why}. Nothing was deleted. Remove the cause or restore "
                "the JOBDIR from a copy, and resume the crawl; or start a new crawl with an empty "
                "JOBDIR"
            )
        )

    @classmethod
    def of_another_scheduler(cls, folder: object) -> JobError:
        """Return the error for a JOBDIR *folder* with the crawl of another scheduler."""
        return cls(
            visible(
                f"The JOBDIR {folder} has the crawl of another scheduler: Scrapy's own, or one of the "
                "project. Nothing in it was changed. Finish this crawl with its SCHEDULER, or start a "
                "new crawl with another JOBDIR"
            )
        )

    @classmethod
    def in_use(cls, folder: object) -> JobError:
        """Return the error for a JOBDIR *folder* that a crawl in another process is using."""
        return cls(
            visible(
                f"Another crawl is using the queue in {folder}. Wait until that crawl has ended, or "
                "start this one with another JOBDIR"
            )
        )


class StoreError(Exception):
    """A store cannot be read or written at the moment. The message has the address of the store and the reason."""

    def __init__(self, where: str, why: object) -> None:
        super().__init__(visible(f"{where}: {why}"))


class StoreNotInstalled(StoreError):
    """The package of a store is not installed. The message has the command that installs it."""


class LedgerError(Exception):
    """A ledger cannot be read or written. The message has the path of the ledger and the reason."""

    def __init__(self, where: str, why: object) -> None:
        super().__init__(visible(f"{where}: {why}"))
