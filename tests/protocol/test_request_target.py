"""Tests of the forms of a URL, and of decisions on a URL with several forms. A server can see a URL in several forms:
for example, ``/a/../%62`` as it is written, as ``/%62``, or as ``/b``.
"""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from w3lib.url import safe_url_string

from scrapy_rep.protocol.dialect import DIALECTS
from scrapy_rep.protocol.request_target import (
    AIOHTTP,
    HTTP2,
    HTTPX,
    TWISTED,
    decide,
    forms,
    have_same_target,
    is_allowed,
    is_robotstxt,
)
from scrapy_rep.protocol.robots import RobotsTxt
from scrapy_rep.protocol.robotstxt.rules import Reason
from tests.protocol.growth import assert_linear

HOST = "http://host.test"
_PIECES = (
    "/ / // a b . .. %2e %2E %41 %7e %2F %26 %3D %2B % %zz %2 ? & = + ; %3B ' %27 ! %21 *"
    " %2A $ %24 @ %40 : %3a [ %5b | %3F %25 é \\"
)
PIECES = _PIECES.split()
PATHS = st.lists(st.sampled_from(PIECES), max_size=10).map(
    lambda pieces: "/" + "".join(pieces)
)


@pytest.mark.parametrize(
    ("path", "other_forms"),
    [
        ("/a/../b", ["/b"]), ("/a/./b", ["/a/b"]), ("/../../b", ["/b"]), ("/a/b/..", ["/a/"]),
        ("/a/.", ["/a/"]), ("/..", ["/"]), ("/a/%2e%2E/b", ["/b"]),
        ("/a/.%2e/b?c=/../d", ["/b?c=/../d"]), ("/%73ecret/%7E", ["/secret/~"]),
        ("/./%73/%e9", ["/%73/%e9", "/s/%e9"]), ("/a?b=%41", ["/a?b=A"]), ("/a\\..\\b", ["/b"]),
        ("/a\\b", ["/a/b"]), ("/a\tb\r\nc", ["/abc"]), ("/a b", ["/a", "/a%20b"]),
        ("/a?b c", ["/a?b", "/a?b%20c"]), ("/a\x0b/../b", ["/a", "/b"]), ("/é", ["/%C3%A9"]),
        ("/\ud800", ["/%ED%A0%80"]), ("//a", ["////a"]),
        ("//a/../b", ["////a/../b", "////b", "//b"]), ("//../b", ["////../b", "///b", "/b"]),
        ("/a/../../x/..//b", ["//b"]), ("/a#/../b", ["/a"]), ("/a/../b#c", ["/b"]),
        ("?a=%41", ["/?a=%41", "/?a=A"]), ("/a;", ["/a"]), ("/a?", ["/a"]), ("/a;?#x", ["/a"]),
        ("/a;?b", ["/a?b"]), ("/a/..;", ["/"]), ("/a%zz%", ["/a%25zz%25"]),
        # These paths have no other form.
        ("", []), ("/", []), ("/.well-known/x", []), ("/a/...", []), ("/a/..b/.c/d..", []),
        ("/a%2Fb%2f%26%20%C3%A9", []), ("/a?u=http://b//c&d=..", []), ("/a//b/", []),
        ("/a;b/c:d@e!$&'()*+,=", []), ("/a;b", []), ("/a;/b?c;?", []), ("/a;b?c=?d#?e", []),
        ("/%5c%252e%00", []),
    ],
)  # fmt: skip
def test_the_forms_of_a_url_are_unique(path: str, other_forms: list[str]) -> None:
    """The forms of a URL are the URL as written, as the HTTP client sends it, and as a server reads it. If two forms
    are equal, ``forms`` returns only one of them.
    """
    assert forms(HOST + path) == tuple(HOST + form for form in (path, *other_forms))


