"""``scrapy rep page`` on files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.commands.conftest import Rep

HTML = """<html><head>
<meta name="robots" content="max-snippet:20, nocache, sparkle">
<meta name="mybot" content="nofollow"><meta name="otherbot" content="noindex">
</head></html>"""


def test_rules_with_evidence(rep: Rep) -> None:
    """Each rule is shown with its statements; statements for others do not count; the
    result of each dialect is shown.
    """
    Path("page.html").write_text(HTML)
    ended = rep(
        "page", "page.html", "--header", "X-Robots-Tag: mybot: noimageindex, noodp"
    )
    assert ended.status == 0
    assert ended.out == (
        "indexable  page.html\n"
        "  follow: no\n"
        "      nofollow   (meta tag on line 3, for mybot)\n"
        "  archive: no\n"
        "      nocache   (meta tag on line 2, for everyone)\n"
        "  image_index: no\n"
        "      noimageindex   (X-Robots-Tag header 1, for mybot)\n"
        "  odp: no\n"
        "      noodp   (X-Robots-Tag header 1, for mybot)\n"
        "  max_snippet: 20\n"
        "      max-snippet:20   (meta tag on line 2, for everyone)\n"
        "  [unknown-name] unknown rule, which has no effect: 'sparkle'\n"
        "  rfc9309    indexable  nofollow, noarchive, noimageindex, noodp, max-snippet:20\n"
        "  google     indexable  nofollow, noimageindex, max-snippet:20\n"
        "  classic    indexable  nofollow\n"
        "  in a crawl: items are kept, links are not followed\n"
    )


@pytest.mark.parametrize(
    ("header", "word", "evidence"),
    [
        ("X-Robots-Tag: none", "noindex  ", {"index", "follow", "index_embedded"}),
        ("x-robots-tag: mybot: noindex", "noindex  ", {"index", "index_embedded"}),
        ("X-Robots-Tag: nosnippet", "indexable", {"snippet", "max_snippet"}),
        ("X-Robots-Tag: max-snippet:0", "indexable", {"snippet", "max_snippet"}),
        ("X-Robots-Tag: max-snippet:many", "indexable", set()),
        (
            "X-Robots-Tag: unavailable_after: 2020-01-01",
            "unavailable_after",
            {"unavailable_after"},
        ),
        (
            "X-Robots-Tag: unavailable_after: 2990-01-01",
            "indexable",
            {"unavailable_after"},
        ),
        ("X-Robots-Tag: otherbot: noindex", "indexable", set()),
    ],
)
def test_verdict(rep: Rep, header: str, word: str, evidence: set[str]) -> None:
    """The exit status tells whether the page may be indexed; changed rules have evidence."""
    Path("page.html").write_text("<html></html>")
    ended = rep("page", "page.html", "--header", header)
    assert ended.out.startswith(f"{word}  page.html\n")
    assert ended.status == (word != "indexable")
    ended = rep("page", "page.html", "--header", header, "--json")
    (record,) = ended.records("page")
    assert record["indexable"] is (word == "indexable")
    assert set(record["evidence"]) == evidence
    assert all(record["evidence"].values())
    assert set(record["dialects"]) == {"rfc9309", "google", "classic"}


EXPIRED = "X-Robots-Tag: unavailable_after: 2020-01-01"
EXPIRING = "X-Robots-Tag: unavailable_after: 2990-01-01"


@pytest.mark.parametrize(
    ("body", "header", "settings", "effects"),
    [
        ("<p>", "X-Robots-Tag: all", {}, ("kept", "followed")),
        ("<p>", "X-Robots-Tag: none", {}, ("dropped", "dropped")),
        ("<p>", EXPIRED, {}, ("dropped", "followed")),
        ("<p>", EXPIRING, {}, ("annotated", "followed")),
        ("<p>", "X-Robots-Tag: none", {"REP_NOINDEX": "ignore"}, ("kept", "dropped")),
        ("<p>", "X-Robots-Tag: none", {"REP_NOFOLLOW": "ignore"}, ("dropped", "followed")),
        ("<p>", "X-Robots-Tag: all", {"REP_NOINDEX": "annotate"}, ("annotated", "followed")),
        ("<p>", "X-Robots-Tag: noai", {"REP_PURPOSES": "train-ai"}, ("dropped", "followed")),
        (
            "<p>",
            "X-Robots-Tag: noai",
            {"REP_PURPOSES": "train-ai", "REP_USAGE": "annotate"},
            ("annotated", "followed"),
        ),
        ('[{"id": 1}]', "X-Robots-Tag: none", {}, ("kept", "followed")),
        ('[{"id": 1}]', EXPIRED, {}, ("kept", "followed")),
        ("[1]", "X-Robots-Tag: none", {"REP_NOINDEX": "annotate"}, ("annotated", "followed")),
        ("[1]", "X-Robots-Tag: noai", {"REP_PURPOSES": "train-ai"}, ("dropped", "followed")),
        ("<?xml version='1.0'?><urlset/>", "X-Robots-Tag: none", {}, ("kept", "followed")),
    ],
)  # fmt: skip
def test_what_a_crawl_does(
    rep: Rep,
    body: str,
    header: str,
    settings: dict[str, str],
    effects: tuple[str, str],
) -> None:
    """The items that a crawl drops or annotates, and the links that it does not follow, are
    named: by the settings, and by whether the page is a document or data.
    """
    items, links = effects
    Path("page.html").write_text(body)
    arguments = ("page", "page.html", "--header", header)
    (record,) = rep(*arguments, "--json", **settings).records("page")
    assert record["document"] is (body == "<p>")
    assert (record["crawl"]["items"], record["crawl"]["links"]) == (items, links)
    words = "not followed" if links == "dropped" else "followed"
    out = rep(*arguments, **settings).out
    assert f"  in a crawl: items are {items}, links are {words}" in out
    assert ("This is data" in out) is (body != "<p>")


def test_links_that_a_crawl_leaves_out(rep: Rep) -> None:
    """The values of rel whose links a crawl does not follow are named, also those of a dialect."""
    Path("page.html").write_text(HTML)
    ended = rep("page", "page.html", "--dialect", "google", "--agent", "robot")
    assert "links are followed, except with rel=nofollow, sponsored, ugc\n" in ended.out


def test_agent_and_standard_input(rep: Rep) -> None:
    """``--agent`` sets the agent; ``-`` reads HTML from standard input."""
    ended = rep("page", "-", "--agent", "otherbot", stdin=HTML)
    assert ended.status == 1
    assert "noindex   (meta tag on line 3, for otherbot)" in ended.out
    ended = rep("page", "-", stdin=HTML, USER_AGENT="Mozilla/5.0")
    assert "no setting names your crawler" in ended.err


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["nowhere.html"], "nowhere.html: No such file"),
        (["page.html", "--header", "noindex"], "--header is 'noindex'"),
        (["page.html", "--header", "Date: noindex"], 'must be "X-Robots-Tag: ..."'),
        (
            ["http://a.example/", "--header", "X-Robots-Tag: all"],
            "its own header fields",
        ),
        (["http://["], "is not a URL"),
        ([], "the following arguments are required"),
    ],
)
def test_wrong_usage(rep: Rep, arguments: list[str], why: str) -> None:
    """Wrong usage is reported in a sentence, with exit status 2."""
    Path("page.html").write_text("")
    ended = rep("page", *arguments)
    assert (ended.status, ended.out) == (2, "")
    assert why in ended.err
