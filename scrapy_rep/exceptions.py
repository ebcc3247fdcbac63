"""The errors of this package that its users can meet.

Scrapy logs the messages, so control characters in text from a server are escaped in them.
Records hold that text unchanged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.exceptions import DropItem, IgnoreRequest

from scrapy_rep.protocol.text import visible

if TYPE_CHECKING:
    from scrapy_rep.record import Record


class SettingError(ValueError):
    """A setting has an invalid value. The message names the setting and the value, and says what is
    allowed.
    """

    def __init__(self, name: str, value: object, allowed: str) -> None:
        super().__init__(f"{name} is {value!r}, but it must be {allowed}.")


class _Denied(Exception):
    """A request, item or file is withheld, because a site or the user of the crawler forbids it."""

    def __init__(self, message: str, record: Record) -> None:
        super().__init__(visible(message))
        self.record = record
        """The decision, with its evidence."""


class RobotsDenied(_Denied, IgnoreRequest):
    """A request is refused, because robots.txt forbids it. Scrapy passes it to the errback of the
    request.
    """


class SpiderClosing(IgnoreRequest):
    """The spider closes, so a request stops waiting for robots.txt or for its turn."""


class BackingOff(IgnoreRequest):
    """A request is not sent, because its host has asked for too long a pause. The message says
    how long.
    """


class FileDenied(_Denied, IgnoreRequest):
    """A file is withheld from a media pipeline, or from code that downloads it without a callback,
    because the file must not be indexed, or not be used for a purpose of the crawl. A page counts as a
    file only if a media pipeline downloads it.
    """


class _Dropped(_Denied):
    """An item is dropped."""

    def __init__(self, message: str, record: Record) -> None:
        super().__init__(message, record)
        # Scrapy logs each dropped item at this level. The first dropped item and their number are
        # logged as warnings (see DecisionReporter).
        self.log_level: str | None = "DEBUG"


class ItemDenied(_Dropped, DropItem):
    """An item is dropped, because its page must not be indexed; or the images of the page, which
    the item names and which cannot be removed from it. The message has the URL of the page, the
    statement that forbids it, and the source of that statement.
    """


class UsageDenied(_Dropped, DropItem):
    """An item is dropped, because its page, or the images that the item names, must not be used
    for a purpose of the crawl. The message has the URL of the page and the statement that
    disallows the use.
    """


class JobError(Exception):
    """A crawl cannot use the queue in its JOBDIR. The message says what to do."""

    @classmethod
    def unusable(cls, path: object, why: object) -> JobError:
        """The error for a file that cannot be read or written."""
        return cls(
            visible(
                f"{path} cannot be used: {why}. Nothing was deleted. Mend the cause or restore "
                "the JOBDIR from a copy, and resume the crawl; or start a new one in an empty "
                "JOBDIR"
            )
        )

    @classmethod
    def of_others(cls, folder: object) -> JobError:
        """The error for a JOBDIR that another class or version wrote."""
        return cls(
            visible(
                f"Another scheduler wrote the JOBDIR {folder}: Scrapy's own, or another one of the "
                "project. Nothing in it was changed. Finish its crawl with that SCHEDULER, or give "
                "this crawl a new JOBDIR"
            )
        )

    @classmethod
    def in_use(cls, folder: object) -> JobError:
        """The error for a JOBDIR that another process uses."""
        return cls(
            visible(
                f"Another crawl uses the queue in {folder}. Wait until it has ended, or give this "
                "crawl a JOBDIR of its own"
            )
        )


class StoreError(Exception):
    """A store cannot be read or written now. The message has its address and the reason."""

    def __init__(self, where: str, why: object) -> None:
        super().__init__(visible(f"{where}: {why}"))


class StoreNotInstalled(StoreError):
    """A store needs a package that is not installed. The message names the package."""


class LedgerError(Exception):
    """A ledger cannot be read or written. The message has its path and the reason."""

    def __init__(self, where: str, why: object) -> None:
        super().__init__(visible(f"{where}: {why}"))
