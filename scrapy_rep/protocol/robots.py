"""A parsed robots.txt: its access rules, delays, sitemaps and usage preferences.

Sources: RFC 9309, 2.1 and 2.2.1, and :class:`~scrapy_rep.protocol.dialect.Dialect`.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left
from typing import TYPE_CHECKING

from scrapy_rep.protocol.dialect import RFC9309, Dialect
from scrapy_rep.protocol.robotstxt import paths
from scrapy_rep.protocol.robotstxt.groups import (
    Group,
    follow,
    groups_of,
    lines_naming,
    rule_lines,
    sitemap_urls,
    value_of_line,
)
from scrapy_rep.protocol.robotstxt.lines import lines
from scrapy_rep.protocol.robotstxt.pace import NO_PACE, Pace
from scrapy_rep.protocol.robotstxt.paths import NORMAL_URL
from scrapy_rep.protocol.robotstxt.rules import (
    TOO_LONG,
    Decision,
    Reason,
    RuleList,
    first_answer,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Self

    from scrapy_rep.protocol.robotstxt.pace import RequestRate
    from scrapy_rep.protocol.usage.preferences import UsagePreferences
    from scrapy_rep.protocol.usage.sites import UsageRecords


_MAX_CRAWLERS = 32
"""The maximum number of crawlers whose rules a :class:`RobotsTxt` caches. A crawler is a sequence of product tokens;
most crawls use only a few."""

# The minimum size, in bytes, of a robots.txt whose text is compressed in memory after its rules have been parsed. Most
# files are smaller, but the few larger files take most of the memory. Without compression, the parsed robots.txt of
# a host would take 1.4 times as much memory on average.
_COMPRESSED_FROM = 2049


class CrawlerRules:
    """The rules and delays of a robots.txt for one crawler. *agents* are the crawler's product tokens."""

    __slots__ = (
        "_dialect", "_may_search", "_texts", "_usage", "agent", "agents", "pace", "rules",
    )  # fmt: skip

    def __init__(
        self, agents: str | tuple[str, ...], body: bytes, dialect: Dialect
    ) -> None:
        self.agents = agents
        tokens = (agents,) if isinstance(agents, str) else agents
        self.agent, self._texts, records = follow(body, tokens, dialect)
        """The product token whose groups the crawler follows, or ``*``; None if it follows no group."""

        self.pace = Pace.of(records) if records else NO_PACE
        """The delay between two requests, from the groups that the crawler follows."""

        self.rules: RuleList | None = None
        """The rules of the groups that the crawler follows, in order of precedence; None until :meth:`read_rules` is
        called."""

        self._usage: UsageRecords | None = None

        self._dialect = dialect
        # Whether first_answer() searches the text of the groups with a regular expression, which is faster for a single
        # URL than parsing all rules. False in a dialect with one of the features below, because the expression would
        # miss rules, or find lines that are not rules. False after the first search, because it is faster to parse all
        # rules once than to search the text for each URL.
        self._may_search = not (
            dialect.misspelt_fields
            or dialect.blank_line_ends_group
            or dialect.index_html_quirk
            or dialect.nul_ends_line
            or dialect.line_limit is not None
        )

    def first_answer(self, target: str, written: str) -> bool | None:
        """Return whether a target is allowed, without parsing all rules. If the result is None, the caller must decide
        with the rules that :meth:`read_rules` returns.

        Only the first call can return a decision. Every later call returns None. The first call returns None for a
        target that contains ``%2F`` or ``%3F``, that is longer than :data:`paths.SHORT` octets, or that too many rules
        could match. In some dialects, the result is always None.

        *target* and *written* are the fields ``normal`` and ``written`` of a
        :class:`~scrapy_rep.protocol.robotstxt.paths.Target`.
        """
        # This method exists for broad crawls, which fetch only one page from most hosts. If all rules were parsed,
        # reading the delay and making the first decision would take 2.7 times as long.
        if not self._may_search or len(target) > paths.SHORT:
            return None
        if paths.has_encoded_delimiter(target):
            return None
        self._may_search = False
        return first_answer(target, written, self._texts, self._dialect)

    def read_rules(self) -> RuleList:
        """Parse and sort all rules of the groups that the crawler follows, and return them. The text of these
        groups is then discarded, so this method works only once.
        """
        self.rules = RuleList(rule_lines(self._texts, self._dialect), self._dialect)
        self._texts = []
        return self.rules

    def usage_records(self, body: bytes) -> UsageRecords:
        """Return the usage records for the crawler, such as ``Content-Signal`` lines. The first call parses
        *body*; later calls return the same records.
        """
        if self._usage is None:
            from scrapy_rep.protocol.usage.sites import UsageRecords  # noqa: PLC0415

            self._usage = UsageRecords(body, self.agents, self._dialect)
        return self._usage


