"""The exceptions of this package that spiders, commands and projects can catch.

Control characters in a message are escaped, since messages contain text from servers, and Scrapy logs messages.
If an exception has a ``record``, the record contains the same text unescaped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.exceptions import DropItem, IgnoreRequest

from scrapy_rep.protocol.text import visible

if TYPE_CHECKING:
    from scrapy_rep.record import Record


class SettingError(ValueError):
    """A setting has an invalid value. The message names the setting, its value, and the allowed values."""

    def __init__(self, name: str, value: object, allowed: str) -> None:
        super().__init__(f"{name} is {value!r}, but it must be {allowed}.")


class _Denied(Exception):
    """The base class of the exceptions for refused requests, dropped items, and downloaded files that are not passed to
    their media pipeline.
    """

    def __init__(self, message: str, record: Record) -> None:
        super().__init__(visible(message))
        self.record = record
        """The decision about the request, item or file, with its evidence."""


class RobotsDenied(_Denied, IgnoreRequest):
    """A request is refused. The errback of the request receives the exception.

    There are several reasons: robots.txt or an override forbids the URL, robots.txt is unreachable, the URL is
    invalid, the host asks for too long a pause or crawl delay, or the crawl has already fetched its maximum
    number of pages from the host. The field ``reason`` of the exception's ``record`` names the reason.
    """


class SpiderClosing(IgnoreRequest):
    """A request is not sent, because the spider closed while the request waited. It waited for robots.txt, for the end
    of a crawl delay, or for the end of other requests to its host.
    """


class BackingOff(IgnoreRequest):
    """A request for robots.txt is not sent, because its host asked for a longer pause than the crawl accepts. The
    message contains the length of the pause.
    """


class FileDenied(_Denied, IgnoreRequest):
    """A downloaded file is not passed to the component that requested it, such as a media pipeline, because the file
    must not be indexed, or must not be used for a purpose of the crawl.

    This exception is raised only for requests without a callback, such as those of media pipelines, and only for
    responses that are not HTML.
    """


class _Dropped(_Denied):
    """The base class of the exceptions for dropped items."""

    def __init__(self, message: str, record: Record) -> None:
        super().__init__(message, record)
        # The level at which Scrapy logs each dropped item. DEBUG is enough, because DecisionReporter warns about the
        # first dropped item, and at the end of the crawl about the number of dropped items.
        self.log_level: str | None = "DEBUG"


class ItemDenied(_Dropped, DropItem):
    """An item is dropped because its page must not be indexed. An item is also dropped if the images of its page
    must not be indexed, and the image URLs cannot be removed from the item.

    The message contains the URL of the page, the statement that forbids indexing, and the source of the statement.
    """


class UsageDenied(_Dropped, DropItem):
    """An item is dropped because its page must not be used for a purpose of the crawl. An item is also dropped if the
    images of its page must not be used, and the image URLs cannot be removed from the item.

    The message contains the URL of the page, and the statement that disallows the use.
    """


class JobError(Exception):
    """A crawl cannot use its JOBDIR, because the request queue there is damaged, in use by another process, or
    written by another scheduler. The message explains how to continue.
    """

    @classmethod
    def unusable(cls, path: object, why: object) -> JobError:
        """Return the error for *path*, a file in the JOBDIR that cannot be read or written. *why* is the reason."""
        return cls(
            visible(
                f"{path} cannot be used: {why}. Nothing was deleted. Remove the cause or restore "
                "the JOBDIR from a copy, and resume the crawl; or start a new crawl with an empty "
                "JOBDIR"
            )
        )

    @classmethod
    def of_another_scheduler(cls, folder: object) -> JobError:
        """Return the error for a JOBDIR *folder* that another scheduler has written."""
        return cls(
            visible(
                f"The JOBDIR {folder} contains a crawl with another scheduler (Scrapy's own, or one of "
                "the project), so this scheduler cannot resume it. Nothing in the JOBDIR was changed. "
                "Resume the crawl with its former SCHEDULER, or start a new crawl with another JOBDIR"
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
    """The store of robots.txt files (``REP_STORE``) cannot be read or written. The crawl may try again later. The
    message contains the address of the store, and the reason.
    """

    def __init__(self, where: str, why: object) -> None:
        super().__init__(visible(f"{where}: {why}"))


class StoreNotInstalled(StoreError):
    """The store of robots.txt files (``REP_STORE``) needs a Python package that is not installed. The message contains
    the command that installs the package.
    """


class LedgerError(Exception):
    """A ledger (see ``REP_LEDGER``) cannot be read or written. The message contains the path of the ledger, and the
    reason.
    """

    def __init__(self, where: str, why: object) -> None:
        super().__init__(visible(f"{where}: {why}"))
