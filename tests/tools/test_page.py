"""Tests of ``scrapy rep page``, on files and on live servers.

``docs/commands.md`` shows a complete output. ``test_docs.py`` compares it with the real output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.crawl.answers import Answer, Then, redirect
from tests.crawl.broken_answers import stages
from tests.crawl.server import PAGE
from tests.tools.rep import ROBOTS, Rep, scrapy_rep

if TYPE_CHECKING:
    from pathlib import Path

    from tests.crawl.server import Site

HTML = """<html><head>
<meta name="robots" content="max-snippet:20, nocache, sparkle">
<meta name="mybot" content="nofollow"><meta name="otherbot" content="noindex">
</head></html>"""


def test_each_rule_is_shown_with_its_statements(rep: Rep) -> None:
    """Statements for other crawlers do not count, and unknown rules are named."""
    result = rep("page", "-", "--header", "X-Robots-Tag: mybot: noodp", stdin=HTML)
    assert result.status == 0
    assert result.out.startswith(
        "indexable  -\n"
        "  follow: no\n"
        "      nofollow   (meta tag on line 3, for mybot)\n"
        "  archive: no\n"
        "      nocache   (meta tag on line 2, for everyone)\n"
        "  odp: no\n"
        "      noodp   (X-Robots-Tag header 1, for mybot)\n"
        "  max_snippet: 20\n"
        "      max-snippet:20   (meta tag on line 2, for everyone)\n"
        "  [unknown-name] this rule is unknown and has no effect: 'sparkle'\n"
    )
    result = rep("page", "-", "--agent", "otherbot", stdin=HTML)
    assert result.status == 1
    assert "noindex   (meta tag on line 3, for otherbot)" in result.out
    result = rep("page", "-", stdin=HTML, USER_AGENT="Mozilla/5.0")
    assert "no setting names your crawler" in result.err
    # The dialect determines which values of rel a crawl does not follow.
    arguments = ("page", "-", "--dialect", "google", "--agent", "robot")
    links = "links are followed, except with rel=nofollow, sponsored, ugc\n"
    assert links in rep(*arguments, stdin=HTML).out


@pytest.mark.parametrize(
    ("tag", "settings", "expected", "in_a_crawl"),
    [
        ("none", {}, "noindex: index follow index_embedded", "dropped, not followed"),
        ("none", {"REP_NOFOLLOW": "ignore"}, "noindex: index follow index_embedded",
         "dropped, followed"),
        ("mybot: noindex", {}, "noindex: index index_embedded", "dropped, followed"),
        ("otherbot: noindex", {}, "indexable: ", "kept, followed"),
        ("all", {"REP_NOINDEX": "annotate"}, "indexable: ", "kept, followed"),
        ("noarchive", {"REP_NOINDEX": "annotate"}, "indexable: archive",
         "annotated, followed"),
        ("noai", {"REP_PURPOSES": "train-ai"}, "indexable: ai", "dropped, followed"),
        ("max-snippet:0", {}, "indexable: snippet max_snippet", "kept, followed"),
        ("max-snippet:many", {}, "indexable: ", "kept, followed"),
        ("unavailable_after: 2020-01-01", {}, "unavailable_after: unavailable_after",
         "dropped, followed"),
        ("unavailable_after: 2990-01-01", {}, "indexable: unavailable_after",
         "kept, followed"),
        ("data", {}, "noindex: index follow index_embedded", "kept, followed"),
    ],
)  # fmt: skip
def test_the_exit_status_tells_whether_a_page_may_be_indexed(
    rep: Rep, tag: str, settings: dict[str, str], expected: str, in_a_crawl: str
) -> None:
    """The status is 1 if the page must not be indexed or used, and 0 otherwise. The output lists each indexing rule
    that differs from its default, with the statements that changed it. It says what a crawl does with the items and
    links of the page. ``tests/pages/test_indexing.py`` tests this behaviour of crawls.
    """
    header = f"X-Robots-Tag: {'none' if tag == 'data' else tag}"
    arguments, body = (
        ("page", "-", "--header", header),
        "[1]" if tag == "data" else "<p>",
    )
    record = rep.record(*arguments, stdin=body, **settings)
    verdict, _, changed_rules = expected.partition(": ")
    assert (record["verdict"], record["indexable"]) == (verdict, verdict == "indexable")
    assert {evidence_row["rule"] for evidence_row in record["evidence"]} == set(
        changed_rules.split()
    )
    assert all(evidence_row["statements"] for evidence_row in record["evidence"])
    items, links = in_a_crawl.split(", ")
    effects = record["crawl"]["items"], record["crawl"]["links"]
    assert effects == (items, links.replace("not followed", "dropped"))
    result = rep(*arguments, stdin=body, **settings)
    assert result.status == (verdict != "indexable" or tag == "noai")
    assert f"  in a crawl: items are {items}, links are {links}" in result.out
    assert ("is data, not a document" in result.out) is (tag == "data")


def test_the_allowed_use_is_shown_with_its_statement(rep: Rep) -> None:
    """For each purpose, the output has the statement that decides. Statements about use are in headers and meta tags. A
    purpose is left out if no option names it and the page states nothing about it.
    """
    html = (
        '<meta name="tdm-reservation" content="0"><meta name="robots" content="noimageai">'
        '<link rel="license" href="https://l.example/">'
    )
    arguments = (
        *("page", "-", "--header", "Content-Usage: train-ai=y, search=n"),
        *("--header", "tdm-reservation: 1", "--header", "X-Robots-Tag: mybot: noai"),
    )
    result = rep(*arguments, stdin=html)
    assert result.status == 0
    start = result.out.index("  for train-ai")
    assert result.out[start:] == (
        "  for train-ai: disallowed by noai (header)\n"
        "  for search: disallowed by Content-Usage: train-ai=y, search=n (header)\n"
        "  for tdm: allowed by tdm-reservation: 0 (meta)\n"
        "  licences and policies: https://l.example/\n"
        "  in a crawl: items are kept, links are followed\n"
    )
    assert rep(*arguments, "--purpose", "search", stdin=html).status == 1
    statements = rep.record(*arguments, "--purpose", "tdm", stdin=html)["usage"][
        "statements"
    ]
    overridden = {
        statement["text"] for statement in statements if statement["is_overridden"]
    }
    assert overridden == {"tdm-reservation: 1"}
    assert "  for " not in rep("page", "-", stdin="<p>").out
    result = rep("page", "-", "--purpose", "search", stdin="<p>")
    assert "for search: unknown" in result.out


# Live servers.


def test_an_allowed_page_is_fetched_and_its_rules_are_read(
    site: Site, tmp_path: Path
) -> None:
    """If robots.txt allows the page, the command fetches it and follows redirects. The output includes usage
    preferences that robots.txt and tdmrep.json state for the page.
    """
    shop = site.add("User-agent: *\nContent-Usage: /tea search=n\n")
    shop.answers["/old"] = redirect("/tea")
    headers = {"Content-Type": "text/html", "X-Robots-Tag": "noindex"}
    tea = Answer(b"<meta name=robots content=nofollow>", headers=headers)
    shop.answers["/tea"] = tea
    rules = b'[{"location": "/tea", "tdm-reservation": 1}]'
    shop.answers["/.well-known/tdmrep.json"] = Answer(rules)
    arguments = ("page", shop.url("/old"), "--agent", "mybot", "--json", "--purpose")
    result = scrapy_rep(*arguments, "tdm,search", cwd=tmp_path)
    assert result.status == 1
    (record,) = result.records("page")
    assert record["page"] == shop.url("/tea")
    assert record["redirects"] == [shop.url("/tea")]
    assert (record["status"], record["decision"]["allowed"]) == (200, True)
    assert record["access"]["outcome"] == "successful"
    sources = {
        evidence_row["rule"]: evidence_row["statements"][0]["source"]
        for evidence_row in record["evidence"]
    }
    assert (sources["index"], sources["follow"]) == ("header", "meta")
    purposes = record["usage"]["purposes"]
    assert {name: purpose["why"] for name, purpose in purposes.items()} == {
        "tdm": "disallowed by /tea: tdm-reservation 1 (tdmrep.json, rule 1)",
        "search": "disallowed by Content-Usage: /tea search=n (robots.txt, line 2)",
    }
    scrapy_rep(*arguments, "search", cwd=tmp_path)
    assert len(shop.hits_on("/.well-known/tdmrep.json")) == 1, (
        "only the purpose tdm needs tdmrep.json"
    )


def test_a_forbidden_page_is_only_fetched_with_force(
    site: Site, tmp_path: Path
) -> None:
    """Without ``--force``, a redirect to a forbidden page is not followed either."""
    shop, other = site.add(ROBOTS), site.add()
    other.answers["/"] = redirect(shop.url("/basket/1"))
    for url in (shop.url("/basket/1"), other.url("/")):
        result = scrapy_rep("page", url, "--agent", "mybot", cwd=tmp_path)
        assert result.status == 1
        assert result.out.startswith("not fetched")
        assert "  fetching it is denied: line 5, Disallow: /basket/\n" in result.out
    assert shop.pages == []
    result = scrapy_rep(
        "page", url, "--agent", "mybot", "--force", "--json", cwd=tmp_path
    )
    (record,) = result.records("page")
    assert result.status == 1, "robots.txt still forbids the page"
    assert (record["fetched"], record["indexable"]) == (True, True)
    assert record["crawl"] is None, "a crawl does not fetch the page"
    shop.answers["/basket/2"] = redirect("/tea")
    arguments = "page", shop.url("/basket/2"), "--agent", "mybot", "--force", "--json"
    result = scrapy_rep(*arguments, cwd=tmp_path)
    (record,) = result.records("page")
    assert (result.status, record["fetched"], record["crawl"]) == (1, True, None)
    reason = f"line 5, Disallow: /basket/, for {shop.url('/basket/2')}"
    assert (record["page"], record["decision"]["why"]) == (shop.url("/tea"), reason)
    not_obeyed = ("--force", "-s", "ROBOTSTXT_OBEY=False")
    result = scrapy_rep(
        "page", shop.url("/basket/1"), "--agent", "mybot", *not_obeyed, cwd=tmp_path
    )
    assert "  in a crawl: items are kept, links are followed\n" in result.out
    assert shop.pages == ["/basket/1", "/basket/1", "/basket/2", "/tea"]


BUSY = Answer(PAGE, status=503, headers={"X-Robots-Tag": "index"})


@pytest.mark.parametrize(
    ("answer", "message", "status"),
    [
        (redirect("/"), "The page was not fetched: redirected more than 20 times", 1),
        (
            redirect("gopher://\x80["),
            "not fetched: a redirect leads to an invalid URL",
            1,
        ),
        (redirect("http://["), "redirected to http://[\n", 1),
        (
            stages(Then.RESET)["in the body"],
            "not fetched: connection closed by the server",
            3,
        ),
        (BUSY, "  google     unknown ", 3),
    ],
    ids=["a loop", "a foreign scheme", "no URL", "a broken answer", "an error"],
)
def test_a_page_that_cannot_be_fetched_must_not_be_indexed(
    site: Site, tmp_path: Path, answer: Answer, message: str, status: int
) -> None:
    """In every dialect, the verdict is that the page must not be indexed, and the output has the reason. If the server
    does not respond, or responds with an error, the verdict is unknown.
    """
    host = site.add()
    host.answers["/"] = answer
    arguments = ("page", host.url("/"), "-s", "RETRY_ENABLED=False")
    result = scrapy_rep(*arguments, cwd=tmp_path)
    assert result.status == status
    assert message in result.out
    assert "in a crawl" not in result.out


def test_a_page_is_not_fetched_while_robots_txt_is_unreachable(
    site: Site, tmp_path: Path
) -> None:
    """The verdict on the page is unknown while robots.txt is unreachable."""
    down = site.add(Answer(status=503))
    arguments = ("page", down.url("/"), "--json", "-s", "RETRY_ENABLED=False")
    result = scrapy_rep(*arguments, cwd=tmp_path)
    (record,) = result.records("page")
    assert result.status == 3
    assert (record["verdict"], record["indexable"]) == ("unknown", None)
    assert record["decision"]["allowed"] is None
    assert "unreachable" in record["error"]
    assert down.pages == []
    result = scrapy_rep(*arguments, "--force", cwd=tmp_path)
    (record,) = result.records("page")
    assert (result.status, record["indexable"], record["crawl"]) == (3, True, None)
