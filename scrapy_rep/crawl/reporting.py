"""Reports each decision of a crawl in the log, in the stats, in a summary at the end of the crawl, and by the signal
``decision_made``. The ledger receives the decisions from this signal.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from scrapy import signals
from scrapy.utils.misc import load_object
from scrapy.utils.python import global_object_name

from scrapy_rep.base import __version__, stats
from scrapy_rep.base.compat import shared_component
from scrapy_rep.base.identity import Identity
from scrapy_rep.base.log import CrawlLog
from scrapy_rep.base.records import (
    Because,
    make_record,
    page_record,
    request_record,
    storable,
    url_text,
)
from scrapy_rep.base.requests import origin_at
from scrapy_rep.base.settings import GATE, RepSettings, ignores_robotstxt
from scrapy_rep.exceptions import RobotsDenied
from scrapy_rep.protocol.reasons import REASONS, Words, words_of
from scrapy_rep.protocol.robotstxt.rules import Decision, Reason
from scrapy_rep.protocol.usage.statements import Source
from scrapy_rep.record import IN_DRY_RUN, Layer, Record, Subject, Verdict
from scrapy_rep.signals import decision_made

if TYPE_CHECKING:
    from typing import TypeAlias

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_rep.protocol.access.entries import CacheEntry
    from scrapy_rep.protocol.access.overrides import Override
    from scrapy_rep.protocol.access.site_rules import SiteRules
    from scrapy_rep.protocol.origins import Origin

    _Key: TypeAlias = "tuple[Subject, Verdict, str, str, str]"

# Decisions that are not based on a rule of a robots.txt.
BY_USER = Decision(True, None, None, Reason.OVERRIDE)
ROBOTS_TXT = Decision(True, None, None, Reason.ROBOTS_TXT)
BACK_OFF = Decision(False, None, None, Reason.BACK_OFF)
BUDGET = Decision(False, None, None, Reason.BUDGET)
UNREACHABLE = Decision(False, None, None, Reason.UNREACHABLE)
BAD_URL = Decision(False, None, None, Reason.BAD_URL)

IF_OBEYED = " with ROBOTSTXT_OBEY = True"
"""A phrase for the messages of a dry run in a project that ignores robots.txt. A real run would make the reported
decisions only if the project obeyed robots.txt."""

_KINDS = {
    (Subject.REQUEST, Verdict.REFUSED): "Requests refused",
    (Subject.LINK, Verdict.DROPPED): "Links not followed",
    (Subject.ITEM, Verdict.DROPPED): "Items dropped",
    (Subject.FILE, Verdict.DROPPED): "Files withheld",
    (Subject.REQUEST, Verdict.WOULD_REFUSE): "Requests that would be refused",
    (Subject.LINK, Verdict.WOULD_DROP): "Links that would not be followed",
    (Subject.ITEM, Verdict.WOULD_DROP): "Items that would be dropped",
    (Subject.FILE, Verdict.WOULD_DROP): "Files that would be withheld",
    (
        Subject.REQUEST,
        Verdict.WOULD_ALLOW,
    ): "Requests that Scrapy refuses and that would be sent",
}

_SLOWED = {
    "delay": "Hosts that ask for a delay",
    "back-off": "Pauses that hosts asked for",
}

_IN_WORDS = {
    Verdict.REFUSED: "is refused",
    Verdict.DROPPED: "is dropped",
    Verdict.WOULD_REFUSE: "would be refused",
    Verdict.WOULD_DROP: "would be dropped",
}

# The reasons of decisions that count as a refusal by robots.txt. If robots.txt refuses a start request, and the crawl
# fetches no page, the crawl closes with the reason robots_denied.
_ROBOTS_TXT_REASONS = frozenset(
    {"rule", "too-long", "unavailable", "unreachable", "crawl-delay"}
)

_REFUSED = frozenset({Verdict.REFUSED, Verdict.WOULD_REFUSE})
_DRY_RUN_VERDICTS = frozenset({*IN_DRY_RUN.values(), Verdict.WOULD_ALLOW})
_WITHHELD = frozenset({*IN_DRY_RUN, *IN_DRY_RUN.values()})

_STATS = {
    Subject.REQUEST: stats.DENIED,
    Subject.LINK: stats.NOFOLLOW,
    Subject.ITEM: stats.NOINDEX,
    Subject.FILE: stats.MEDIA_REFUSED,
}
_USAGE_STATS = {Subject.ITEM: stats.USAGE_DROPPED, Subject.FILE: stats.USAGE_MEDIA}

# The maximum number of hosts that a dry run names in a summary line.
_MAX_HOSTS_NAMED = 3
# For each summary line, a dry run counts the decisions by host, to name the hosts with the most decisions. This is the
# maximum number of hosts to count. The decisions of further hosts are included only in the total.
_MAX_HOSTS_COUNTED = 10_000

# The maximum number of characters of a user-agent line in a message.
_MAX_USER_AGENTS = 100

# The product token in Scrapy's default USER_AGENT, and the advice for projects whose requests are refused because
# they use the default.
_DEFAULT_NAME = "scrapy"
_NAME_ADVICE = (
    "the group for Scrapy applies to your crawler because it has no name of its own: set USER_AGENT to "
    "a name, such as 'mybot/1.0 (+https://example.com/mybot)'"
)


class Via(NamedTuple):
    """How the crawl reached a URL that the spider did not request: the download handler followed a redirect to the URL,
    or a page in a browser loads the URL.
    """

    how: Literal["redirect", "browser"]
    """``"redirect"``: a redirect or a script led from the requested URL to the reached URL. The reached URL is checked
    after it was fetched, before the spider gets the response.

    ``"browser"``: a page in a browser loads the reached URL, for example as an image. The reached URL is checked before
    it is fetched."""

    page: str
    """For ``"redirect"``, the URL that the spider requested. For ``"browser"``, the URL of the page in the browser;
    empty if the page is not known."""


class Check:
    """The check of one request against robots.txt. Contains the request, and the data that are needed to decide about it
    and to report the decision, such as the rules of the origin.
    """

    rules: SiteRules | None = None
    """The rules of the origin. None if they are not known yet, or not needed, for example because an override replaces
    them."""

    override: Override | None = None
    """The override that replaces the robots.txt of the origin. None if robots.txt decides."""

    via: Via | None = None
    """How a browser or a download handler reached the URL if the spider did not request it, for example by a redirect.
    None if the spider requested the URL."""

    is_exempt: bool = False
    """Whether the request's meta key ``dont_obey_robotstxt`` exempts it from robots.txt."""

    is_refused_by_scrapy: bool = False
    """Whether Scrapy's own RobotsTxtMiddleware refused the request. Can be true only in a dry run."""

    why: str = ""
    """The reason, in words, if the request is refused because of a pause or the maximum number of pages for its host.
    Otherwise empty."""

    def __init__(self, request: Request, origin: Origin | None) -> None:
        self.request = request

        self.origin = origin
        """The origin of the URL. None if the host or the port of the URL is invalid."""

    @property
    def entry(self) -> CacheEntry | None:
        """The cache entry of the robots.txt that applies to the request. None if *rules* is None."""
        return None if self.rules is None else self.rules.entry

    def record(self, decision: Decision) -> Record:
        """Return the record of *decision* about this request. It contains the rule on which the decision is based, with
        its line, and the time at which robots.txt was fetched. If the decision is based on an override in
        ``REP_OVERRIDES``, it contains the override.
        """
        return request_record(
            self.request.url,
            self.origin,
            decision,
            entry=self.entry,
            override=self.override,
            via=self.via and f"{self.via.how} {url_text(self.via.page)}",
        )

    def message(self, decision: Decision) -> str:
        """Return the message for a *decision* that refuses this request. The message names the robots.txt or override
        on which the decision is based, the line of the rule, and the reason.
        """
        if decision.reason in {Reason.BACK_OFF, Reason.BUDGET}:
            return f"Refused by {decision.reason}: {self.why}"
        if self.override is not None:
            why = f"REP_OVERRIDES[{self.override.pattern!r}]{self.override.note}"
        elif self.origin is not None:
            why = self.origin.robotstxt_url
        else:
            why = "scrapy-rep"
        if decision.rule is not None:
            kind, pattern, line = decision.rule
            why += f", line {line} ({kind}: {pattern}){self._group_of(decision)}"
            if decision.reason is not Reason.RULE:
                words, setting, _ = REASONS[decision.reason]
                why += f": {words} ({setting})"
        else:
            words = REASONS[decision.reason].text
            if decision.reason is Reason.UNREACHABLE and self.entry is not None:
                words = f"unreachable: {self.entry.result}"
            why += f" ({words})"
        if decision.form:
            why += f", as {decision.form}"
        if self.via:
            is_redirect = self.via.how == "redirect"
            how = (
                "was reached by a redirect of a browser"
                if is_redirect
                else "was requested by a browser"
            )
            why += f"; {self.request.url} {how} from {self.via.page}"
        return f"Refused by {why}"

    def _group_of(self, decision: Decision) -> str:
        """Return the part of a message that names the robots.txt group with the rule of *decision*, such as
        ``", in the group of line 3 (user-agent: mybot)"``. Return an empty string if the group is not known.
        """
        if self.override is not None:
            robots = self.override.robots
        else:
            robots = None if self.rules is None else self.rules.robots
        line = None if robots is None else robots.user_agent_line(decision)
        if line is None:
            return ""
        number, names = line
        return f", in the group of line {number} (user-agent: {storable(names, _MAX_USER_AGENTS)})"


