"""``scrapy rep page``, on files and on live servers.

``docs/commands.md`` has the text of an answer; ``test_docs.py`` compares it.
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
        "  [unknown-name] this rule is unknown and has no effect: 'sparkle'\n"
    )
    ended = rep("page", "-", "--agent", "otherbot", stdin=HTML)
    assert ended.status == 1
    assert "noindex   (meta tag on line 3, for otherbot)" in ended.out
    ended = rep("page", "-", stdin=HTML, USER_AGENT="Mozilla/5.0")
    assert "no setting names your crawler" in ended.err
    # A dialect has values of rel whose links a crawl does not follow.
    asked = ("page", "-", "--dialect", "google", "--agent", "robot")
    links = "links are followed, except with rel=nofollow, sponsored, ugc\n"
    assert links in rep(*asked, stdin=HTML).out


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
    """The exit status tells whether the page may be indexed; changed rules have evidence. What a
    crawl does with items and links is said; ``tests/pages/test_indexing.py`` has all cases.
    """
    header = f"X-Robots-Tag: {'none' if tag == 'data' else tag}"
    asked, body = ("page", "-", "--header", header), "[1]" if tag == "data" else "<p>"
    record = rep.record(*asked, stdin=body, **settings)
    word, _, evidence = expected.partition(": ")
    assert (record["verdict"], record["indexable"]) == (word, word == "indexable")
    assert {evidence_row["rule"] for evidence_row in record["evidence"]} == set(
        evidence.split()
    )
    assert all(evidence_row["statements"] for evidence_row in record["evidence"])
    items, links = in_a_crawl.split(", ")
    effects = record["crawl"]["items"], record["crawl"]["links"]
    assert effects == (items, links.replace("not followed", "dropped"))
    ended = rep(*asked, stdin=body, **settings)
    assert ended.status == (word != "indexable" or tag == "noai")
    assert f"  in a crawl: items are {items}, links are {links}" in ended.out
    assert ("is data, not a document" in ended.out) is (tag == "data")


def test_the_allowed_use_is_shown_with_its_statement(rep: Rep) -> None:
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
    statements = rep.record(*asked, "--purpose", "tdm", stdin=html)["usage"][
        "statements"
    ]
    overridden = {
        statement["text"] for statement in statements if statement["is_overridden"]
    }
    assert overridden == {"tdm-reservation: 1"}
    assert "  for " not in rep("page", "-", stdin="<p>").out
    ended = rep("page", "-", "--purpose", "search", stdin="<p>")
    assert "for search: unknown" in ended.out


# Live servers.


def test_an_allowed_page_is_fetched_and_its_rules_are_read(
    site: Site, tmp_path: Path
) -> None:
    """A page that robots.txt allows is fetched, with redirects, and its rules are read. What its
    robots.txt and its tdmrep.json state about its use counts as well.
    """
    shop = site.add("User-agent: *\nContent-Usage: /tea search=n\n")
    shop.answers["/old"] = redirect("/tea")
    headers = {"Content-Type": "text/html", "X-Robots-Tag": "noindex"}
    tea = Answer(b"<meta name=robots content=nofollow>", headers=headers)
    shop.answers["/tea"] = tea
    rules = b'[{"location": "/tea", "tdm-reservation": 1}]'
    shop.answers["/.well-known/tdmrep.json"] = Answer(rules)
    asked = ("page", shop.url("/old"), "--agent", "mybot", "--json", "--purpose")
    ended = scrapy_rep(*asked, "tdm,search", cwd=tmp_path)
    assert ended.status == 1
    (record,) = ended.records("page")
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
    scrapy_rep(*asked, "search", cwd=tmp_path)
    assert len(shop.hits_on("/.well-known/tdmrep.json")) == 1, "only tdm needs it"


def test_a_forbidden_page_is_fetched_with_force_alone(
    site: Site, tmp_path: Path
) -> None:
    """A forbidden page is not fetched, even after a redirect; --force fetches both."""
    shop, other = site.add(ROBOTS), site.add()
    other.answers["/"] = redirect(shop.url("/basket/1"))
    for url in (shop.url("/basket/1"), other.url("/")):
        ended = scrapy_rep("page", url, "--agent", "mybot", cwd=tmp_path)
        assert ended.status == 1
        assert ended.out.startswith("not fetched")
        assert "  fetching it is denied: line 5, Disallow: /basket/\n" in ended.out
    assert shop.pages == []
    ended = scrapy_rep(
        "page", url, "--agent", "mybot", "--force", "--json", cwd=tmp_path
    )
    (record,) = ended.records("page")
    assert ended.status == 1, "robots.txt forbids it all the same"
    assert (record["fetched"], record["indexable"]) == (True, True)
    assert record["crawl"] is None, "a crawl does not fetch it"
    shop.answers["/basket/2"] = redirect("/tea")
    asked = "page", shop.url("/basket/2"), "--agent", "mybot", "--force", "--json"
    ended = scrapy_rep(*asked, cwd=tmp_path)
    (record,) = ended.records("page")
    assert (ended.status, record["fetched"], record["crawl"]) == (1, True, None)
    why = f"line 5, Disallow: /basket/, for {shop.url('/basket/2')}"
    assert (record["page"], record["decision"]["why"]) == (shop.url("/tea"), why)
    off = ("--force", "-s", "ROBOTSTXT_OBEY=False")
    ended = scrapy_rep(
        "page", shop.url("/basket/1"), "--agent", "mybot", *off, cwd=tmp_path
    )
    assert "  in a crawl: items are kept, links are followed\n" in ended.out
    assert shop.pages == ["/basket/1", "/basket/1", "/basket/2", "/tea"]


BUSY = Answer(PAGE, status=503, headers={"X-Robots-Tag": "index"})


@pytest.mark.parametrize(
    ("answer", "shown", "status"),
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
def test_without_a_page_nothing_may_be_indexed(
    site: Site, tmp_path: Path, answer: Answer, shown: str, status: int
) -> None:
    """Without a page, nothing may be indexed, in any dialect, and the output says why. If the server
    does not answer, or with an error, nothing is known.
    """
    host = site.add()
    host.answers["/"] = answer
    asked = ("page", host.url("/"), "-s", "RETRY_ENABLED=False")
    ended = scrapy_rep(*asked, cwd=tmp_path)
    assert ended.status == status
    assert shown in ended.out
    assert "in a crawl" not in ended.out


def test_with_an_unreachable_robots_txt_no_page_is_fetched(
    site: Site, tmp_path: Path
) -> None:
    """A page is not fetched while its robots.txt is unreachable, and nothing is known of it."""
    down = site.add(Answer(status=503))
    asked = ("page", down.url("/"), "--json", "-s", "RETRY_ENABLED=False")
    ended = scrapy_rep(*asked, cwd=tmp_path)
    (record,) = ended.records("page")
    assert ended.status == 3
    assert (record["verdict"], record["indexable"]) == ("unknown", None)
    assert record["decision"]["allowed"] is None
    assert "unreachable" in record["error"]
    assert down.pages == []
    ended = scrapy_rep(*asked, "--force", cwd=tmp_path)
    (record,) = ended.records("page")
    assert (ended.status, record["indexable"], record["crawl"]) == (3, True, None)
