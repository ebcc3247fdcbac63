"""What a robots.txt decides and states, beyond the cases of the conformance suite."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from scrapy_rep.protocol.dialect import CLASSIC, GOOGLE, RFC9309, Dialect
from scrapy_rep.protocol.robots import RobotsTxt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy_rep.protocol.robotstxt.rules import Decision

DIALECTS = pytest.mark.parametrize(
    "dialect", [RFC9309, GOOGLE, CLASSIC], ids=lambda d: d.name
)
ANY = "User-agent: *\n"


def ask(
    body: str | bytes,
    path: str,
    agents: str | Sequence[str] = "examplebot",
    dialect: Dialect = RFC9309,
) -> Decision:
    """Return the decision on ``path`` for a site with this robots.txt."""
    url = path if "://" in path else f"https://www.example.com{path}"
    robots = RobotsTxt.parse(body, dialect)
    decision = robots.decide(url, agents)
    assert robots.is_allowed(url, agents) is decision.allowed
    return decision


# Rules


@pytest.mark.parametrize(
    ("dialect", "rules", "path", "line"),
    [
        # A pattern matches as written, also if it ends within an encoded octet, in the dialects
        # that normalise URLs; or normalised, when a "%" that encodes nothing is "%25".
        (RFC9309, "Disallow: /%c", "/%c3%a9", 2), (CLASSIC, "Disallow: /%c", "/%c3%a9", 2), (GOOGLE, "Disallow: /%c3%a", "/%c3%a9", 0),
        (RFC9309, "Disallow: /%%2", "/%%2A", 2), (RFC9309, "Disallow: /%c3%$", "/%c3%a9", 0),
        (RFC9309, "Disallow: /a?b=%2Fc&d=%2", "/a?b=%2Fc&d=%2Fe", 2), (RFC9309, "Disallow: /*41", "/%41", 2),
        (RFC9309, "Disallow: /*?u=%2F*&v=%", "/x?u=%2Fy&v=%3F", 2), (RFC9309, "Disallow: /*é%", "/é%20", 2),
        (RFC9309, "Disallow: /" + "*?" * 12 + "/a", "/" + "?" * 12 + "%2Fa", 2),
        (RFC9309, "Allow: /%7\nDisallow: /%7e", "/%7e", 2), (RFC9309, "Allow: /%7\nDisallow: /~", "/~", 3),
        (CLASSIC, "Allow: /%7\nDisallow: /~", "/%7e", 2), (RFC9309, "Disallow: /~%", "/%7e%20", 0),
        # A "%" that encodes nothing is itself, or begins an encoded octet.
        (RFC9309, "Disallow: /100%", "/100%25", 2), (RFC9309, "Disallow: /a%", "/a%20b", 2),
        (RFC9309, "Disallow: /%25", "/%20", 0), (RFC9309, "Disallow: /%2541", "/%41", 0),
        # Behind the question mark of a pattern, raw and encoded slashes and question marks match.
        (RFC9309, "Disallow: /a?b=c?d", "/a?b=c%3Fd", 2), (RFC9309, "Disallow: /a?b=c%3fd$", "/a?b=c?d", 2),
        (RFC9309, "Disallow: /*?*%3Fd", "/a?b=c?d", 2), (RFC9309, "Disallow: /*?b=*?d", "/a?b=%3F%2Fd%3Fd", 2),
        (RFC9309, "Disallow: /a?b", "/a%3Fb", 0), (RFC9309, "Disallow: /a%3Fb", "/a?b", 0),
        (RFC9309, "Disallow: /*?b=1?c", "/a%3Fb=1%3Fc", 0), (RFC9309, "Allow: /?%3F\nDisallow: /??*", "/??c", 3),
        (GOOGLE, "Disallow: /a?b=c?d", "/a?b=c%3Fd", 0),
        (RFC9309, "Disallow: /a?b=/c$", "/a?b=%2fc", 2), (RFC9309, "Disallow: /*%2Fc", "/a?b=/c", 0),
        (RFC9309, "Disallow: *?*%2Fc*/d$", "/a?b=/c%2Fd", 2), (RFC9309, "Disallow: /*/c", "/a?b=%2Fc", 0),
        (RFC9309, "Disallow: /*/x?y=/z", "/a?b=/x?y=%2Fz", 2), (RFC9309, "Disallow: /*/x?y=/z", "/a?b=%2Fx?y=/z", 2),
        (RFC9309, "Disallow: /a?*=/*/c", "/a?b=%2F%2Fc", 2),
        (RFC9309, "Disallow: /a?b=%2", "/a?b=%2Fc", 2), (RFC9309, "Disallow: /*?b=/*Fc", "/a?b=/%2Fc", 2),
        (RFC9309, "Disallow: /*?b=/c*%2Fd", "/a?b=%2Fc/e%2Fd", 2), (RFC9309, "Disallow: /*?b=/c", "/a?b=%2Fd", 0),
        # An encoded octet that is the same raw counts once, and so does a slash that is assumed.
        (RFC9309, "Allow: /a%3A\nDisallow: /a:*", "/a:c", 3), (RFC9309, "Allow: /?%2F\nDisallow: /?/*", "/?/c", 3),
        (RFC9309, "Disallow: /ab\nAllow: ab$", "/ab", 3), (RFC9309, "Disallow: /a\nAllow: a", "/a", 3),
        # Google counts the octets as its parser escapes them, and index.html as the directory and "$".
        (GOOGLE, "Disallow: /é\nAllow: /*****", "/%C3%A9", 2), (GOOGLE, "Disallow: /é\nAllow: /******", "/%C3%A9", 3),
        (GOOGLE, "Allow: /a%5B\nDisallow: /a[**", "/a[b", 2), (GOOGLE, "Allow: /a[\nDisallow: /a[**", "/a%5Bb", 3),
        (GOOGLE, "Allow: /a/index.html\nDisallow: /a/*$", "/a/", 3), (GOOGLE, "Allow: /a/index.html\nDisallow: /a/$", "/a/", 2),
        # The texts of 1994 and 1996: an empty Disallow allows, a comment is no blank line.
        (CLASSIC, "Allow:\nDisallow:\nDisallow: /", "/b", 3), (CLASSIC, "# text\nDisallow: /a", "/a", 3),
    ],
)  # fmt: skip
def test_the_longest_pattern_in_one_encoding_decides(
    dialect: Dialect, rules: str, path: str, line: int
) -> None:
    """Pattern and URL are brought to one encoding, and the longest pattern decides."""
    assert ask(ANY + rules, path, dialect=dialect).line == line


@pytest.mark.parametrize("dialect", [RFC9309, GOOGLE], ids=lambda d: d.name)
@pytest.mark.parametrize("character", "[]{}|^<>\"'\\` \x01\x7f:@!(),;")
def test_a_character_that_only_some_libraries_encode_matches_both_ways(
    character: str, dialect: Dialect
) -> None:
    """A character that only some URL libraries encode is the same raw and encoded; in RFC 9309's
    dialect, so are reserved characters that delimit nothing.

    Google's parser compares the given text, so there the library determines the result.
    """
    are_same = dialect is RFC9309 or character not in ":@!(),;"
    for place in ("/a{}b", "/a?b={}c", "/*{}"):
        raw, encoded = place.format(character), place.format(f"%{ord(character):02x}")
        for pattern, path, same in (
            (raw, raw, True), (raw, encoded, are_same), (encoded, raw, are_same),
        ):  # fmt: skip
            decision = ask(f"{ANY}Disallow: {pattern}", path, dialect=dialect)
            assert decision.allowed is not same


@DIALECTS
@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("https://example.com", "/"), ("https://example.com?a", "/?a"),
        ("https://example.com#a", "/"), ("https://example.com/a?b#c?d", "/a?b"),
        ("https://example.com/a;b=c?d", "/a;b=c?d"), ("https://[::1]:8080/a", "/a"),
        ("https://user:pass@example.com:80/a", "/a"), ("HTTPS://EXAMPLE.COM/a", "/a"),
        ("https://example.com//a", "//a"), ("https://example.com/?", "/?"),
        ("https://example.com/a?b=https://c/d", "/a?b=https://c/d"),
        ("https://example.com?a=https://c/d", "/?a=https://c/d"), ("", "/"),
    ],
)  # fmt: skip
def test_path_and_query_are_compared_and_nothing_else(
    dialect: Dialect, url: str, target: str
) -> None:
    """Path, parameters and query of a URL are compared; scheme, host and fragment are not."""
    body = f"{ANY}Disallow: {target}$\nDisallow: {target}\nAllow: /"
    robots = RobotsTxt.parse(body.encode(), dialect)
    assert robots.decide(url, "bot").line == (2 if dialect.wildcards else 3)


@DIALECTS
@pytest.mark.parametrize("path", ["/\udc80", "/\x00", "/\u2028", "/%", "/ \n", "/\\"])
def test_any_url_is_decided_on(dialect: Dialect, path: str) -> None:
    """A decision is made for any text, even if it is no URL."""
    assert not ask(f"{ANY}Disallow: /", path, dialect=dialect).allowed


# Bytes


@DIALECTS
def test_what_follows_500_kib_is_ignored(dialect: Dialect) -> None:
    """The last whole line within 500 KiB is the last one read; a line that is cut is no rule."""
    head = b"User-agent: *\nDisallow: /a\n"
    fill = b"#" * (dialect.size_limit - len(head) - len(b"\nDisallow: /b\n")) + b"\n"
    body = head + fill + b"Disallow: /b\nDisallow: /c\n"
    paths = ("/a", "/b", "/c")
    assert [ask(body, path, dialect=dialect).line for path in paths] == [2, 4, 0]
    assert ask(head + fill + b"Disallow: /bb\n", "/b", dialect=dialect).allowed
    # The end of a line that ends at the limit is the next octet.
    whole, cut = (
        ask(head + fill + b"Disallow: /bb" + end, "/bb", dialect=dialect)
        for end in (b"\nA", b"b\n")
    )
    assert (whole.line, cut.line) == (4, 0)
    smaller = replace(dialect, size_limit=len(head))
    assert ask(body, "/a", dialect=smaller).line == 2


@pytest.mark.parametrize("mark", [b"\xef", b"\xef\xbb", b"\xef\xbb\xbf"])
def test_a_part_of_a_byte_order_mark_is_skipped(mark: bytes) -> None:
    """Google's parser skips the beginning of a UTF-8 byte order mark too."""
    assert ask(mark + b"User-agent: *\nDisallow: /", "/", dialect=GOOGLE).line == 2


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_cut_utf_16_is_read_to_its_last_whole_line(encoding: str) -> None:
    """The last whole line of a truncated UTF-16 file is read as written."""
    line = "Disallow: /{:06}\n"
    text = "\ufeff" + ANY + "".join(line.format(n) for n in range(20_000))
    last = (RFC9309.size_limit // 2 - 1 - len(ANY)) // len(line.format(0))
    assert ask(text.encode(encoding), f"/{last - 1:06}").line == last + 1
    assert ask(text.encode(encoding), f"/{last:06}").allowed


def test_a_long_line_is_cut_in_the_google_dialect() -> None:
    """The part of a line after 16,663 octets is ignored."""
    path = "/x/" + "a" * (2083 * 8 - 1 - len("disallow: /x/"))
    body = f"user-agent: *\ndisallow: {path}/qux\nallow: /x/b"
    paths = (path + "/f", path, path[:-1])
    assert [ask(body, asked, dialect=GOOGLE).line for asked in paths] == [2, 2, 0]


# What a caller gets


def test_a_decision_reports_the_rule_as_written() -> None:
    """The winning rule has its original spelling; the reason is a word; nothing can be changed."""
    robots = RobotsTxt.parse(f"{ANY}disALLOW:  %7eé* # text")
    decision = robots.decide("https://example.com/~%C3%A9", "bot")
    rule = decision.rule
    assert (rule.kind, rule.pattern, rule.line) == ("disallow", "%7eé*", 2)
    assert f"{decision.reason}" == decision.reason == "rule"
    for thing, name in (
        (decision, "allowed"), (rule, "pattern"), (robots, "sitemaps"),
    ):  # fmt: skip
        with pytest.raises(AttributeError):
            setattr(thing, name, None)


@pytest.mark.parametrize(
    ("path", "agents", "line"),
    [
        ("/a", "bot", (2, "Bot")), ("/a", "first", (1, "First, Other")), ("/b", "bot", (5, "Bot")),
        ("/c", "none", (8, "*")), ("/d", "none", None), ("/c", "bot", None),
    ],
)  # fmt: skip
def test_a_rule_knows_the_user_agent_line_of_its_group(
    path: str, agents: str, line: tuple[int, str] | None
) -> None:
    """The user-agent line by which the rule is the crawler's is that of its group, as written."""
    body = (
        "User-agent: First, Other # both\r\nuser-agent:Bot\r\nDisallow: /a\r\n\r\n"
        "User-Agent: Bot\r\nDisallow: /b\r\n\r\nUser-agent: *\r\nDisallow: /c"
    )
    robots = RobotsTxt.parse(body)
    decision = robots.decide(f"https://www.example.com{path}", agents)
    assert robots.user_agent_line(decision) == line


def test_a_crawler_without_a_token_follows_the_group_for_everyone() -> None:
    """No token, and the token ``*``, mean everyone's group."""
    body = "User-agent: bot\nDisallow: /\nUser-agent: *\nDisallow: /a"
    assert ask(body, "/a", []).line == 4
    assert ask(body, "/a", "*").agent == "*"


def test_text_is_taken_as_utf_8() -> None:
    """A robots.txt may be given as text, even with lone surrogates."""
    text = "User-agent: bot\nDisallow: /ツ\n# \ud800"
    robots = RobotsTxt.parse(text)
    assert robots.body == text.encode("utf-8", "surrogatepass")
    assert robots.decide("https://h/%E3%83%84", "bot").line == 2


# Sitemaps, delays and rates


@pytest.mark.parametrize(
    ("value", "absolute"),
    [
        ("/s.xml", "https://example.com/s.xml"), ("s.xml?a=b", "https://example.com/s.xml?a=b"),
        ("//other.example/s.xml", "https://other.example/s.xml"), ("http://[", None),
        ("file:///etc/passwd", None), ("javascript:a()", None), ("data:text/xml,a", None),
    ],
)  # fmt: skip
def test_sitemaps_are_absolute_http_urls(value: str, absolute: str | None) -> None:
    """Sitemaps are absolute http and https URLs; a relative one needs the URL of the file."""
    body = f"Sitemap: {value}".encode()
    robots = RobotsTxt.parse(body, url="https://example.com/robots.txt")
    assert robots.sitemaps == ((absolute,) if absolute else ())
    assert RobotsTxt.parse(body).sitemaps == ()


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (".5", 0.5), ("5.", 5.0), ("010", 10.0), ("5s", 5.0), ("5 S", 5.0), ("5 sec", 5.0),
        ("10 seconds", 10.0), ("9" * 400, 1e9), ("+1", None), ("1e999", None), ("5m", None),
        ("5  s", None), (".", None), ("s", None), ("nan", None), ("0x10", None),
        ("1, 2", None), ("1_0", None), ("٥", None), ("1.2.3", None),
    ],
)  # fmt: skip
def test_a_crawl_delay_is_a_decimal_number_of_seconds(
    value: str, seconds: float | None
) -> None:
    """Only a decimal number of seconds is a crawl delay."""
    body = f"{ANY}Crawl-delay: {value}".encode()
    assert RobotsTxt.parse(body).crawl_delay("bot") == seconds