class DecisionReporter:
    """Reports the decisions of a crawl in the log, in the stats, and by the signal ``decision_made``, from which the
    ledger receives them. Each decision is reported once. At the end of the crawl, a summary of all refusals and drops
    is logged.

    Refusals and drops are always reported. Which allowed requests are reported depends on the ledger:

    - Without a ledger, no allowed requests are reported.
    - With a ledger and ``REP_LEDGER_LEVEL = "all"``, all allowed requests are reported.
    - With a ledger and ``REP_LEDGER_LEVEL = "denied"``, an allowed request is reported only if an override
      (``REP_OVERRIDES``) or the meta key ``dont_obey_robotstxt`` allows it.

    In a dry run, a request that Scrapy's own RobotsTxtMiddleware refused and this package would allow is always
    reported.
    """

    def __init__(self, crawler: Crawler) -> None:
        settings = RepSettings.of(crawler)
        self._crawler = crawler
        self._logger = CrawlLog(__name__, crawler)
        self._has_ledger = settings.ledger is not None
        self.reports_all = self._has_ledger and settings.ledger_level == "all"
        """Whether all allowed requests are reported, because the crawl writes a ledger at the level ``"all"``."""

        self._overrides_in_use: set[str] = set()
        self._summary = Summary(crawler)
        self._is_dry_run = settings.dry_run

    @classmethod
    def of(cls, crawler: Crawler) -> DecisionReporter:
        """Return the DecisionReporter that all components of a crawl share."""
        return shared_component(crawler, cls)

    @property
    def is_start_refused(self) -> bool:
        """Whether robots.txt refused a start request of the spider."""
        return self._summary.is_start_refused

    def allowed(self, check: Check, decision: Decision) -> None:
        """Report that *decision* allows the request of *check*. Do nothing if this request is not among the allowed
        requests that are reported (see :class:`DecisionReporter`).
        """
        if check.is_refused_by_scrapy:
            record = check.record(decision)._replace(verdict=Verdict.WOULD_ALLOW)
            self.decided(record, check.request)
        elif self.reports_all or (
            self._has_ledger and (check.is_exempt or check.override is not None)
        ):
            self.decided(check.record(decision), check.request)

    def refused(self, check: Check, decision: Decision) -> RobotsDenied:
        """Report that *decision* refuses the request of *check*. Return the exception that the caller has to raise, and
        that the errback of the request receives.
        """
        denied = RobotsDenied(check.message(decision), check.record(decision))
        if not self._is_dry_run:
            message = "%(denied)s: %(request)s"
            self._logger.debug(message, denied=denied, request=check.request)
            self._crawler.stats.inc_value(stats.FORBIDDEN)
        self.decided(denied.record, check.request)
        return denied

    def decided(
        self,
        record: Record,
        request: Request | None = None,
        response: Response | None = None,
    ) -> None:
        """Report the decision in *record*: count it in the stats and the summary, and send ``decision_made``.

        If the decision is about a request, *request* is this request. If it is about a page, or about a link, an item
        or a file of a page, *response* is the page, and *request* is the request for the page. Either argument is None
        if it is not known.
        """
        if self._is_dry_run and record.verdict in IN_DRY_RUN:
            record = record._replace(verdict=IN_DRY_RUN[record.verdict])
        if stat := _stat(record):
            self._crawler.stats.inc_value(stat)
        if stat or (record.layer is Layer.DELAY and record.verdict is Verdict.NOTED):
            self._summary.note(record, request)
        self._crawler.signals.send_catch_log(
            decision_made,
            record=record,
            request=request,
            response=response,
            spider=self._crawler.spider,
        )

    def stated(
        self,
        subject: Subject,
        verdict: Verdict,
        reason: str,
        because: Because,
        *,
        request: Request | None,
        response: Response,
        url: str = "",
        entry: CacheEntry | None = None,
    ) -> Record:
        """Report a decision about a page, or about a link, an item or a file of a page. Return the record of the
        decision.

        :param subject: what the decision is about
        :param verdict: the outcome of the decision
        :param reason: the reason in the record, such as the indexing rule ``"noindex"`` or the purpose ``"train-ai"``
        :param because: the site's statement on which the decision is based, such as a meta tag. None if the site states
            nothing about a purpose
        :param request: the request for the page; None if it is not known
        :param response: the page
        :param url: the URL that the decision is about, such as the target of the link; by default, the URL of the page
        :param entry: if the statement is in a robots.txt, the cache entry of the robots.txt
        """
        url = url or response.url
        record = page_record(
            subject,
            verdict,
            reason,
            because,
            url=url,
            origin=origin_at(url, request),
            page=response.url,
            entry=entry,
        )
        self.decided(record, request, response)
        return record

    def slowed(
        self, reason: str, statement: str, origin: Origin | None, url: str
    ) -> None:
        """Report that *origin* slows down the crawl.

        :param reason: ``"delay"`` for a delay in robots.txt, ``"back-off"`` for a pause after a response
        :param statement: the text by which *origin* asks for the delay or pause, such as ``Crawl-delay: 10``
        :param url: the URL of the robots.txt or response that contains the statement
        """
        record = make_record(
            Subject.REQUEST,
            Verdict.NOTED,
            Layer.DELAY,
            reason,
            url=url,
            origin=origin,
            statement=statement,
        )
        self.decided(record)

    def override_used(self, override: Override, origin: Origin) -> None:
        """Count a request to which *override* applies, in the stat ``rep/override/{kind}``. The first call for each
        override also logs that the override applies to *origin*.
        """
        self._crawler.stats.inc_value(stats.OVERRIDE.format(kind=override.kind))
        if override.pattern not in self._overrides_in_use:
            self._overrides_in_use.add(override.pattern)
            self._logger.info(
                "REP_OVERRIDES[%(pattern)r] applies to %(origin)s: %(kind)s%(note)s",
                pattern=override.pattern,
                origin=origin,
                kind=override.kind,
                note=override.note,
            )


