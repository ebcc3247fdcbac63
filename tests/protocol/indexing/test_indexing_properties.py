"""Properties of indexing rules for any input."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_rep.protocol.dialect import CLASSIC, GOOGLE, RFC9309
from scrapy_rep.protocol.indexing.rules import IndexingRules
from scrapy_rep.protocol.indexing.statements import DENIALS, IMAGE_PREVIEWS

# Other tests cover the code that these run through.
pytestmark = pytest.mark.unmeasured

DATES = [
    "Friday, 25-Jun-10 15:00:00 GMT",
    "25 Jun 2010 15:00:00 PST",
    "2020-09-21",
    "Wed, 03 Dec 2025 13:09:53 +0100",
]
LIMITS = st.one_of(st.just(-1), st.integers(0, 999_999_999))
RESTRICTIONS = st.one_of(
    st.sampled_from([name for name, denied in DENIALS.items() if denied]),
    LIMITS.map("max-snippet:{}".format),
    LIMITS.map("max-video-preview:{}".format),
    st.sampled_from(IMAGE_PREVIEWS).map("max-image-preview:{}".format),
    st.sampled_from(DATES).map("unavailable_after:{}".format),
)
PERMISSIONS = st.sampled_from(["all", "index", "follow", "indexifembedded"])
NOISE = st.sampled_from(
    ["unknown", "max-snippet:many", "unavailable_after:x", "noindx"]
)
STATEMENTS = st.lists(st.one_of(RESTRICTIONS, PERMISSIONS, NOISE), max_size=8)
SPACES = st.text(" \t", max_size=3)
DIALECTS = st.sampled_from([RFC9309, GOOGLE, CLASSIC])


def read(lines: list[str]) -> IndexingRules:
    return IndexingRules.parse([line.encode() for line in lines], agents=("mybot",))


def permissiveness(rules: IndexingRules) -> list[float]:
    """Return numbers that are smaller the less the rules allow."""
    endless = float("inf")
    previews: list[str | None] = [*IMAGE_PREVIEWS, None]
    date = rules.unavailable_after
    return [
        *(rules.to_dict()[denied[0]] is True for denied in DENIALS.values() if denied),
        rules.index_embedded,
        endless if rules.max_snippet is None else rules.max_snippet,
        endless if rules.max_video_preview is None else rules.max_video_preview,
        previews.index(rules.max_image_preview),
        endless if date is None else date.timestamp(),
    ]


@given(st.data(), STATEMENTS)
def test_form_does_not_matter(data: st.DataObject, statements: list[str]) -> None:
    """Order, case, white space and the split into field lines change nothing."""
    rules = read([", ".join(statements)])
    shuffled = data.draw(st.permutations(statements))
    lines: list[str] = [""]
    for statement in shuffled:
        space = data.draw(SPACES)
        changed = data.draw(
            st.sampled_from([statement.upper(), statement.lower(), statement.title()])
        )
        written = changed.replace(":", f"{space}:{space}", 1)
        if data.draw(st.booleans()):
            lines.append("")
        agent = data.draw(st.sampled_from(["", "", "MyBot:"]))
        lines[-1] += f",{space}{agent}{space}{written}{space}"
    assert read(lines) == rules


@given(st.data(), STATEMENTS)
def test_source_does_not_matter(data: st.DataObject, statements: list[str]) -> None:
    """A meta tag is read like a header, with white space as an additional separator."""
    separator = data.draw(st.sampled_from([", ", " ", "\n", ",", " , "]))
    html = f"<meta name=mybot content='{separator.join(statements)}'>"
    rules = IndexingRules.parse(html=html.encode(), agents=("mybot",))
    assert rules == read([", ".join(statements)])


@given(STATEMENTS, RESTRICTIONS)
def test_restriction_never_loosens(statements: list[str], more: str) -> None:
    """An additional restriction never allows anything more."""
    before = permissiveness(read([", ".join(statements)]))
    for lines in (
        [", ".join([*statements, more])],
        [", ".join([more, *statements])],
        [", ".join(statements), f"mybot: {more}"],
    ):
        after = permissiveness(read(lines))
        assert all(new <= old for new, old in zip(after, before, strict=True))


@given(STATEMENTS)
def test_others_do_not_matter(statements: list[str]) -> None:
    """Statements for another agent have no effect on this crawler."""
    line = ", ".join(statements)
    assert read([line, f"other: none, noai, {line}"]) == read([line])


@given(STATEMENTS, DIALECTS)
def test_header_round_trip(statements: list[str], dialect: object) -> None:
    """The canonical header parses back to equal rules, in the same dialect."""
    assert isinstance(dialect, type(RFC9309))
    line = ", ".join(statements).encode()
    rules = IndexingRules.parse([line], dialect=dialect)
    header = rules.to_header()
    again = IndexingRules.parse([header.encode()], dialect=dialect)
    assert again == rules
    assert again.to_header() == header
    assert again.findings == ()


@given(
    st.datetimes(datetime(1900, 1, 2), timezones=st.just(timezone.utc)),
    st.sampled_from([None, 0, 1, 10**9 - 1]),
)
def test_date_round_trip(date: datetime, limit: int | None) -> None:
    """Every date and limit that rules can have is kept in the header."""
    rules = IndexingRules(unavailable_after=date, max_snippet=limit)
    assert IndexingRules.parse([rules.to_header().encode()]) == rules
