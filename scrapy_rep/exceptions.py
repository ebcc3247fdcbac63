"""Every error that this package raises.

What a server wrote is made visible in a message, since Scrapy logs it; as it was written,
it is in the attributes.
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
    """A setting has a value that it can't have. The message names the setting, the value
    and what is allowed.
    """

    def __init__(self, name: str, value: object, allowed: str) -> None:
        super().__init__(f"{name} is {value!r}, but it must be {allowed}.")


class RobotsDenied(IgnoreRequest):
    """A request is not sent, because robots.txt does not allow it.

    It reaches the errback of the request as any IgnoreRequest does. *robotstxt_url* is
    empty where no robots.txt was asked for: where the URL of the request has no host that
    can be read, or where an override decided, whose pattern is *override*.
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
        if override is not None:
            robotstxt_url, place = "", f"REP_OVERRIDES[{override!r}]"
        else:
            place = robotstxt_url
        if not place:
            why = f"scrapy-rep: the host or port of the URL can't be read ({decision.reason})"
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
    """A request waits no longer for a robots.txt, or for its turn, because the spider is
    being closed. It says nothing about the site.
    """


class IndexingDenied(IgnoreRequest):
    """A downloaded file is not handed to the media pipeline that asked for it, because
    it must not be in an index.
    """

    def __init__(self, message: str, rules: IndexingRules) -> None:
        super().__init__(visible(message))
        self.rules = rules


class ItemDenied(DropItem):
    """An item is dropped, because its page must not be in an index. The message has the
    URL of the page, the statement that says so, as written, and where it stands.
    """

    def __init__(self, url: str, rule: str, rules: IndexingRules) -> None:
        statement = rules.because(rule)
        why = f"{statement.text} ({statement.source})" if statement else rule
        super().__init__(visible(f"{url} is not for an index: {why}"))
        self.rule = rule
        self.rules = rules
        self.statement = statement


class UsageDenied(DropItem):
    """An item is dropped, because its page must not be used for a purpose of the crawl.
    The message has the URL of the page and the statement that says so, as written; *denial*
    has the purpose, the statement and all the others, *entry* what was known of the
    robots.txt, where that says anything of use.
    """

    def __init__(self, url: str, denial: Denial, entry: Entry | None = None) -> None:
        super().__init__(visible(f"{url} is not for {denial.purpose}: {denial.why}"))
        self.denial = denial
        self.entry = entry


class MediaUsageDenied(IgnoreRequest):
    """A file is not handed to the media pipeline that asked for it, because it must not be
    used for a purpose of the crawl.
    """

    def __init__(self, url: str, denial: Denial) -> None:
        super().__init__(visible(f"{url} is not for {denial.purpose}: {denial.why}"))
        self.denial = denial


class QueueStateError(ValueError):
    """A crawl can't go on with the queue in its JOBDIR. The message says which, and why."""

    def __init__(self, folder: str) -> None:
        super().__init__(
            f"{folder}: another SCHEDULER_PRIORITY_QUEUE than scrapy_rep.HostQueue or one "
            "of Scrapy's has written this queue, or it is damaged; go on with that class, "
            "or start anew in an empty JOBDIR."
        )


class StoreError(Exception):
    """A store of robots.txt files can't be read or written now. The message says which
    one, and why.
    """

    def __init__(self, where: str, why: object) -> None:
        super().__init__(visible(f"{where}: {why}"))


class StoreNotInstalled(StoreError):
    """A store needs a package that is not installed. The message says which."""


class LedgerError(Exception):
    """A ledger can't be read or written. The message says which one, and why."""

    def __init__(self, where: str, why: object) -> None:
        super().__init__(visible(f"{where}: {why}"))