def _stat(record: Record) -> str:
    """Return the key of the stat in which the decision in *record* is counted. Return an empty string if the decision
    is not counted.

    In a real run, refusals and drops are counted. In a dry run, two kinds of decisions are counted:

    - A real run would refuse or drop something.
    - A real run would allow a request that Scrapy's own RobotsTxtMiddleware has refused in the dry run.
    """
    if record.verdict is Verdict.WOULD_ALLOW:
        return stats.DRY_RUN_ALLOWED.format(reason=record.reason)
    if record.verdict not in _WITHHELD:
        return ""
    is_use = record.layer is Layer.USAGE
    stat = (_USAGE_STATS if is_use else _STATS)[record.subject].format(
        reason=record.reason,
        source="rel" if record.layer is Layer.REL else "page",
    )
    is_real = record.verdict in IN_DRY_RUN
    return stat if is_real else stats.DRY_RUN.format(key=stat.removeprefix("rep/"))


class Summary:
    """Counts the decisions that refuse requests, drop links, items and files, or slow down the crawl. At the end of the
    crawl, logs a summary: one line for all decisions with the same subject (such as requests), outcome and reason. The
    line contains the number of these decisions, an example, and the setting that changes such decisions.

    The first refused start request and the first dropped item are logged immediately, since the crawl may end
    without any pages or items.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._logger = CrawlLog(__name__, crawler)
        self._crawler, self._stats = crawler, crawler.stats
        self._ignores_robotstxt = ignores_robotstxt(crawler.settings)
        self._counts: dict[_Key, tuple[int, Record]] = {}
        """For each line of the summary, the number of decisions, and the record of the first decision as an example. A
        key contains what the decisions of a line have in common: subject, verdict, reason, the setting that changes
        them, and the result of :meth:`_condition`."""
        self._origins: dict[_Key, Counter[str]] = {}
        """In a dry run: for each line of the summary, the number of decisions by origin. The keys are those of
        ``_counts``."""
        self._announced: set[tuple[Subject, bool]] = set()
        """The kinds of decisions that were already logged immediately. Only the first decision of each kind is logged
        in this way. A kind is a pair: the subject of the decision, and whether the decision is a refusal because the
        crawler still has Scrapy's default name (see :func:`_is_nameless`)."""
        self.is_start_refused = False
        """Whether robots.txt refused a start request of the spider."""

        crawler.signals.connect(self._introduce, signals.spider_opened)
        crawler.signals.connect(self._sum_up, signals.spider_closed)

    def _introduce(self) -> None:
        """Log the name of the crawler and its main settings, such as whether it obeys robots.txt."""
        settings, rep = self._crawler.settings, RepSettings.of(self._crawler)
        if rep.dry_run:
            does = (
                "this is a dry run (REP_DRY_RUN), which fetches robots.txt files and judges requests, "
                "links and items, but does not refuse, drop or delay any. The last lines of the log "
                "say what a real run would refuse and drop"
            )
        elif rep.obey and not self._crawler.get_downloader_middleware(
            load_object(GATE)
        ):
            does = f"robots.txt is ignored, since {GATE} is disabled"
        elif rep.obey:
            does = "robots.txt is obeyed"
        else:
            does = (
                "robots.txt is ignored (ROBOTSTXT_OBEY = False), but noindex and nofollow of pages are "
                f"handled by REP_NOINDEX = {rep.noindex!r} and REP_NOFOLLOW = {rep.nofollow!r}"
            )
        scheduler = settings["SCHEDULER"]
        self._logger.info(
            "scrapy-rep %(version)s crawls as %(agents)s (dialect %(dialect)s): %(does)s. "
            "Scheduler: %(scheduler)s, store: %(store)s, ledger: %(ledger)s",
            version=__version__,
            agents=", ".join(Identity.of(self._crawler).tokens(None)) or "*",
            dialect=rep.dialect.name,
            does=does,
            scheduler=scheduler
            if isinstance(scheduler, str)
            else global_object_name(scheduler),
            store=rep.store,
            ledger=rep.ledger or "none",
        )

    def note(self, record: Record, request: Request | None) -> None:
        """Count the decision in *record* for the summary. Log it immediately if it is the first that refuses a start
        request, the first that drops an item, or the first that refuses a request because the crawler still has
        Scrapy's default name (see :func:`_is_nameless`).

        *request* is the request that the decision is about. For a decision about a page, or about a link, an item or a
        file of a page, it is the request for the page. None if it is not known.
        """
        key = (
            record.subject,
            record.verdict,
            record.reason,
            _words(record).setting,
            self._condition(record),
        )
        count, first = self._counts.get(key, (0, record))
        self._counts[key] = count + 1, first
        if record.verdict in _DRY_RUN_VERDICTS:
            origins = self._origins.setdefault(key, Counter())
            if record.origin in origins or len(origins) < _MAX_HOSTS_COUNTED:
                origins[record.origin] += 1
        is_start = (
            record.verdict in _REFUSED
            and request is not None
            and bool(request.meta.get("is_start_request"))
        )
        self.is_start_refused |= (
            is_start
            and record.verdict is Verdict.REFUSED
            and record.reason in _ROBOTS_TXT_REASONS
        )
        is_nameless = _is_nameless(record)
        if record.subject is Subject.ITEM:
            what = "The first item"
        elif is_start or is_nameless:
            what = "A start request" if is_start else "A request"
        else:
            return
        kind = record.subject, is_nameless
        if kind in self._announced:
            return
        self._announced.add(kind)
        does = f"{_IN_WORDS[record.verdict]}{self._condition(record)}"
        values = _in_words(f"{what} {does}", record)
        self._logger.warning(
            "%(what)s, because %(why)s. Example: %(example)s", **values
        )

    def _condition(self, record: Record) -> str:
        """Return a phrase for a message: the condition under which a real run would make the decision in *record*. The
        phrase is :data:`IF_OBEYED` if this is a dry run in a project that ignores robots.txt, and the decision depends
        on robots.txt or tdmrep.json. Otherwise, there is no condition, and the phrase is empty.
        """
        if self._ignores_robotstxt and record.verdict in _DRY_RUN_VERDICTS:
            is_of_site = record.source in {Source.ROBOTS_TXT, Source.TDMREP}
            if is_of_site or record.subject is Subject.REQUEST:
                return IF_OBEYED
        return ""

    def _sum_up(self) -> None:
        """Log the lines of the summary. Lines with more decisions come first."""
        by_count = sorted(self._counts.items(), key=lambda item: -item[1][0])
        for key, (count, first) in by_count:
            if first.verdict is Verdict.NOTED:
                what = _SLOWED[first.reason]
            else:
                what = _KINDS[first.subject, first.verdict] + self._condition(first)
            what += f": {count:,}"
            if first.verdict in {Verdict.WOULD_REFUSE, Verdict.WOULD_ALLOW}:
                sent = self._stats.get_value(stats.DRY_RUN_REQUESTS, count)
                what += f" of the {sent:,} requests of this run"
            most = self._origins.get(key, Counter()).most_common(_MAX_HOSTS_NAMED)
            # Refused requests are normal, so they are logged at INFO. If items or links are dropped, the project loses
            # a part of a page that it has already fetched, hence the warning.
            is_fetched = first.subject is not Subject.REQUEST
            level = logging.WARNING if is_fetched else logging.INFO
            named = ", ".join(f"{origin} ({number:,})" for origin, number in most)
            self._logger.at_end(
                level,
                "%(what)s, because %(why)s. Example: %(example)s%(most)s",
                **_in_words(what, first),
                most=named and f". Most at {named}",
            )


