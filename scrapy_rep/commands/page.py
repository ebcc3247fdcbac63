"""``scrapy rep page``: the indexing rules of a page, and the statements they follow."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import UsageError

from scrapy_rep.commands.loading import Page, fetched_page, page_of_file
from scrapy_rep.commands.shared.exit_status import CLEAN, FOUND
from scrapy_rep.commands.shared.output import Output, Painted, notify
from scrapy_rep.commands.shared.profile import Profile, profile_of
from scrapy_rep.commands.shared.robotstxt import (
    access_record,
    decision_record,
    describe_access,
)
from scrapy_rep.commands.shared.sources import ask
from scrapy_rep.commands.shared.urls import is_url, parse_argument
from scrapy_rep.commands.shared.usage import (
    is_denied,
    robotstxt_usage,
    show_usage,
    usage_record,
)
from scrapy_rep.commands.shared.verdicts import why
from scrapy_rep.protocol.dialect import DIALECTS
from scrapy_rep.protocol.indexing.rules import IndexingRules
from scrapy_rep.protocol.indexing.statements import DENIALS, VALUED
from scrapy_rep.protocol.usage.preferences import UsagePreferences

if TYPE_CHECKING:
    from argparse import Namespace

    from scrapy.settings import Settings

    from scrapy_rep.protocol.dialect import Dialect
    from scrapy_rep.protocol.indexing.statements import Statement

_DEFAULTS = IndexingRules().to_dict()


def run(arguments: Namespace, settings: Settings) -> int:
    profile = profile_of(arguments, settings)
    for note in profile.notes:
        notify(note)
    page = _load(arguments, profile)
    output = Output(arguments)
    is_fetched = (page.is_allowed or arguments.force) and not page.error
    rules = _rules(page, profile, profile.dialect)
    usage = _usage(page, profile, rules)
    now = datetime.now(timezone.utc)
    if output.as_json:
        record = _record(page, profile, rules if is_fetched else None, now)
        if is_fetched:
            record["document"] = page.is_document
            record["crawl"] = _effects(page, profile, rules, usage, now)
            record["usage"] = usage_record(usage, profile)
        output.record(record)
    else:
        _show(output, page, profile, rules if is_fetched else None, now)
        if is_fetched:
            show_usage(output, usage, profile)
            effects = _effects(page, profile, rules, usage, now)
            if effects is not None:
                output.line("  in a crawl: ", _in_words(page, profile, rules, effects))
    may_be_used = _indexable(page, rules, now) and not is_denied(usage, profile)
    return CLEAN if page.is_allowed and is_fetched and may_be_used else FOUND


def _load(arguments: Namespace, profile: Profile) -> Page:
    if not is_url(arguments.page):
        return page_of_file(arguments.page, arguments.header)
    if arguments.header:
        raise UsageError(
            "--header is only for a page from a file; a URL has its own header fields"
        )
    parsed = parse_argument(arguments.page)
    return ask(
        profile,
        [profile.dialect],
        {},
        lambda sources: fetched_page(parsed, profile, sources, force=arguments.force),
    )


def _rules(page: Page, profile: Profile, dialect: Dialect) -> IndexingRules:
    return IndexingRules.parse(
        page.headers, page.html, profile.agents, dialect, page.encoding
    )


def _indexable(page: Page, rules: IndexingRules, now: datetime) -> bool:
    return rules.indexable(now) and not page.is_error_page


def _usage(page: Page, profile: Profile, rules: IndexingRules) -> UsagePreferences:
    """Return the preferences in the page, its robots.txt and its tdmrep.json, combined."""
    usage = UsagePreferences.of_page(
        page.fields, rules.statements, rules.tags, page.tdmrep
    )
    if page.loaded is None:
        return usage
    return robotstxt_usage(page.loaded.robots, page.where, profile) | usage


def _effects(
    page: Page,
    profile: Profile,
    rules: IndexingRules,
    usage: UsagePreferences,
    now: datetime,
) -> dict[str, str] | None:
    """Return what a crawl with these settings does with the items and the links that a callback
    makes from the page. None if no callback gets the page, since robots.txt forbids it or its
    status is not 2xx.
    """
    if not (page.is_allowed or profile.is_off) or page.is_error_page:
        return None
    rep = profile.rep
    may_drop = rep.noindex == "drop" and page.is_document
    items = "kept"
    if (may_drop and not rules.indexable(now)) or (
        rep.usage == "drop" and is_denied(usage, profile)
    ):
        items = "dropped"
    elif (
        rep.noindex == "annotate"
        or (may_drop and rules.unavailable_after is not None)
        or (rep.usage == "annotate" and rep.purposes)
    ):
        items = "annotated"
    drops_links = rep.nofollow == "drop" and page.is_document and not rules.follow
    return {"items": items, "links": "dropped" if drops_links else "followed"}


def _in_words(
    page: Page, profile: Profile, rules: IndexingRules, effects: dict[str, str]
) -> str:
    words = f"items are {effects['items']}, links are "
    if effects["links"] == "dropped":
        return words + "not followed"
    words += "followed"
    if profile.rep.rel:
        words += f", except with rel={', '.join(sorted(profile.rep.rel))}"
    if page.is_document or not rules.statements:
        return words
    return f"{words}. This is data, not a document: noindex and nofollow drop nothing"


def _evidence(rules: IndexingRules) -> dict[str, list[Statement]]:
    """Return the statements behind each rule that differs from its default."""
    said = rules.to_dict()
    return {
        key: [each for each in rules.statements if key in _affected_rules(each)]
        for key in said
        if said[key] != _DEFAULTS[key]
    }


def _affected_rules(statement: Statement) -> set[str]:
    """Return the names of the rules that a statement affects."""
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
    page: Page, profile: Profile, rules: IndexingRules | None, now: datetime
) -> dict[str, Any]:
    record: dict[str, Any] = {
        "page": page.where,
        **profile.record,
        "dialect": profile.dialect.name,
        "fetched": rules is not None,
        "status": page.status,
        "redirects": page.redirects,
        "error": page.error,
        "robotstxt": page.loaded and page.loaded.where,
        "access": page.loaded and access_record(page.loaded),
        "decision": page.decision and decision_record(page.decision),
    }
    if rules is None:
        return record | {"indexable": False}
    return record | {
        "indexable": _indexable(page, rules, now),
        "rules": rules.to_dict(),
        "evidence": {
            key: [_statement_record(each) for each in statements]
            for key, statements in _evidence(rules).items()
        },
        "statements": [_statement_record(each) for each in rules.statements],
        "findings": [each._asdict() for each in rules.findings],
        "dialects": {
            name: {"indexable": _indexable(page, each, now), "rules": each.to_dict()}
            for name, each in _in_each_dialect(page, profile).items()
        },
    }


def _in_each_dialect(page: Page, profile: Profile) -> dict[str, IndexingRules]:
    dialects = {profile.dialect.name: profile.dialect} | DIALECTS
    return {name: _rules(page, profile, dialect) for name, dialect in dialects.items()}


def _show(
    output: Output,
    page: Page,
    profile: Profile,
    rules: IndexingRules | None,
    now: datetime,
) -> None:
    show = output.line
    show(_verdict(page, rules, now), "  ", Painted(page.where, "bold"))
    for url in page.redirects:
        show("  redirected to ", url)
    if page.decision is not None and page.loaded is not None:
        word = "allows" if page.decision.allowed else "forbids"
        show(f"  robots.txt {word} fetching it: ", why(page.decision))
        show("  (", page.loaded.where, ", ", describe_access(page.loaded), ")")
    if page.error:
        show("  The page could not be fetched: ", page.error)
    if rules is None:
        if not page.error:
            show("  The page was not fetched, so its indexing rules are unknown.")
        return
    if page.is_error_page:
        show(f"  The status is {page.status}, so there is no page to index.")
    said = rules.to_dict()
    for key, statements in _evidence(rules).items():
        value = "no" if said[key] is False else str(said[key])
        show("  ", Painted(key, "bold"), ": ", value)
        for each in statements:
            show("      ", *_described(each))
    for statement in rules.unknown:
        show("  without effect in this dialect: ", *_described(statement))
    for finding in rules.findings:
        show(f"  [{finding.code}] ", finding.message)
    if page.is_error_page:
        return
    for name, each_rules in _in_each_dialect(page, profile).items():
        verdict = _verdict(page, each_rules, now)
        show(f"  {name:<10} ", verdict, "  ", each_rules.to_header())


def _verdict(page: Page, rules: IndexingRules | None, now: datetime) -> Painted:
    if rules is None:
        return Painted("unknown  ", "red")
    if page.is_error_page:
        return Painted("no page  ", "red")
    if rules.indexable(now):
        return Painted("indexable", "green")
    return Painted("noindex  " if not rules.index else "expired  ", "red")


def _described(statement: Statement) -> list[str]:
    whom = "for " + (statement.agent or "everyone")
    if statement.source == "header":
        place = f"X-Robots-Tag header {statement.position}"
    else:
        place = f"meta tag on line {statement.position}"
    return [statement.text[:200], "   (", place, ", ", whom, ")"]
