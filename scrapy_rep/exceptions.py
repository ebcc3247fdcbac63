"""Every error that this package raises.

Scrapy logs the messages, so control characters in text from a server are escaped in them.
The attributes hold that text unchanged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.exceptions import DropItem, IgnoreRequest

from scrapy_rep.protocol.display import visible

if TYPE_CHECKING:
    from scrapy_rep.protocol.access.results import Entry
    from scrapy_rep.protocol.indexing.rules import IndexingRules
    from scrapy_rep.protocol.robotstxt.decisions import Decision
    from scrapy_rep.protocol.usage.preferences import Denial


class SettingError(ValueError):
    """A setting has an invalid value. The message has both, and says what is allowed."""

    def __init__(self, name: str, value: object, allowed: str) -> None:
        super().__init__(f"{name} is {value!r}, but it must be {allowed}.")


class RobotsDenied(IgnoreRequest):
    """A request is refused, because robots.txt forbids it.

    Scrapy passes it to the errback of the request. *robotstxt_url* is empty if no
    robots.txt decided: the URL of the request has no valid host or port, or an entry of
    ``REP_OVERRIDES`` decided, whose pattern is *override*.
    """

    def __init__(
        self,
        decision: Decision,
        robotstxt_url: str,
        detail: str = "",
        *,
        override: str | None = None,
        via: str = "",
    ) -> None:
        if decision.reason == "back-off":
            super().__init__(visible(f"Refused ({decision.reason}): {detail}"))
            self.decision, self.robotstxt_url = decision, ""
            return
        if override is not None:
            robotstxt_url, place = "", f"REP_OVERRIDES[{override!r}]"
        else:
            place = robotstxt_url
        if not place:
            why = f"scrapy-rep: the host or port of the URL cannot be read ({decision.reason})"
        elif decision.rule is None:
            reason = f"{decision.reason}: {detail}" if detail else decision.reason
            why = f"{place} ({reason})"
        else:
            kind, pattern, line = decision.rule
            why = f"{place}, line {line} ({kind}: {pattern})"
        if decision.form:
            why += f", as {decision.form}"
        if via:
            why += f"; {via}"
        super().__init__(visible(f"Forbidden by {why}"))
        self.decision = decision
        self.robotstxt_url = robotstxt_url


class SpiderClosing(IgnoreRequest):
    """The spider closes, so a request stops waiting for robots.txt or for its turn."""


class BackingOff(IgnoreRequest):
    """A request is not sent, because its host has asked for too long a pause. The message says
    how long.
    """


class IndexingDenied(IgnoreRequest):
    """A media pipeline does not get a file, because the file must not be indexed."""

    def __init__(self, message: str, rules: IndexingRules) -> None:
        super().__init__(visible(message))
        self.rules = rules


class ItemDenied(DropItem):
    """An item is dropped, because its page must not be indexed; or the images of the page, which
    the item names and which cannot be removed from it. The message has the URL of the page, the
    statement that forbids it, and the source of that statement.
    """

    def __init__(self, url: str, rule: str, rules: IndexingRules) -> None:
        statement = rules.because(rule)
        why = f"{statement.text} ({statement.source})" if statement else rule
        what = f"The images of {url}" if rule == "noimageindex" else url
        super().__init__(visible(f"{what} must not be indexed: {why}"))
        self.rule = rule
        self.rules = rules
        self.statement = statement


class UsageDenied(DropItem):
    """An item is dropped, because its page must not be used for a purpose of the crawl.
    The message has the URL of the page and the statement that disallows the use. *denial*
    has the purpose and all statements. *entry* is the cache entry of robots.txt, if that
    or tdmrep.json may state usage preferences.
    """

    def __init__(self, url: str, denial: Denial, entry: Entry | None = None) -> None:
        super().__init__(
            visible(f"{url} must not be used for {denial.purpose}: {denial.why}")
        )
        self.denial = denial
        self.entry = entry


class MediaUsageDenied(IgnoreRequest):
    """A media pipeline does not get the file that it requested, because the file must not
    be used for a purpose of the crawl.
    """

    def __init__(self, url: str, denial: Denial) -> None:
        super().__init__(
            visible(f"{url} must not be used for {denial.purpose}: {denial.why}")
        )
        self.denial = denial


class JobError(Exception):
    """A crawl cannot use the queue in its JOBDIR. The message says what to do."""

    @classmethod
    def unusable(cls, path: object, why: object) -> JobError:
        """The error for a file, or a folder of older queues, that cannot be read or written."""
        return cls(
            visible(
                f"{path} cannot be used: {why}. Nothing was deleted. Mend the cause or restore "
                "the JOBDIR from a copy, and resume the crawl; or start a new one in an empty "
                "JOBDIR"
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