def _words(record: Record) -> Words:
    """Return the texts that explain the decision in *record*: its reason in words, the setting that changes such
    decisions, and further advice.
    """
    words = words_of(record.reason, record.layer, record.verdict)
    if _is_nameless(record):
        words = words._replace(setting="USER_AGENT", hint=_NAME_ADVICE)
    return words


def _is_nameless(record: Record) -> bool:
    """Whether *record* is the refusal of a request because the crawler still has Scrapy's default name: a robots.txt
    group for the user agent ``Scrapy`` refused the request. This group applies to a crawl whose ``USER_AGENT`` the
    project did not set.
    """
    is_refused = record.subject is Subject.REQUEST and record.verdict in _REFUSED
    is_of_scrapy = record.agent is not None and record.agent.lower() == _DEFAULT_NAME
    return is_refused and is_of_scrapy and record.layer is Layer.ROBOTS_TXT


def _in_words(what: str, record: Record) -> dict[str, Any]:
    """Return the values for the placeholders of a log message about the decision in *record*. The key ``what`` contains
    *what*, which says what was decided. ``why`` contains the reason, with advice on how to change such decisions.
    ``example`` contains the URL in *record*, with the rule or statement on which the decision is based.
    """
    words = _words(record)
    return {
        "what": what,
        "why": f"{words.text}; {words.advice}" if words.advice else words.text,
        "example": record.url + (f" ({record.statement})" if record.statement else ""),
    }
