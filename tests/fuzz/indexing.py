"""Indexing rules of a page: ``X-Robots-Tag``, meta tags, dates."""

from __future__ import annotations

from datetime import datetime, timezone
from unittest.mock import patch

from scrapy_rep import CLASSIC, GOOGLE, RFC9309, IndexingRules
from scrapy_rep.protocol.indexing import metatags
from scrapy_rep.protocol.indexing.dates import read_date
from tests.fuzz.inputs import bounded, grown, parts, text
from tests.protocol.indexing.test_rules import permissiveness

AGENTS = ("mybot", "mybot-image")
NOW = datetime(2026, 11, 22, tzinfo=timezone.utc)

# If a reader decodes before it parses, offsets are those of other bytes.
_ENCODED = (b"\0", b"\x1b")


def robotstag(data: bytes) -> None:
    """Check headers; an input is field values, one a line. In every dialect:

    - nothing raises, and time is bounded for each byte;
    - the header written from the rules parses back to equal rules, without findings;
    - one more ``noindex`` never allows more;
    - statements for another crawler change nothing.
    """
    values = grown(data).split(b"\n")
    with bounded(sum(map(len, values))):
        for dialect in (RFC9309, GOOGLE, CLASSIC):
            rules = IndexingRules.parse(values, agents=AGENTS, dialect=dialect)
            _check(rules, dialect)
            if len(rules.statements) < 500:
                more = IndexingRules.parse(
                    [*values, b"noindex"], agents=AGENTS, dialect=dialect
                )
                less = zip(permissiveness(more), permissiveness(rules), strict=True)
                assert all(new <= old for new, old in less)
                others = [*values, b"otherbot: none, noai"]
                assert rules == IndexingRules.parse(
                    others, agents=AGENTS, dialect=dialect
                )


def html(data: bytes) -> None:
    """Check pages; an input is a page, and the encoding that its header declares.

    - Nothing raises, and time is bounded for each byte.
    - The rules written as a header parse back to equal rules.
    - The fast search, which skips most of a page, misses no ``<meta>`` tag.
    - A page in ASCII has the same rules in UTF-16.
    """
    page, encoding = parts(data, 2)
    page, declared = grown(page), text(encoding[:40]) or None
    with bounded(len(page)):
        rules = IndexingRules.parse((), page, AGENTS, RFC9309, declared)
        _check(rules, RFC9309)
    with patch.object(metatags, "_may_be_ours", lambda *_: True):
        assert rules == IndexingRules.parse((), page, AGENTS, RFC9309, declared)
    if page.isascii() and not any(octet in page for octet in _ENCODED):
        wide = page.decode().encode("utf-16")
        narrow = IndexingRules.parse((), page, AGENTS)
        assert IndexingRules.parse((), wide, AGENTS) == narrow


def dates(data: bytes) -> None:
    """Check dates; an input is the text of a date.

    - Nothing raises, and time is bounded for each byte.
    - A result is an aware datetime in UTC, in 1900 or later; its ISO form parses back.
    - Case and surrounding white space do not matter.
    - ``unavailable_after`` gives the same date or none.
    """
    written = text(data)
    with bounded(len(data)):
        date = read_date(written)
        value = written.encode("utf-8")
        rules = IndexingRules.parse([b"unavailable_after: " + value])
        _check(rules, RFC9309)
    if date is None:
        return
    assert date.tzinfo is timezone.utc
    assert date.year >= 1900
    assert read_date(date.isoformat()) == date
    assert read_date(written.lower()) == read_date(written.upper()) == date
    if len(written) < 70:
        assert read_date(f" {written}\t") == date
    if "," not in written and "\n" not in written and "\r" not in written:
        assert rules.unavailable_after == date


def _check(rules: IndexingRules, dialect: object) -> None:
    assert isinstance(dialect, type(RFC9309))
    header = rules.to_header()
    again = IndexingRules.parse([header.encode()], dialect=dialect)
    assert again == rules
    assert again.findings == ()
    assert again.to_header() == header
    assert rules.to_dict() == again.to_dict()
    assert not (rules.indexable(NOW) and not rules.index)
    assert repr(rules)
    assert all(str(statement) for statement in rules.statements)
