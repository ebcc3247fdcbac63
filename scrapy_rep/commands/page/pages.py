"""Shows the indexing rules of a page, and the evidence of each."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import UsageError

from scrapy_rep.commands.check.checking import why
from scrapy_rep.commands.page.fetched import Page, fetched_page, page_of_file
from scrapy_rep.commands.shared.lists import asked_argument
from scrapy_rep.commands.shared.output import (
    BOLD,
    GREEN,
    RED,
    Output,
    Painted,
    complain,
)
from scrapy_rep.commands.shared.readings import (
    access_record,
    decision_record,
    describe_access,
)
from scrapy_rep.commands.shared.running import CLEAN, FOUND
from scrapy_rep.commands.shared.sources import Sources, is_url
from scrapy_rep.commands.shared.terms import Terms, terms_of
from scrapy_rep.commands.shared.uses import (
    is_denied,
    robotstxt_usage,
    show_usage,
    usage_record,
)
from scrapy_rep.protocol.dialect import DIALECTS
from scrapy_rep.protocol.indexing.rules import IndexingRules
from scrapy_rep.protocol.indexing.statements import DENIALS, VALUED
from scrapy_rep.protocol.usage.preferences import UsagePreferences

if TYPE_CHECKING:
    from argparse import Namespace

    from scrapy.crawler import Crawler
    from scrapy.settings import Settings

    from scrapy_rep.protocol.dialect import Dialect
    from scrapy_rep.protocol.indexing.statements import Statement

_SILENCE = IndexingRules().to_dict()


def page(arguments: Namespace, settings: Settings) -> int:
    terms = terms_of(arguments, settings)
    if terms.note:
        complain(terms.note)
    found = _found(arguments, terms)
    output = Output.of(arguments)
    readable = found.decision is None or found.decision.allowed or arguments.force
    rules = _rules(found, terms, terms.dialect)
    usage = _usage(found, terms, rules)
    now = datetime.now(timezone.utc)
    fetched = readable and not found.error
    if output.as_json:
        record = _record(found, terms, rules if fetched else None, now)
        if fetched:
            record["usage"] = usage_record(usage, terms)
        output.record(record)
    else:
        _show(output, found, terms, rules if fetched else None, now)
        if fetched:
            show_usage(output, usage, terms)
    allowed = found.decision is None or found.decision.allowed
    may_be_used = rules.indexable(now) and not is_denied(usage, terms)
    return CLEAN if allowed and fetched and may_be_used else FOUND


def _found(arguments: Namespace, terms: Terms) -> Page:
    if not is_url(arguments.page):
        return page_of_file(arguments.page, arguments.header)
    if arguments.header:
        raise UsageError("--header is for a page in a file; that of a URL has its own")
    asked_argument(arguments.page)
    from scrapy_rep.commands.shared.asking import Web, in_crawl  # noqa: PLC0415

    async def fetch(crawler: Crawler) -> Page:
        web = Web(crawler, terms.rep)
        sources = Sources(terms, [terms.dialect], {}, web)
        return await fetched_page(
            arguments.page, terms, sources, web, force=arguments.force
        )

    return in_crawl(terms.settings, fetch)


def _rules(found: Page, terms: Terms, dialect: Dialect) -> IndexingRules:
    return IndexingRules.parse(
        found.headers, found.html, terms.agents, dialect, found.encoding
    )


def _usage(found: Page, terms: Terms, rules: IndexingRules) -> UsagePreferences:
    """What the page, its robots.txt and its tdmrep.json state together."""
    usage = UsagePreferences.of_page(
        found.fields, rules.statements, rules.tags, found.tdmrep
    )
    if found.reading is None:
        return usage
    return robotstxt_usage(found.reading.robots, found.where, terms) | usage


def _evidence(rules: IndexingRules) -> dict[str, list[Statement]]:
    """The statements behind each rule that differs from what silence allows."""
    said = rules.to_dict()
    return {
        key: [each for each in rules.statements if key in _bears_on(each)]
        for key in said
        if said[key] != _SILENCE[key]
    }


def _bears_on(statement: Statement) -> set[str]:
    """The rules that a statement has a say in."""
    name = statement.name
    if not statement.known or (name in VALUED and statement.value is None):
        return set()
    if name in VALUED:
        rule = name.replace("-", "_")
        return {rule, "snippet"} if rule == "max_snippet" else {rule}
    denied = set(DENIALS[name])
    if "snippet" in denied:
        denied.add("max_snippet")
    if "index" in denied:
        denied.add("index_embedded")
    return denied


def _statement_record(statement: Statement) -> dict[str, Any]:
    return {
        "source": statement.source,
        "agent": statement.agent,
        "position": statement.position,
        "text": statement.text,
        "known": statement.known,
    }


def _record(
    found: Page, terms: Terms, rules: IndexingRules | None, now: datetime
) -> dict[str, Any]:
    record: dict[str, Any] = {
        "page": found.where,
        "agents": list(terms.agents),
        "dialect": terms.dialect.name,
        "fetched": rules is not None,
        "status": found.status,
        "redirects": found.redirects,
        "error": found.error,
        "robotstxt": found.reading and found.reading.where,
        "access": found.reading and access_record(found.reading),
        "decision": found.decision and decision_record(found.decision),
    }
    if rules is None:
        return record | {"indexable": False}
    return record | {
        "indexable": rules.indexable(now),
        "rules": rules.to_dict(),
        "evidence": {
            key: [_statement_record(each) for each in statements]
            for key, statements in _evidence(rules).items()
        },
        "statements": [_statement_record(each) for each in rules.statements],
        "findings": [
            {
                "code": each.code,
                "message": each.message,
                "source": each.source,
                "position": each.position,
            }
            for each in rules.findings
        ],
        "dialects": {
            name: {"indexable": each.indexable(now), "rules": each.to_dict()}
            for name, each in _in_each_dialect(found, terms).items()
        },
    }


def _in_each_dialect(found: Page, terms: Terms) -> dict[str, IndexingRules]:
    dialects = {terms.dialect.name: terms.dialect} | DIALECTS
    return {name: _rules(found, terms, dialect) for name, dialect in dialects.items()}


def _show(
    output: Output,
    found: Page,
    terms: Terms,
    rules: IndexingRules | None,
    now: datetime,
) -> None:
    show = output.line
    verdict = _verdict(rules, now)
    show(verdict, "  ", Painted(found.where, BOLD))
    for url in found.redirects:
        show("  redirected to ", url)
    if found.decision is not None and found.reading is not None:
        word = "allows" if found.decision.allowed else "forbids"
        show(f"  robots.txt {word} to fetch it: ", why(found.decision))
        show("  (", found.reading.where, ", ", describe_access(found.reading), ")")
    if found.error:
        show("  It could not be fetched: ", found.error)
    if rules is None:
        if not found.error:
            show("  It was not fetched, so nothing is known of its indexing rules.")
        return
    if found.status is not None and found.status != 200:
        show(f"  It was sent with status {found.status}.")
    said = rules.to_dict()
    for key, statements in _evidence(rules).items():
        show("  ", Painted(key, BOLD), ": ", _value(said[key]))
        for each in statements:
            show("      ", *_described(each))
    for statement in rules.unknown:
        show("  without effect in this dialect: ", *_described(statement))
    for finding in rules.findings:
        show(f"  [{finding.code}] ", finding.message)
    for name, each_rules in _in_each_dialect(found, terms).items():
        show(f"  {name:<10} ", _verdict(each_rules, now), "  ", each_rules.to_header())


def _verdict(rules: IndexingRules | None, now: datetime) -> Painted:
    if rules is None:
        return Painted("unknown  ", RED)
    if rules.indexable(now):
        return Painted("indexable", GREEN)
    return Painted("noindex  " if not rules.index else "expired  ", RED)


def _value(value: object) -> str:
    return "no" if value is False else str(value)


def _described(statement: Statement) -> list[str]:
    whom = "for " + (statement.agent or "everyone")
    if statement.source == "header":
        place = f"X-Robots-Tag header {statement.position}"
    else:
        place = f"meta tag at byte {statement.position}"
    return [statement.text[:200], "   (", place, ", ", whom, ")"]
