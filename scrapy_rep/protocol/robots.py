"""A parsed robots.txt: its rules for access, and its usage preferences."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from scrapy_rep.protocol.robotstxt import paths
from scrapy_rep.protocol.robotstxt.accessrules import AccessRules

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy_rep.protocol.usage.preferences import UsagePreferences
    from scrapy_rep.tools.findings import Finding


class RobotsTxt(AccessRules):
    """A parsed robots.txt, or one decision for all URLs where there is no robots.txt.

    Create it with :meth:`parse` or :meth:`blanket`. It is immutable.
    """

    @cached_property
    def may_state_usage(self) -> bool:
        """Whether the file may have usage records: a fast check that rules out most files."""
        from scrapy_rep.protocol.usage import robotstxt  # noqa: PLC0415

        return robotstxt.may_state_usage(self.body, self.dialect)

    def usage(self, url: str, agents: str | Sequence[str]) -> UsagePreferences:
        """Return the usage preferences for *url*.

        There are none for a disallowed URL (draft-ietf-aipref-attach-05, 3.1).
        """
        from scrapy_rep.protocol.usage.preferences import NOTHING_STATED  # noqa: PLC0415
        from scrapy_rep.protocol.usage.robotstxt import UsageRecords  # noqa: PLC0415

        if not self.may_state_usage or not self.is_allowed(url, agents):
            return NOTHING_STATED
        crawler = self._rules_for(agents)
        if crawler.usage is None:
            crawler.usage = UsageRecords(self.body, crawler.agents, self.dialect)
        records: UsageRecords = crawler.usage
        return records.of_target(paths.target(url, self.dialect))

    def lint(self) -> tuple[Finding, ...]:
        """Return the findings about this file, in the order of lines; computed at each call."""
        from scrapy_rep.tools.linter import lint  # noqa: PLC0415

        return () if self._blanket else lint(self.body, self.dialect, self._url)
