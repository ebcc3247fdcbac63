"""Content-Signal, noai and licenses, and how statements of several sources are combined."""

from __future__ import annotations

import pytest

from scrapy_rep import UsagePreferences
from tests.protocol.usage.asking import header, robots_usage, stated

NO_TRAINING = {"search": True, "train-ai": False}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        # contentsignals.org, and blog.cloudflare.com/content-signals-policy.
        ("search=yes, ai-train=no", NO_TRAINING),
        ("ai-train=no, search=yes, ai-input=yes", {**NO_TRAINING, "ai-use": True}),
        ("search=yes,ai-train=no", NO_TRAINING),
        # "neither grants nor restricts".
        ("search=yes", {"search": True}),
        # developers.cloudflare.com, "Managed robots.txt".
        ("search=yes, ai-train=no, use=reference", NO_TRAINING),
        ("use=immediate", {"search": False, "train-ai": False}),
        ("use=full", {}),
        ("search=yes, use=immediate", {"search": False, "train-ai": False}),
        # Parsed leniently, as there is no grammar.
        ("Search = YES , AI-train=No,", NO_TRAINING),
        ("ai-train=no, ai-train=yes", {"train-ai": False}),
        # Values that say nothing.
        ("ai-train", {}),
        ("train-ai=no, ai-train=n, search=true", {}),
        ("search=yes ai-train=no", {}),
        ("", {}),
    ],
)  # fmt: skip
def test_content_signal(value: str, expected: dict[str, bool]) -> None:
    """A content signal means the same in a record and in a header field."""
    body = f"User-Agent: *\nContent-Signal: {value}\nAllow: /\n"
    assert stated(robots_usage(body)) == expected
    assert stated(header(value, name="Content-Signal")) == expected


@pytest.mark.parametrize("level", ["immediate", "reference", "full"])
def test_the_level_of_use_is_recorded(level: str) -> None:
    """Each level of ``use`` is a statement about a search index and the training of a model, also
    one that neither allows nor disallows them.
    """
    found = robots_usage(f"User-Agent: *\nContent-Signal: use={level}\n").statements
    value = False if level == "immediate" else None
    assert [(one.category, one.value) for one in found] == [
        ("search", value),
        ("train-ai", value),
    ]
    assert {one.text for one in found} == {f"Content-Signal: use={level}"}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/about", {"train-ai": True, "search": True, "ai-use": True}),
        ("/blog/1", {"train-ai": False, "search": True, "ai-use": False}),
        ("/", {}),
    ],
)
def test_content_signal_with_paths(path: str, expected: dict[str, bool]) -> None:
    """contentsignals.org, "Advanced Usage": two groups for everyone, with a path each."""
    body = (
        "User-Agent: *\n"
        "Content-Signal: /about ai-train=yes, search=yes, ai-input=yes\n"
        "Allow: /about\n\n"
        "User-Agent: *\n"
        "Content-Signal: /blog/ ai-train=no, search=yes, ai-input=no\n"
        "Allow: /blog/\n"
    )
    assert stated(robots_usage(body, path)) == expected


def test_content_signal_of_groups() -> None:
    """Each group has its own content signal; a block that a service prepends is merged."""
    body = (
        "User-agent: *\nContent-Signal: search=yes,ai-train=no\nAllow: /\n"
        "User-agent: trainer\nDisallow: /x\nContent-Signal: ai-train=yes\n"
        "User-agent: *\nDisallow: /private/\n"
    )
    assert stated(robots_usage(body, "/", "mybot")) == NO_TRAINING
    assert stated(robots_usage(body, "/private/", "mybot")) == {}
    assert stated(robots_usage(body, "/", "trainer")) == {"train-ai": True}


