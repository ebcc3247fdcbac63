"""Tests of points that parsers of robots.txt, indexing rules and usage preferences often get wrong.

Each line of ``verdicts.jsonl`` is a case: an input, a question about it, the right answer, and the
reason for the answer.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scrapy_rep import IndexingRules, RobotsTxt, UsagePreferences
from scrapy_rep.protocol.dialect import DIALECTS

CASES = [
    json.loads(line)
    for line in Path(__file__).with_name("verdicts.jsonl").read_text().splitlines()
]
CATEGORIES = ("train-ai", "search")
RULES = ("index", "follow", "unavailable_after")


def actual_values(case: dict[str, Any]) -> dict[str, Any]:
    """Return what this package decides in *case*, a line of verdicts.jsonl. The keys are those of the expected values
    in *case*, for example ``{"allowed": False}``.
    """
    agent = case.get("agent", "mybot")
    if "robots" in case:
        dialect = DIALECTS[case.get("dialect", "rfc9309")]
        robots = RobotsTxt.parse(case["robots"], dialect=dialect)
        decision = robots.decide(case["url"], agent)
        assert robots.is_allowed(case["url"], agent) is decision.allowed
        # The first decision after parsing uses only a part of the rules.
        unused = RobotsTxt.parse(case["robots"], dialect=dialect)
        assert unused.is_allowed(case["url"], agent) is decision.allowed
        if "allowed" in case:
            return {"allowed": decision.allowed}
        preferences = robots.usage(case["url"], agent)
    elif "usage_headers" in case:
        lines = [("Content-Usage", line.encode()) for line in case["usage_headers"]]
        preferences = UsagePreferences.parse(headers=lines)
    else:
        rules = IndexingRules.parse(
            headers=[
                ("X-Robots-Tag", line.encode()) for line in case.get("headers", ())
            ],
            html=case.get("html", "").encode(),
            agents=(agent,),
        )
        date = rules.unavailable_after
        values = {
            "index": rules.index,
            "follow": rules.follow,
            "unavailable_after": date and date.isoformat(),
        }
        return {name: values[name] for name in RULES if name in case}
    return {name: preferences.get(name) for name in CATEGORIES if name in case}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["why"])
def test_cases_that_parsers_get_wrong_are_decided_correctly(
    case: dict[str, Any],
) -> None:
    values = actual_values(case)
    assert values
    assert values == {name: case[name] for name in values}
