"""``scrapy rep page`` on files.

``docs/commands.md`` has the text of an answer; ``test_docs.py`` compares it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.commands.conftest import Rep

HTML = """<html><head>
<meta name="robots" content="max-snippet:20, nocache, sparkle">
<meta name="mybot" content="nofollow"><meta name="otherbot" content="noindex">
</head></html>"""


def test_rules_with_evidence(rep: Rep) -> None:
    """Each rule is shown with its statements; those for others do not count, and unknown rules
    are named.
    """
    ended = rep("page", "-", "--header", "X-Robots-Tag: mybot: noodp", stdin=HTML)
    assert ended.status == 0
    assert ended.out.startswith(
        "indexable  -\n"
        "  follow: no\n"
        "      nofollow   (meta tag on line 3, for mybot)\n"
        "  archive: no\n"
        "      nocache   (meta tag on line 2, for everyone)\n"
        "  odp: no\n"
        "      noodp   (X-Robots-Tag header 1, for mybot)\n"
        "  max_snippet: 20\n"
        "      max-snippet:20   (meta tag on line 2, for everyone)\n"
        "  [unknown-name] unknown rule, which has no effect: 'sparkle'\n"
    )
    ended = rep("page", "-", "--agent", "otherbot", stdin=HTML)
    assert ended.status == 1
    assert "noindex   (meta tag on line 3, for otherbot)" in ended.out
    ended = rep("page", "-", stdin=HTML, USER_AGENT="Mozilla/5.0")
    assert "no setting names your crawler" in ended.err


@pytest.mark.parametrize(
    ("tag", "word", "evidence"),
    [
        ("none", "noindex", {"index", "follow", "index_embedded"}),
        ("mybot: noindex", "noindex", {"index", "index_embedded"}),
        ("otherbot: noindex", "indexable", set()),
        ("max-snippet:0", "indexable", {"snippet", "max_snippet"}),
        ("max-snippet:many", "indexable", set()),
        ("unavailable_after: 2020-01-01", "unavailable_after", {"unavailable_after"}),
        ("unavailable_after: 2990-01-01", "indexable", {"unavailable_after"}),
    ],
)
def test_verdict(rep: Rep, tag: str, word: str, evidence: set[str]) -> None:
    """The exit status tells whether the page may be indexed; changed rules have evidence."""
    asked = ("page", "-", "--header", f"X-Robots-Tag: {tag}")
    assert rep(*asked).status == (word != "indexable")
    record = rep.record(*asked)
    assert (record["verdict"], record["indexable"]) == (word, word == "indexable")
    assert {each["rule"] for each in record["evidence"]} == evidence
    assert all(each["statements"] for each in record["evidence"])


@pytest.mark.parametrize(
    ("body", "tag", "settings", "effects"),
    [
        ("<p>", "all", {}, ("kept", "followed")),
        ("<p>", "none", {}, ("dropped", "dropped")),
        ("<p>", "none", {"REP_NOFOLLOW": "ignore"}, ("dropped", "followed")),
        ("<p>", "all", {"REP_NOINDEX": "annotate"}, ("annotated", "followed")),
        ("<p>", "noai", {"REP_PURPOSES": "train-ai"}, ("dropped", "followed")),
        ("[1]", "none", {}, ("kept", "followed")),
    ],
)
def test_what_a_crawl_does(
    rep: Rep, body: str, tag: str, settings: dict[str, str], effects: tuple[str, str]
) -> None:
    """What a crawl does with items and links is said. ``tests/responses/test_effects.py`` has all
    cases.
    """
    items, links = effects
    asked = ("page", "-", "--header", f"X-Robots-Tag: {tag}")
    crawl = rep.record(*asked, stdin=body, **settings)["crawl"]
    assert (crawl["items"], crawl["links"]) == (items, links)
    out = rep(*asked, stdin=body, **settings).out
    words = "not followed" if links == "dropped" else "followed"
    assert f"  in a crawl: items are {items}, links are {words}" in out
    assert ("This is data" in out) is (body != "<p>")


def test_links_that_a_crawl_leaves_out(rep: Rep) -> None:
    """The values of rel whose links a crawl does not follow are named, also those of a dialect."""
    asked = ("page", "-", "--dialect", "google", "--agent", "robot")
    out = rep(*asked, stdin=HTML).out
    assert "links are followed, except with rel=nofollow, sponsored, ugc\n" in out


def test_usage(rep: Rep) -> None:
    """The use that headers and meta tags of a file allow is shown, with the statement that decides.
    Purposes that were neither requested nor stated are not shown.
    """
    html = (
        '<meta name="tdm-reservation" content="0"><meta name="robots" content="noimageai">'
        '<link rel="license" href="https://l.example/">'
    )
    asked = (
        *("page", "-", "--header", "Content-Usage: train-ai=y, search=n"),
        *("--header", "tdm-reservation: 1", "--header", "X-Robots-Tag: mybot: noai"),
    )
    ended = rep(*asked, stdin=html)
    assert ended.status == 0
    start = ended.out.index("  for train-ai")
    assert ended.out[start:] == (
        "  for train-ai: disallowed by noai (header)\n"
        "  for search: disallowed by Content-Usage: train-ai=y, search=n (header)\n"
        "  for tdm: allowed by tdm-reservation: 0 (meta)\n"
        "  licences and policies: https://l.example/\n"
        "  in a crawl: items are kept, links are followed\n"
    )
    assert rep(*asked, "--purpose", "search", stdin=html).status == 1
    found = rep.record(*asked, "--purpose", "tdm", stdin=html)["usage"]["statements"]
    overridden = {each["text"] for each in found if each["is_overridden"]}
    assert overridden == {"tdm-reservation: 1"}
    assert "  for " not in rep("page", "-", stdin="<p>").out
    ended = rep("page", "-", "--purpose", "search", stdin="<p>")
    assert "for search: unknown" in ended.out