def test_content_signal_before_any_group_is_for_all() -> None:
    body = (
        "Content-Signal: ai-train=no\nContent-Signal: /a search=no\n"
        "User-agent: mybot\nAllow: /\nContent-Signal: ai-train=yes, search=yes"
    )
    # The signal is combined with the rules of the group: the most restrictive counts.
    assert stated(robots_usage(body, "/", "mybot")) == {
        "train-ai": False,
        "search": True,
    }
    assert stated(robots_usage(body, "/a", "mybot")) == {
        "train-ai": True,
        "search": False,
    }
    assert stated(robots_usage(body, "/", "other")) == {"train-ai": False}
    assert robots_usage(body, "/", "other").statements[0].agent is None


def test_content_signal_ends_no_group() -> None:
    """A Content-Signal record does not end a group: it is an other record (RFC 9309, 2.2.4)."""
    body = "User-agent: a\nContent-Signal: ai-train=no\nUser-agent: b\nAllow: /"
    assert stated(robots_usage(body, "/", "b")) == {"train-ai": False}


# DeviantArt, 2022.


def test_noai() -> None:
    """noai is read from headers and tags, for everyone and for the crawler."""
    for headers, html in (
        ([("X-Robots-Tag", b"noindex, noai")], b""),
        ([("x-robots-tag", b"other: noindex"), ("x-robots-tag", b"mybot: noai")], b""),
        ([], b'<meta name="robots" content="noai, noimageai">'),
        ([], b"<META NAME=MyBot CONTENT='NOAI'>"),
    ):
        found = UsagePreferences.parse(headers, html, "mybot")
        assert stated(found) == {"train-ai": False}
    for headers, html in (
        ([("X-Robots-Tag", b"other: noai")], b""),
        ([], b'<!-- <meta name="robots" content="noai"> -->'),
        ([], b'<meta name="otherbot" content="noai">'),
    ):
        assert not UsagePreferences.parse(headers, html, ("mybot",))


def test_noimageai_is_about_images() -> None:
    found = UsagePreferences.parse(html=b'<meta name="robots" content="noimageai">')
    assert found.get("train-ai") is None
    assert found.get("train-ai", image=True) is False
    statement = found.because("train-ai", image=True)
    assert statement is not None
    assert statement.text == "noimageai"
    assert found.because("train-ai") is None


# RSL 1.0.

RSL_GROUPS = (
    "License: https://example.com/license.xml\n"
    "User-agent: ExampleBot\nAllow: /\n"
    "License: https://example.com/examplebot-license.xml\n\n"
    "User-agent: *\nAllow: /\n"
)


@pytest.mark.parametrize(
    ("body", "agent", "licenses"),
    [
        # rslstandard.org/guide/robots-txt.
        (
            "License: https://your-website.com/license.xml\nUser-agent: Googlebot\nAllow: /",
            "mybot",
            ("https://your-website.com/license.xml",),
        ),
        (
            "License: https://example.com/license.xml\nUser-agent: Googlebot\nAllow: /",
            "googlebot",
            ("https://example.com/license.xml",),
        ),
        # RSL 1.0, 4.4.2 and 4.4.3: licenses of the group hide those of the file.
        (RSL_GROUPS, "examplebot", ("https://example.com/examplebot-license.xml",)),
        (RSL_GROUPS, "mybot", ("https://example.com/license.xml",)),
        (
            (
                "User-agent: ExampleBot\nAllow: /\n"
                "License: https://example.com/examplebot-license.xml\n\n"
                "User-agent: *\nAllow: /\nLicense: https://example.com/default-license.xml\n"
            ),
            "mybot",
            ("https://example.com/default-license.xml",),
        ),
        # Several licenses, each once; without an absolute URI they are ignored (4.4.1).
        (
            (
                "License: https://a.example/1\nLICENSE:https://b.example/2\n"
                "License: https://a.example/1\nUser-agent: *\n"
            ),
            "mybot",
            ("https://a.example/1", "https://b.example/2"),
        ),
        ("License: /license.xml\nLicense: none (public domain)", "mybot", ()),
    ],
)
def test_license_records(body: str, agent: str, licenses: tuple[str, ...]) -> None:
    found = robots_usage(body, "/", agent)
    assert found.licenses == licenses
    assert stated(found) == {}


