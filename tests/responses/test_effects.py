"""What a crawl does with the items and links of a page, and what ``scrapy parse`` says of it."""

from __future__ import annotations

from typing import Any

import pytest
from scrapy.http import HtmlResponse, Response

from scrapy_rep.protocol.indexing.rules import IndexingRules
from scrapy_rep.protocol.robots import RobotsTxt
from scrapy_rep.responses.effects import Effects, effects
from scrapy_rep.responses.parsecommand import warn_of_drops
from scrapy_rep.settings import RepSettings
from tests.fakes import fake_crawler

pytestmark = pytest.mark.newest

URL = "http://example.com/page"
PAST = "unavailable_after: 1999-01-01"
FUTURE = "unavailable_after: 2999-01-01"
USAGE = "Content-Usage: train-ai=n"
TRAINING = RobotsTxt.parse(f"User-agent: *\n{USAGE}\n".encode())
JSON = Response(URL, headers={"Content-Type": "application/json"})
ANNOTATE = {"REP_NOINDEX": "annotate"}
ITEMS, LINKS = (f"its {name}, which must not be" for name in ("items", "links"))
FOR_TRAINING = {"REP_PURPOSES": ["train-ai"]}


def found(
    tag: str,
    settings: dict[str, Any],
    *,
    exempt: bool = False,
    response: Response | None = None,
) -> tuple[Effects, RepSettings]:
    """Return the effects of *tag*, and of a robots.txt that forbids training."""
    rep = RepSettings.of(fake_crawler(settings))
    rules = IndexingRules.parse([tag.encode()] if tag else [])
    usage = TRAINING.usage(URL, ("mybot",))
    response = response or HtmlResponse(URL)
    return effects(rep, response, rules, usage, rep.purposes, is_exempt=exempt), rep


@pytest.mark.parametrize(
    ("tag", "settings", "why"),
    [
        ("", {}, None),
        ("max-snippet: 20", {}, None),
        ("noindex", {}, f"{ITEMS} indexed: noindex (header)"),
        (PAST, {}, f"{ITEMS} indexed: {PAST} (header)"),
        (FUTURE, {}, None),
        ("noimageindex", {}, f"the images of {ITEMS} indexed: noimageindex (header)"),
        ("nofollow", {}, f"{LINKS} followed: nofollow (header)"),
        (
            "none",
            {},
            f"{ITEMS} indexed: none (header); {LINKS} followed: none (header)",
        ),
        ("noindex, noimageindex", {"REP_NOINDEX": "ignore"}, None),
        ("noindex, noimageindex", ANNOTATE, None),
        ("nofollow", {"REP_NOFOLLOW": "ignore"}, None),
        ("", {"REP_REL": ["ugc", "sponsored"]}, "links with rel=sponsored, ugc"),
        ("", FOR_TRAINING, f"{ITEMS} used for train-ai: {USAGE} (robots.txt, line 2)"),
        ("noindex", FOR_TRAINING, f"{ITEMS} indexed: noindex (header)"),
        ("", {**FOR_TRAINING, "REP_USAGE": "annotate"}, None),
        ("", {**FOR_TRAINING, "REP_USAGE": "ignore"}, None),
        ("", {"REP_PURPOSES": ["search"]}, None),
    ],
)
def test_what_a_crawl_would_drop(
    caplog: pytest.LogCaptureFixture,
    tag: str,
    settings: dict[str, Any],
    why: str | None,
) -> None:
    """The warning of ``scrapy parse`` names what a crawl would drop, and the statement; if it would
    drop nothing, there is none.
    """
    each, rep = found(tag, settings)
    warn_of_drops(fake_crawler(), HtmlResponse(URL), each, rep.rel)
    start = f"scrapy parse shows all items and links of {URL}, but a crawl would drop "
    assert caplog.messages == ([start + why] if why else [])


@pytest.mark.parametrize(
    ("tag", "settings", "exempt", "says"),
    [
        ("noindex", {}, True, set()),
        ("", {}, False, set()),
        (FUTURE, {}, False, {"rules", "is_expiring"}),
        (FUTURE, {}, True, set()),
        (FUTURE, {"REP_NOINDEX": "ignore"}, False, set()),
        ("", ANNOTATE, False, {"rules"}),
        ("noindex", ANNOTATE, False, {"rules", "noted"}),
        (FUTURE, ANNOTATE, False, {"rules", "is_expiring"}),
        ("", {**FOR_TRAINING, "REP_USAGE": "annotate"}, False, {"usage", "noted"}),
        ("nofollow", {}, True, {"links"}),
    ],
)
def test_what_items_say(
    tag: str, settings: dict[str, Any], exempt: bool, says: set[str]
) -> None:
    """Items say the rules of their page with "annotate" and until a date, and with REP_USAGE =
    "annotate" what they may be used for. A request may be exempt from noindex.
    """
    each, _ = found(tag, settings, exempt=exempt)
    assert {name for name, value in each._asdict().items() if value} == says


def test_data_has_no_effect() -> None:
    """JSON that says noindex keeps its items and links."""
    each, _ = found("none, noimageindex", {}, response=JSON)
    assert each == Effects()
    each, _ = found("none", ANNOTATE, response=JSON)
    assert each.rules is not None
    assert each.links is None