@pytest.mark.parametrize(
    ("url", "other_forms"),
    [
        (f" {HOST}/a ", (f"{HOST}/a",)),
        (f"\x00{HOST}/a", (f"{HOST}/a",)),
        ("HTTP://user@HOST:080/./a", ("HTTP://user@HOST:080/a",)),
        ("/a/../b", ()),
        ("", ()),
        ("no URL \\ at all", ()),
    ],
)
def test_white_space_around_a_url_is_stripped(
    url: str, other_forms: tuple[str, ...]
) -> None:
    """*other_forms* are the forms of the URL that differ from *url* as written. A text that is not a URL has none."""
    assert forms(url) == (url, *other_forms)


@given(PATHS)
@example("/%zz%2")
def test_what_aiohttp_sends_for_a_url_of_scrapy_is_one_of_its_forms(path: str) -> None:
    yarl = pytest.importorskip("yarl")
    url = safe_url_string(HOST + path)
    sent = HOST + yarl.URL(url).raw_path_qs
    assert sent in (f"{url}/", *forms(url, frozenset({AIOHTTP})))


@pytest.mark.parametrize(
    ("path", "sent"),
    [
        ("/a/../b", "/b"), ("/a/%2e%2e/b", "/a/%2e%2e/b"), ("/a/../%2e%2e/b", "/%2e%2e/b"),
        ("/x/../a\\..\\b", "/a\\..\\b"), ("/x/../a\\b?c=/../d", "/a\\b?c=/../d"),
        ("//a/../b", "//b"), ("/a/..;", "/a/..;"), ("/a;?", "/a;?"), ("/%41", "/%41"),
        ("/100%", "/100%"),
    ],
)  # fmt: skip
def test_httpx_resolves_only_raw_dot_segments(path: str, sent: str) -> None:
    """*sent* is the target that httpx 0.28 and httpx2 2.16 sent through a real socket."""
    targets = forms(HOST + path, frozenset({HTTPX}))
    assert HOST + sent in targets
    robots = RobotsTxt.parse(b"User-agent: *\nDisallow: /a\\")
    if sent.startswith("/a\\"):
        assert not is_allowed(robots, HOST + path, "bot", frozenset({HTTPX}))


def test_the_form_for_http2_has_no_parameters_in_the_last_segment() -> None:
    """Scrapy's HTTP/2 handler drops these parameters."""
    http2 = frozenset({HTTP2})
    url = f"{HOST}/a;b/c;d;e?f;g"
    assert forms(url, http2) == (url, f"{HOST}/a;b/c?f;g")
    assert forms(f"{HOST}/a;b/c?f;g", http2) == (f"{HOST}/a;b/c?f;g",)
    robots = RobotsTxt.parse(b"User-agent: *\nDisallow: /a$")
    assert is_allowed(robots, f"{HOST}/a;b", "bot")
    assert not is_allowed(robots, f"{HOST}/a;b", "bot", http2)


CLIENTS = st.sampled_from([AIOHTTP, HTTP2, HTTPX, TWISTED])


@given(PATHS, CLIENTS)
def test_the_last_form_has_no_dot_segments_and_forms_are_few(
    path: str, client: str
) -> None:
    """A server can see a URL in at most three forms, or in four if the path begins with two slashes. The last form is
    the URL as a server reads it, with ``.`` and ``..`` in the path resolved.
    """
    targets = forms(HOST + path, frozenset({client}))
    assert len(set(targets)) == len(targets) <= 3 + path.startswith("//")
    assert targets[0] == HOST + path
    path_read = urlsplit(targets[-1]).path
    segments = path_read.lower().replace("%2e", ".").split("/")
    assert not {".", ".."} & {*segments}


@given(PATHS, CLIENTS, CLIENTS)
@example("//a/../b", AIOHTTP, TWISTED)
@example("/a/%41;x", AIOHTTP, HTTP2)
def test_the_forms_for_two_clients_are_those_for_each_of_them(
    path: str, first: str, second: str
) -> None:
    """A crawl may send ``http`` URLs with one client, and ``https`` URLs with another."""
    both = forms(HOST + path, frozenset({first, second}))
    for client in first, second:
        assert set(forms(HOST + path, frozenset({client}))) <= set(both)