@pytest.mark.parametrize("name", ["tdm-policy", "tdm-reservation", "Content-Usage"])
def test_an_empty_field_states_nothing(name: str) -> None:
    """A header field without a value is no statement: in particular, "" is no licence."""
    found = UsagePreferences.parse([(name, b" ")])
    assert (found.statements, found.licenses) == ((), ())


def test_a_meta_tag_is_no_license_link() -> None:
    page = b"<meta name='a&b' rel=license href=/license>"
    assert UsagePreferences.parse(html=page).licenses == ()


def test_license_links() -> None:
    """License links are evidence and grant nothing (RSL 1.0, 4.5 and 4.6.1)."""
    found = UsagePreferences.parse(
        [
            (
                "Link",
                (
                    b'<https://example.com/license.xml>; rel="license"; '
                    b'type="application/rsl+xml"'
                ),
            ),
            ("Link", b"</style.css>; rel=preload, <https://e.com/2>;REL=License;x=y"),
            ("Link", b'</x>; title="rel=license, <y>; rel=license"; rel="next"'),
        ],
        b'<head><link rel="license" type="application/rsl+xml" '
        b'href="https://example.com/l?a&amp;b"><link rel=stylesheet href=license.css>'
        b"<!-- <link rel=license href=/no> --><LINK HREF=/cc REL='nofollow LICENSE'>",
    )
    assert found.licenses == (
        "https://example.com/license.xml",
        "https://e.com/2",
        "https://example.com/l?a&b",
        "/cc",
    )
    assert stated(found) == {}


def test_license_links_of_the_head_alone() -> None:
    """License links are read from the head of a page only, since they are only evidence."""
    link = b"<link rel=license href=/l>"
    assert UsagePreferences.parse([], link + b"<p>no body tag").licenses == ("/l",)
    assert UsagePreferences.parse([], b"<head></head><BODY>" + link).licenses == ()


# Conflicts between sources.


def test_sources_are_combined() -> None:
    """A statement that disallows wins, whatever its source (vocab-08, 5.1)."""
    robots = robots_usage(
        "User-agent: *\nContent-Usage: train-ai=y, search=y\nContent-Signal: ai-input=no"
    )
    page = UsagePreferences.parse(
        [("Content-Usage", b"ai-use=y, search=n")], b"<meta name=robots content=noai>"
    )
    both = robots | page
    assert both.to_dict() == {
        "train-ai": False,
        "ai-use": False,
        "search": False,
        "tdm": None,
    }
    sources = [str(each) for each in both.statements]
    assert sources == [
        "Content-Usage: train-ai=y, search=y (robots.txt, line 2)",
        "Content-Usage: train-ai=y, search=y (robots.txt, line 2)",
        "Content-Signal: ai-input=no (robots.txt, line 3)",
        "Content-Usage: ai-use=y, search=n (header)",
        "Content-Usage: ai-use=y, search=n (header)",
        "noai (meta)",
    ]


def test_evidence_is_bounded_and_misses_nothing() -> None:
    """Among thousands of records for one path, the evidence keeps the few that decide."""
    body = "User-agent: *\n" + "Content-Signal: ai-train=yes\n" * 500
    found = robots_usage(body + "Content-Signal: ai-train=no\n")
    assert found.get("train-ai") is False
    assert len(found.statements) <= 20


def test_field_lines_beyond_the_limit() -> None:
    """Only the first field lines of a header field are read."""
    lines = [b"x=y"] * 100 + [b"train-ai=n"]
    for count, known in ((50, True), (100, False)):
        fields = [("Content-Usage", line) for line in lines[-count - 1 :]]
        found = UsagePreferences.parse(fields).get("train-ai")
        assert (found is False) is known
