"""A parsed robots.txt: its rules for access, and its usage preferences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_rep.protocol.dialect import RFC9309
from scrapy_rep.protocol.robotstxt import paths
from scrapy_rep.protocol.robotstxt.accessrules import MAX_FOLLOWED, AccessRules

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy_rep.protocol.dialect import Dialect
    from scrapy_rep.protocol.lint.findings import Finding
    from scrapy_rep.protocol.robotstxt.decisions import Decision
    from scrapy_rep.protocol.usage.preferences import UsagePreferences
    from scrapy_rep.protocol.usage.robotstxt import UsageRecords


class RobotsTxt(AccessRules):
    """A parsed robots.txt, or one decision for all URLs where there is no robots.txt.

    Create it with :meth:`parse` or :meth:`blanket`. It is immutable.
    """

    __slots__ = ("_may_state_usage", "_usage_records")

    def __init__(
        self,
        body: bytes,
        dialect: Dialect = RFC9309,
        url: str | None = None,
        blanket: Decision | None = None,
    ) -> None:
        super().__init__(body, dialect, url, blanket)
        self._may_state_usage: bool | None = None
        self._usage_records: dict[str | tuple[str, ...], UsageRecords] | None = None

    @property
    def weight(self) -> int:
        """The approximate size in memory, in bytes."""
        weight = super().weight
        for records in (self._usage_records or {}).values():
            weight += records.weight
        return weight

    @property
    def may_state_usage(self) -> bool:
        """Whether the file may have usage records: a fast check that rules out most files."""
        if self._may_state_usage is None:
            from scrapy_rep.protocol.usage import robotstxt  # noqa: PLC0415

            self._may_state_usage = robotstxt.may_state_usage(self.body, self.dialect)
        return self._may_state_usage

    def usage(self, url: str, agents: str | Sequence[str]) -> UsagePreferences:
        """Return the usage preferences for *url*.

        There are none for a disallowed URL (draft-ietf-aipref-attach-05, 3.1).
        """
        from scrapy_rep.protocol.usage.preferences import NOTHING_STATED  # noqa: PLC0415

        if not self.may_state_usage or not self.is_allowed(url, agents):
            return NOTHING_STATED
        records = self._usage_for(agents if isinstance(agents, str) else tuple(agents))
        return records.of_target(paths.target(url, self.dialect))

    def lint(self) -> tuple[Finding, ...]:
        """Return the findings about this file, in the order of lines; computed at each call."""
        from scrapy_rep.protocol.lint.linter import lint  # noqa: PLC0415

        return () if self._blanket else lint(self.body, self.dialect, self._url)

    def _usage_for(self, agents: str | tuple[str, ...]) -> UsageRecords:
        from scrapy_rep.protocol.usage.robotstxt import UsageRecords  # noqa: PLC0415

        records = self._usage_records
        if records is None or (len(records) >= MAX_FOLLOWED and agents not in records):
            records = self._usage_records = {}
        if agents not in records:
            records[agents] = UsageRecords(self.body, agents, self.dialect)
        return records[agents]