def test_the_decision_names_the_form_that_is_denied() -> None:
    """A URL is denied if one of its forms is denied. The decision names the denied form, unless that is
    the URL as written.
    """
    robots = RobotsTxt.parse(b"User-agent: *\nDisallow: /secret\nDisallow: /x/")
    decision = decide(robots, f"{HOST}/a/../secret", "bot")
    assert (decision.allowed, decision.line) == (False, 2)
    assert decision.form == f"{HOST}/secret"
    written = f"{HOST}/x/../open"
    assert decide(robots, written, "bot") == robots.decide(written, "bot")
    assert decide(robots, f"{HOST}/a/../open", "bot").form == ""


@given(
    PATHS,
    st.sets(CLIENTS, min_size=1).map(frozenset),
    st.sampled_from(sorted(DIALECTS)),
)
def test_is_allowed_agrees_with_decide(
    path: str, clients: frozenset[str], dialect: str
) -> None:
    """Both deny a URL if one of its forms is denied."""
    body = b"User-agent: *\nDisallow: /a\nDisallow: /*&\nDisallow: ////\nAllow: /a/a"
    robots = RobotsTxt.parse(body, DIALECTS[dialect])
    url = HOST + path
    allowed = is_allowed(robots, url, "bot", clients)
    assert allowed is decide(robots, url, "bot", clients).allowed
    assert allowed is all(
        robots.decide(form, "bot").allowed for form in forms(url, clients)
    )


def test_a_refusal_of_everything_still_allows_the_literal_robotstxt_url() -> None:
    robots = RobotsTxt.blanket(allowed=False, reason=Reason.UNREACHABLE)
    assert is_allowed(robots, f"{HOST}/robots.txt", "bot")
    assert is_allowed(robots, f"{HOST}/robots.txt#x", "bot")
    assert not is_allowed(robots, f"{HOST}/x/../robots.txt", "bot")
    assert not is_allowed(robots, f"{HOST}/robots.txt/../x", "bot")


@pytest.mark.parametrize(
    ("rest", "is_exact"),
    [
        ("/robots.txt", True), ("/robots.txt#x", True), ("/robots.txt;x", False),
        ("/robots.txt;", False), ("/robots.txt?", False), ("/robots.txt?x", False),
        ("/a/robots.txt", False), ("/?/robots.txt", False), ("#/robots.txt", False),
        ("/./robots.txt", False),
    ],
)  # fmt: skip
def test_only_the_exact_path_is_that_of_robotstxt(rest: str, is_exact: bool) -> None:
    assert is_robotstxt(HOST + rest) is is_exact


@pytest.mark.parametrize(
    ("url", "other_url", "are_equal"),
    [
        ("", "/", True), ("?q", "/?q", True), ("/a#x", "/a#y", True),
        ("/%7Ea/./b", "/~a/b", True), ("/a b", "/a%20b", True), ("/a", "/a/", False),
        ("/a", "/a?q", False), ("/a", "/b", False),
    ],
)  # fmt: skip
def test_spellings_of_the_same_request_target_are_equal(
    url: str, other_url: str, are_equal: bool
) -> None:
    """The fragment does not matter."""
    assert have_same_target(HOST + url, HOST + other_url) is are_equal
    assert have_same_target(HOST + other_url, HOST + url) is are_equal


@pytest.mark.parametrize(
    "piece",
    ["/..", "/.", "//", "%2e", "/%2e%2e", "%", "\\", " ", "/a/..", "?", "%41", "é"],
)
@pytest.mark.unmeasured
def test_the_time_for_a_url_is_linear_in_its_length(piece: str) -> None:
    aiohttp = frozenset({AIOHTTP})
    assert_linear(
        lambda url: forms(url, aiohttp),
        lambda size: f"{HOST}/{piece * (size // len(piece))}",
    )
