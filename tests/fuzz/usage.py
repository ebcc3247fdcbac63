"""Permitted uses of the content of a site, from each source of statements."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from scrapy_rep import CLASSIC, GOOGLE, RFC9309, RobotsTxt, UsagePreferences
from scrapy_rep.protocol.usage.tdmrep import TdmRep
from scrapy_rep.protocol.usage.vocabulary import CATEGORIES
from tests.fuzz.inputs import bounded, grown, parts, text
from tests.protocol.reference import matches, read_patterns, url_target

_REFERENCE_AT_MOST = 2_000
_IN_SEQUENCE = replace(RFC9309, name="tdmrep", rule_choice="first")


def usage(data: bytes) -> None:
    """Check usage statements; an input is field lines, a page, a robots.txt and a path.

    - Nothing raises, and time is bounded for each byte.
    - A value comes with the deciding statement, which is in an existing line.
    - Combining statements with others, or with themselves, never allows more.
    - For a disallowed path, a robots.txt states nothing.
    """
    headers, page, body, path = parts(data, 4)
    headers, page, body = grown(headers), grown(page), grown(body)
    fields = [
        (text(name).strip(), value.strip())
        for name, _, value in (line.partition(b":") for line in headers.split(b"\n"))
    ]
    url = f"https://example.com/{text(grown(path))}"
    with bounded(len(headers) + len(page) + len(body) + len(url)):
        stated = UsagePreferences.parse(fields, page, ("mybot",))
        _check(stated)
        for dialect in (RFC9309, GOOGLE, CLASSIC):
            robots = RobotsTxt.parse(body, dialect)
            found = robots.usage(url, "mybot")
            assert robots.usage(url, "mybot") == found
            assert not found or robots.is_allowed(url, "mybot")
            lines = body.count(b"\n") + body.count(b"\r") + 1
            lines += len(body.decode("utf-16", "replace").splitlines())
            assert all(1 <= each.position <= lines for each in found.statements)
            _check(found)
            _check(stated | found)
            assert stated | found == found | stated
            for category in CATEGORIES:
                if False in (stated.get(category), found.get(category)):
                    assert (stated | found).get(category) is False


def tdmrep(data: bytes) -> None:
    """Check TDMRep; an input is a ``tdmrep.json`` and a path.

    - Nothing raises, and time is bounded for each byte.
    - A file that is no array says nothing.
    - The first rule whose location matches decides, as in the plain reference.
    """
    body, path = parts(data, 2)
    body, url = grown(body), f"https://example.com/{text(grown(path))}"
    with bounded(len(body) + len(url)):
        file = TdmRep.parse(body)
        found = file.usage(url)
        assert TdmRep.parse(body).usage(url).statements == found.statements
    _check(found)
    assert file.is_valid or not found
    if file.is_valid and len(body) + len(url) < _REFERENCE_AT_MOST:
        number = _first_that_matches(json.loads(body), url)
        assert {each.position for each in found.statements} <= {number}


def _check(found: UsagePreferences) -> None:
    assert found | found == found
    for category in CATEGORIES:
        value, statement = found.get(category), found.because(category)
        assert (value is None) == (statement is None)
        if statement is not None:
            assert (statement.category, statement.value) == (category, value)
            assert str(statement)
    assert all(isinstance(one, str) for one in found.licenses)
    assert json.dumps(found.to_dict())


def _first_that_matches(rules: list[Any], url: str) -> int:
    target = url_target(url, _IN_SEQUENCE)
    for number, rule in enumerate(rules, 1):
        location = rule.get("location") if isinstance(rule, dict) else None
        if isinstance(location, str) and (location := location.strip(" \t\v\f")):
            octets = location.encode("utf-8", "surrogatepass")
            patterns = read_patterns("disallow", octets, _IN_SEQUENCE)
            if any(matches(each.octets, target) for each in patterns):
                return number
    return 0