class RobotsTxt:
    """A parsed robots.txt. Its methods return which URLs a crawler may fetch, how fast, and for what uses.

    Create an instance with :meth:`parse`, or with :meth:`blanket` for a site without a readable
    robots.txt. An instance keeps the text, and parses the rules for a crawler at the first call that
    names the crawler. The results for the same arguments never change.
    """

    __slots__ = (
        "_agent_lines", "_blanket", "_body", "_crawlers", "_is_compressed",
        "_may_state_usage", "_sitemaps", "_url", "dialect",
    )  # fmt: skip

    def __init__(
        self,
        body: bytes,
        dialect: Dialect,
        url: str | None = None,
        blanket: Decision | None = None,
    ) -> None:
        self.dialect = dialect
        self._body = body
        self._is_compressed = False
        self._url = url
        self._blanket = blanket
        self._crawlers: dict[str | tuple[str, ...], CrawlerRules] = {}
        """The cached rules of each crawler, by its product tokens."""
        self._agent_lines: dict[str, Sequence[int]] | None = None
        """For each agent, the line numbers of the user-agent lines that name it. This is a cache; None until
        :meth:`user_agent_line` is first called."""
        self._sitemaps: tuple[str, ...] | None = None
        self._may_state_usage: bool | None = None

    @classmethod
    def parse(
        cls,
        body: bytes | str,
        dialect: Dialect = RFC9309,
        url: str | None = None,
    ) -> Self:
        """Parse a robots.txt. Any bytes are valid (RFC 9309, 2.3.1.5).

        *body* is the body of the response; a str is encoded as UTF-8. *url* is the URL of the
        robots.txt, the base for relative sitemap URLs.
        """
        if isinstance(body, str):
            body = body.encode("utf-8", "surrogatepass")
        return cls(body, dialect, url)

    @classmethod
    def blanket(
        cls, *, allowed: bool, reason: Reason, dialect: Dialect = RFC9309
    ) -> Self:
        """Return an instance for a site without a readable robots.txt. It makes the same decision, with
        *allowed* and *reason*, for every URL except ``/robots.txt``, which most dialects always allow.
        """
        return cls(b"", dialect, blanket=Decision(allowed, None, None, reason))

    @property
    def body(self) -> bytes:
        """The content of the robots.txt, as passed to :meth:`parse`."""
        return zlib.decompress(self._body) if self._is_compressed else self._body

    @property
    def url(self) -> str | None:
        """The URL of the robots.txt, the base for relative sitemap URLs; None if it is unknown."""
        return self._url

    @property
    def sitemaps(self) -> tuple[str, ...]:
        """The absolute URLs in the sitemap lines, in file order, without duplicates."""
        if self._sitemaps is None:
            urls = sitemap_urls(lines(self.body, self.dialect), self._url)
            self._sitemaps = tuple(urls)
        return self._sitemaps

    @property
    def groups(self) -> tuple[Group, ...]:
        """All groups, in file order. Each access parses the file again."""
        return groups_of(lines(self.body, self.dialect), self.dialect)

    def decide(self, url: str, agents: str | Sequence[str]) -> Decision:
        """Return the decision whether a crawler may fetch *url*, and the rule that the decision is based on.

        *agents* are the crawler's product tokens, in order of preference. The crawler follows the groups
        for the first token that has groups. If no token has a group, the crawler follows the groups
        for ``*`` (RFC 9309, 2.2.1).
        """
        target, written = paths.target(url, self.dialect)
        if self._is_robotstxt(target):
            return Decision(True, None, None, Reason.ROBOTS_TXT)
        if self._blanket is not None:
            return self._blanket
        followed = self._rules_for(agents)
        if followed.agent is None:
            return Decision(True, None, None, Reason.NO_GROUP)
        rules = followed.rules or self._read_rules(followed)
        index = rules.winner(target, written)
        if index == TOO_LONG:
            return Decision(False, None, followed.agent, Reason.TOO_LONG)
        winner = rules.rule(index)
        if winner is None:
            return Decision(True, None, followed.agent, Reason.NO_RULE)
        return Decision(*winner, followed.agent, Reason.RULE)

    def is_allowed(self, url: str, agents: str | Sequence[str]) -> bool:
        """Return the same as ``decide(url, agents).allowed``, in half the time."""
        # This repeats the code of paths.target(), because calling it and creating a Target object would make this
        # method a fifth slower.
        normal = NORMAL_URL(url)
        if normal:
            target, written = normal[1], ""
        else:
            target, written = paths.plain_target(url, self.dialect)
        if self._blanket is not None:
            return self._blanket.allowed or self._is_robotstxt(target)
        followed = self._rules_for(agents)
        rules, allowed = followed.rules, None
        if rules is None:
            allowed = followed.first_answer(target, written)
        if allowed is None:
            rules = rules or self._read_rules(followed)
            allowed = bool(rules.allows[rules.winner(target, written)])
        return allowed or self._is_robotstxt(target)

    def user_agent_line(self, decision: Decision) -> tuple[int, str] | None:
        """Return the number and the value of the user-agent line that makes the rule in *decision* apply to
        the crawler. The value is as written. Return None if the decision is not based on a rule.
        """
        agent = decision.agent
        if agent is None or decision.rule is None:
            return None
        if self._agent_lines is None or len(self._agent_lines) >= _MAX_CRAWLERS:
            self._agent_lines = {}
        numbers = self._agent_lines.get(agent)
        if numbers is None:
            numbers = lines_naming(self.body, agent, self.dialect)
            self._agent_lines[agent] = numbers
        lines_above = bisect_left(numbers, decision.line)
        if not lines_above:
            return None
        number = numbers[lines_above - 1]
        return number, value_of_line(self.body, number, self.dialect)

    def pace(self, agents: str | Sequence[str]) -> Pace:
        """Return the longest ``Crawl-delay`` and the slowest ``Request-rate`` that the file sets for a crawler,
        and the delay between two requests that results from them.
        """
        return self._rules_for(agents).pace

    def crawl_delay(self, agents: str | Sequence[str]) -> float | None:
        """Return the longest ``Crawl-delay`` for a crawler in seconds; None if the file sets no delay."""
        return self.pace(agents).crawl_delay

    def request_rate(self, agents: str | Sequence[str]) -> RequestRate | None:
        """Return the slowest ``Request-rate`` for a crawler; None if the file sets no rate."""
        return self.pace(agents).request_rate

    @property
    def may_state_usage(self) -> bool:
        """Whether the file may contain usage records, according to a fast search. False means that it contains
        none, which is true for most files. True means that it may contain some, which only parsing can show.
        """
        if self._may_state_usage is None:
            from scrapy_rep.protocol.usage import sites  # noqa: PLC0415

            self._may_state_usage = sites.may_state_usage(self.body, self.dialect)
        return self._may_state_usage

    def usage(self, url: str, agents: str | Sequence[str]) -> UsagePreferences:
        """Return the usage preferences that the file states for *url* and a crawler. For a URL that the
        crawler may not fetch, return empty preferences (draft-ietf-aipref-attach-05, 3.1).
        """
        from scrapy_rep.protocol.usage import sites  # noqa: PLC0415
        from scrapy_rep.protocol.usage.preferences import (  # noqa: PLC0415
            NOTHING_STATED,
            UsagePreferences,
        )

        if not self.may_state_usage or not self.is_allowed(url, agents):
            return NOTHING_STATED
        records = self._rules_for(agents).usage_records(self.body)
        preferences = records.of_target(*paths.target(url, self.dialect))
        for token in records.purpose_tokens:
            statements = sites.purpose_statements(token, self.decide(url, token))
            preferences |= UsagePreferences(statements)
        return preferences

    def _is_robotstxt(self, target: str) -> bool:
        return target == "/robots.txt" and self.dialect.robotstxt_allowed

    def _rules_for(self, agents: str | Sequence[str]) -> CrawlerRules:
        """Return the rules for the crawler with the product tokens *agents*. They are cached."""
        key = agents if isinstance(agents, str) else tuple(agents)
        rules = self._crawlers.get(key)
        if rules is None:
            if len(self._crawlers) >= _MAX_CRAWLERS:
                self._crawlers.clear()
            rules = CrawlerRules(key, self.body, self.dialect)
            self._crawlers[key] = rules
        return rules

    def _read_rules(self, followed: CrawlerRules) -> RuleList:
        # `followed` contains a copy of the text of its groups. After the rules have been read from this copy, the text
        # of the whole file is rarely needed. To save memory, a large text is compressed.
        if not self._is_compressed and len(self._body) >= _COMPRESSED_FROM:
            self._body = zlib.compress(self._body, 1)
            self._is_compressed = True
        return followed.read_rules()
