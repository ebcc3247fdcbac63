"""The subcommand ``scrapy rep page``, which shows a page's indexing rules, and the statements behind each rule."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

from scrapy.exceptions import UsageError
from scrapy.http import Headers, HtmlResponse
from w3lib.encoding import http_content_type_encoding

from scrapy_rep.base.effects import effects, has_document, is_success
from scrapy_rep.crawl.fetching.cache import tdmrep_url
from scrapy_rep.crawl.fetching.fetcher import in_words
from scrapy_rep.protocol.access.results import Access
from scrapy_rep.protocol.indexing.rules import IndexingRules
from scrapy_rep.protocol.usage.preferences import (
    FIELDS,
    NOTHING_STATED,
    UsagePreferences,
)
from scrapy_rep.protocol.usage.sites import TdmRep
from scrapy_rep.protocol.usage.statements import MINING
from scrapy_rep.tools.inputs import LiveSources, is_url, parse_argument, read_file
from scrapy_rep.tools.output import Output, status_of
from scrapy_rep.tools.profile import (
    USAGE_ROWS,
    ask,
    decision_record,
    profile_of,
    robotstxt_usage,
    usage_record,
)

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from scrapy.http import Response
    from scrapy.settings import Settings

    from scrapy_rep.base.effects import Effects
    from scrapy_rep.base.settings import RepSettings
    from scrapy_rep.protocol.indexing.statements import Statement
    from scrapy_rep.tools.inputs import UrlToJudge
    from scrapy_rep.tools.profile import Profile, Web

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MAX_REDIRECTS = 20
_TAG = "x-robots-tag"

_ROWS = (
    "{verdict:word<9}  {page:bold}",
    "  redirected to {redirects}",
    "  fetching it is {decision[allowed]:word}: {decision[why]}",
    "  robots.txt: {robotstxt}, {access[why]}",
    "  status: {status}",
    "  The page was not fetched: {error}",
    (
        "evidence",
        ("  {rule:bold}: {value}", ("statements", ("      {text}   ({where})",))),
    ),
    ("findings", ("  [{code}] {message}",)),
    ("dialects", ("  {name:<9}  {verdict:word<9}  {header}",)),
    *USAGE_ROWS,
    "  in a crawl: {crawl[why]}",
)


def run(arguments: Namespace, settings: Settings) -> int:
    profile = profile_of(arguments, settings)
    profile.notify()
    record: dict[str, Any] = {
        "page": arguments.page,
        **profile.record,
        "verdict": "not fetched",
        "fetched": False,
        "status": None,
        "redirects": [],
        "error": "",
        "robotstxt": None,
        "access": None,
        "decision": None,
        "indexable": False,
    }
    if not is_url(arguments.page):
        response = _response_of_file(arguments.page, arguments.header)
        record |= _of_response(response, NOTHING_STATED, profile, record)
    elif arguments.header:
        raise UsageError(
            "--header applies only to a page in a file; for a URL, the command reads the response headers"
        )
    else:
        url_to_judge = parse_argument(arguments.page)

        async def fetch(web: Web | None) -> None:
            assert web
            await _fetch(url_to_judge, profile, web, record, force=arguments.force)

        try:
            ask(profile, fetch)
        except _NotFetchedError as error:
            record["error"] = str(error)
    Output(arguments).show(record, _ROWS)
    allowed = record["decision"] is None or record["decision"]["allowed"]
    is_use_denied = "usage" in record and record["usage"]["denied"]
    return status_of({allowed, record["indexable"], not is_use_denied})


def _response_of_file(path: str, header_fields: Sequence[str]) -> Response:
    """Return a response with the contents of the file at *path* and with *header_fields*. Raises UsageError for an
    invalid header field, or if the file cannot be read.
    """
    fields = []
    for field in header_fields:
        name, colon, value = field.partition(":")
        name = name.strip().lower()
        if not colon or name not in {_TAG, *FIELDS}:
            raise UsageError(
                f'--header is {field!r}, but it must have the form "NAME: VALUE", where NAME is one of '
                f"{', '.join(['X-Robots-Tag', *sorted(FIELDS)])}"
            )
        fields.append((name, value.strip().encode("utf-8", "replace")))
    return HtmlResponse("file:///", headers=Headers(fields), body=read_file(path))


class _NotFetchedError(Exception):
    """Raised if a page was not fetched. The message contains the reason."""


async def _fetch(
    url_to_judge: UrlToJudge,
    profile: Profile,
    web: Web,
    record: dict[str, Any],
    *,
    force: bool,
) -> None:
    """Fetch a page, following redirects, and add the results to *record*. Without *force*, URLs that robots.txt
    forbids are not fetched. Raises _NotFetchedError if the page or a redirect target was not fetched.
    """
    sources = LiveSources(profile, web)
    for _ in range(_MAX_REDIRECTS + 1):
        url, origin = url_to_judge.url, url_to_judge.origin
        assert origin
        source = (await sources.load([origin]))[origin]
        robots = source.read_as(profile.dialect)
        decision = profile.decide(robots, url)
        record["page"] = url
        # With *force*, a forbidden URL and its redirects are fetched. The record still keeps the decision on the first
        # forbidden URL, because a crawl would stop there.
        if record["decision"] is None or record["decision"]["allowed"]:
            judged = url
            record |= {
                "robotstxt": source.url,
                "access": source.access,
                "decision": decision_record(
                    decision, profile, is_known=source.is_known
                ),
            }
        if not (decision.allowed or force):
            if not source.is_known:
                record |= _NOT_KNOWN
                raise _NotFetchedError("robots.txt is unreachable; try again later")
            raise _NotFetchedError(
                "robots.txt forbids this page, so the page's indexing rules are not known; to fetch the page "
                "anyway, use --force"
            )
        try:
            response = await web.page(url)
        except Exception as error:  # noqa: BLE001  download handlers raise anything
            record |= _NOT_KNOWN
            raise _NotFetchedError(in_words(error)) from None
        location = response.headers.get("Location")
        if response.status not in _REDIRECTS or not location:
            break
        record["redirects"].append(location.decode("utf-8", "replace"))
        try:
            url_to_judge = parse_argument(urljoin(url, record["redirects"][-1]))
        except (UsageError, ValueError):
            raise _NotFetchedError("a redirect leads to an invalid URL") from None
        record["redirects"][-1] = url_to_judge.url
    else:
        raise _NotFetchedError(f"redirected more than {_MAX_REDIRECTS} times")
    if judged != url:
        record["decision"]["why"] += f", for {judged}"
    record["status"], tdmrep = response.status, NOTHING_STATED
    needs_tdmrep = not MINING.isdisjoint(profile.rep.purposes)
    if needs_tdmrep and profile.decide(robots, tdmrep_url(origin)).allowed:
        (result,) = await web.robotstxts([tdmrep_url(origin)])
        if result.access is Access.SUCCESSFUL:
            tdmrep = TdmRep.parse(result.body).usage(url)
    preferences = robotstxt_usage(robots, url, profile)
    record |= _of_response(response, preferences, profile, record, tdmrep)


_NOT_KNOWN = {"verdict": "unknown", "indexable": None}
"""The values to add to the JSON object of a page that was not fetched, because the site's robots.txt is unreachable, or
because the download of the page failed."""


def _of_response(
    response: Response,
    robots: UsagePreferences,
    profile: Profile,
    record: dict[str, Any],
    tdmrep: UsagePreferences = NOTHING_STATED,
) -> dict[str, Any]:
    """Return what the command shows about the page in *response*: its indexing rules, its usage preferences, and their
    effect in a crawl. The result is a dict, which the caller adds to *record*, the JSON object of the page.

    The key ``crawl`` of the result contains the effect in a crawl. Its value is None for an error response, such as
    404. Its value is None if the ``decision`` in *record* is that robots.txt forbids the page, because a crawl does not
    fetch a forbidden page unless ROBOTSTXT_OBEY is False.

    *robots* and *tdmrep* are the usage preferences that robots.txt and tdmrep.json state for the page.
    """
    now = datetime.now(timezone.utc)
    tags = response.headers.getlist(_TAG)
    usage_fields = [
        (name, value) for name in FIELDS for value in response.headers.getlist(name)
    ]
    html, encoding = b"", None
    if isinstance(response, HtmlResponse):
        html = response.body
        content_type = response.headers.get("Content-Type") or b""
        encoding = http_content_type_encoding(content_type.decode("latin-1"))
    in_dialects = {
        name: IndexingRules.of_page(tags, html, profile.agents, dialect, encoding)
        for name, dialect in profile.dialects.items()
    }
    rules = in_dialects[profile.dialect.name]
    preferences = robots | UsagePreferences.of_page(
        usage_fields, rules.statements, rules.tags, tdmrep
    )
    is_page = is_success(response)
    dialects = {}
    for name, dialect_rules in in_dialects.items():
        verdict = dialect_rules.why_not_indexable(now) or "indexable"
        if not is_page:
            verdict = "no page" if response.status < 500 else "unknown"
        is_indexable = None if verdict == "unknown" else verdict == "indexable"
        dialects[name] = {
            "verdict": verdict, "indexable": is_indexable, "header": dialect_rules.to_header()
        }  # fmt: skip
    judged, values = dialects[profile.dialect.name], rules.to_dict()
    is_document = has_document(response)
    decision, crawl = record["decision"], None
    if is_page and (profile.is_off or decision is None or decision["allowed"]):
        rep, is_data = profile.rep, bool(rules.statements) and not is_document
        response_effects = effects(rep, response, rules, preferences, rep.purposes)
        crawl = _effects(response_effects, rep, is_data=is_data)
    return {
        "fetched": True,
        "verdict": judged["verdict"],
        "indexable": judged["indexable"],
        "document": is_document,
        "usage": usage_record(preferences, profile),
        "rules": values,
        "evidence": [
            {
                "rule": rule,
                "value": values[rule],
                "statements": [_statement(statement) for statement in statements],
            }
            for rule, statements in rules.evidence().items()
        ],
        "statements": [_statement(statement) for statement in rules.statements],
        "findings": [finding._asdict() for finding in rules.findings],
        "dialects": dialects,
        "crawl": crawl,
    }


def _statement(statement: Statement) -> dict[str, Any]:
    """Return a statement as a JSON object. The key ``where`` contains the place of the statement and the crawlers to
    which it applies, in words such as ``meta tag on line 3, for everyone``.
    """
    is_header = statement.source == "header"
    place = "X-Robots-Tag header" if is_header else "meta tag on line"
    where = f"{place} {statement.position}, for {statement.agent or 'everyone'}"
    return {**statement._asdict(), "where": where}


def _effects(
    response_effects: Effects, rep: RepSettings, *, is_data: bool
) -> dict[str, str]:
    """Return what a crawl does with the items and links of a page, as a JSON object. Its keys are ``items``, ``links``,
    and ``why``, which describes both in words.

    *response_effects* are the effects of the page's indexing rules and usage preferences. *is_data* is True if the
    response is data, such as JSON, and states indexing rules. Indexing rules have no effect on data, and ``why`` says
    so if *is_data* is True.
    """
    items = (
        "annotated"
        if response_effects.restrictions or response_effects.usage
        else "kept"
    )
    items = "dropped" if response_effects.items else items
    links = "dropped" if response_effects.links else "followed"
    words = f"items are {items}, links are {'not ' if response_effects.links else ''}followed"
    if rep.rel and not response_effects.links:
        words += f", except with rel={', '.join(sorted(rep.rel))}"
    if is_data:
        words += ". The response is data, not a document, so noindex and nofollow drop nothing"
    return {"items": items, "links": links, "why": words}