@pytest.mark.parametrize(
    ("body", "delays"),
    [
        # Any record but a sitemap ends the run, although the group continues for rules.
        ("User-agent: a\nHost: x\nUser-agent: b\nCrawl-delay: 2", {"a": None, "b": 2}),
        ("User-agent: a\nDisallow:\nCrawl-delay: 2\nDisallow: /\nCrawl-delay: 3", {"a": 3}),
        # If two runs name a crawler, the records of both count.
        (("User-agent: a\nCrawl-delay: 1\nUser-agent: b\nCrawl-delay: 5\nDisallow: /\n"
         "User-agent: a\nUser-agent: c\nCrawl-delay: 3"), {"a": 3, "b": 5, "c": 3}),
        ("User-agent: a, b\nCrawl-delay: 1\nUser-agent: c\nDisallow: /", {"b": 1, "c": None}),
    ],
)  # fmt: skip
def test_a_delay_is_that_of_the_user_agent_lines_above_it(
    body: str, delays: dict[str, float | None]
) -> None:
    """A group shares its rules; a delay is only for the user-agent lines above it."""
    robots = RobotsTxt.parse(body.encode())
    assert {agent: robots.crawl_delay(agent) for agent in delays} == delays


@pytest.mark.parametrize(
    ("value", "rate"),
    [
        ("2/1M", (2, 60)), ("1/1h", (1, 3600)), ("1/5m 0600-0845", (1, 300)),
        ("-1/5", None), ("1/5d", None), ("1/5 x", None), ("1/5 06-08", None),
    ],
)  # fmt: skip
def test_a_request_rate_is_a_number_of_requests_in_a_period(
    value: str, rate: tuple | None
) -> None:
    """A request rate is a number of requests in a period; a time of day behind it is ignored."""
    robots = RobotsTxt.parse(f"{ANY}Request-rate: {value}".encode())
    assert robots.request_rate("bot") == rate


PACE = b"""\
User-agent: other
Crawl-delay: 99
Disallow:
User-agent: bot
Crawl-delay: soon
Crawl-delay: 2
Request-rate: 3/12
Request-rate: 1/1m 0800-0900
Request-rate: 2/60
Visit-time: 0600-0845
Disallow:

User-agent: bot
Crawl-delay: 60
Disallow:
"""


def test_the_longest_delay_counts() -> None:
    """The longest requested delay counts, at whatever time of day. The refusal names the first line
    that asks for it.
    """
    robots = RobotsTxt.parse(PACE)
    pace = robots.pace("bot")
    assert (pace.crawl_delay, pace.request_rate, pace.delay) == (60, (1, 60), 60)
    assert pace.refusal("bot").line == 8
    assert robots.pace("other").refusal("other").line == 2
    idle = RobotsTxt.parse(b"User-agent: idle\nDisallow: /x").pace("idle")
    assert (idle.delay, idle.record) == (0, None)
