"""Tests of :class:`RobotsTxt`: decisions, sitemaps and delays. The conformance suite has more cases."""

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
    """Return the decision on a path, or on a whole URL, for a site with this robots.txt."""
    url = path if "://" in path else f"https://www.example.com{path}"
    robots = RobotsTxt.parse(body, dialect)
    decision = robots.decide(url, agents)
    assert robots.is_allowed(url, agents) is decision.allowed
    return decision


# Rules


@pytest.mark.parametrize(
    ("dialect", "rules", "path", "line"),
    [
        # In the dialects that normalize URLs, a pattern and a URL are compared twice: as written, and
        # normalized. As written, "/%c" matches "/%c3%a9". Normalized, a "%" that encodes nothing is "%25".
        (RFC9309, "Disallow: /%c", "/%c3%a9", 2), (CLASSIC, "Disallow: /%c", "/%c3%a9", 2), (GOOGLE, "Disallow: /%c3%a", "/%c3%a9", 0),
        (RFC9309, "Disallow: /%%2", "/%%2A", 2), (RFC9309, "Disallow: /%c3%$", "/%c3%a9", 0),
        (RFC9309, "Disallow: /a?b=%2Fc&d=%2", "/a?b=%2Fc&d=%2Fe", 2), (RFC9309, "Disallow: /*41", "/%41", 2),
        (RFC9309, "Disallow: /*?u=%2F*&v=%", "/x?u=%2Fy&v=%3F", 2), (RFC9309, "Disallow: /*é%", "/é%20", 2),
        (RFC9309, "Disallow: /" + "*?" * 12 + "/a", "/" + "?" * 12 + "%2Fa", 2),
        (RFC9309, "Allow: /%7\nDisallow: /%7e", "/%7e", 2), (RFC9309, "Allow: /%7\nDisallow: /~", "/~", 3),
        (CLASSIC, "Allow: /%7\nDisallow: /~", "/%7e", 2), (RFC9309, "Disallow: /~%", "/%7e%20", 0),
        # A "%" that encodes nothing matches a literal "%" or the beginning of an encoded octet.
        (RFC9309, "Disallow: /100%", "/100%25", 2), (RFC9309, "Disallow: /a%", "/a%20b", 2),
        (RFC9309, "Disallow: /%25", "/%20", 0), (RFC9309, "Disallow: /%2541", "/%41", 0),
        # After the question mark of a pattern, a raw and an encoded slash match each other, and so do
        # question marks.
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
        # In the length of a pattern, "%3A" counts as one character, because it is equal to ":". If the slash at the
        # beginning is missing, it is added and counted.
        (RFC9309, "Allow: /a%3A\nDisallow: /a:*", "/a:c", 3), (RFC9309, "Allow: /?%2F\nDisallow: /?/*", "/?/c", 3),
        (RFC9309, "Disallow: /ab\nAllow: ab$", "/ab", 3), (RFC9309, "Disallow: /a\nAllow: a", "/a", 3),
        # In Google's dialect, the length of a pattern is counted after Google's parser has escaped it: "é"
        # counts as the six characters "%C3%A9". "/a/index.html" also matches as "/a/$", with a length of 4.
        (GOOGLE, "Disallow: /é\nAllow: /*****", "/%C3%A9", 2), (GOOGLE, "Disallow: /é\nAllow: /******", "/%C3%A9", 3),
        (GOOGLE, "Allow: /a%5B\nDisallow: /a[**", "/a[b", 2), (GOOGLE, "Allow: /a[\nDisallow: /a[**", "/a%5Bb", 3),
        (GOOGLE, "Allow: /a/index.html\nDisallow: /a/*$", "/a/", 3), (GOOGLE, "Allow: /a/index.html\nDisallow: /a/$", "/a/", 2),
        # The texts of 1994 and 1996: an empty Disallow allows everything, and a line with a comment is
        # not a blank line.
        (CLASSIC, "Allow:\nDisallow:\nDisallow: /", "/b", 3), (CLASSIC, "# text\nDisallow: /a", "/a", 3),
    ],
)  # fmt: skip
def test_the_longest_pattern_after_normalization_decides(
    dialect: Dialect, rules: str, path: str, line: int
) -> None:
    """The pattern and the URL are compared in the same encoding."""
    assert ask(ANY + rules, path, dialect=dialect).line == line


@pytest.mark.parametrize("dialect", [RFC9309, GOOGLE], ids=lambda d: d.name)
@pytest.mark.parametrize("character", "[]{}|^<>\"'\\` \x01\x7f:@!(),;")
def test_a_character_that_only_some_libraries_encode_matches_raw_and_encoded(
    character: str, dialect: Dialect
) -> None:
    """For example, the pattern ``/a[b`` matches the path ``/a%5Bb``, and vice versa. In Google's dialect, the
    characters ``:@!(),;`` match only as written, as in Google's own parser.
    """
    are_same = dialect is RFC9309 or character not in ":@!(),;"
    for template in ("/a{}b", "/a?b={}c", "/*{}"):
        raw = template.format(character)
        encoded = template.format(f"%{ord(character):02x}")
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
def test_only_path_parameters_and_query_are_compared_with_patterns(
    dialect: Dialect, url: str, target: str
) -> None:
    """Scheme, host and fragment are not compared."""
    body = f"{ANY}Disallow: {target}$\nDisallow: {target}\nAllow: /"
    robots = RobotsTxt.parse(body.encode(), dialect)
    assert robots.decide(url, "bot").line == (2 if dialect.wildcards else 3)


@DIALECTS
@pytest.mark.parametrize("path", ["/\udc80", "/\x00", "/\u2028", "/%", "/ \n", "/\\"])
def test_a_decision_is_made_even_on_an_invalid_url(dialect: Dialect, path: str) -> None:
    assert not ask(f"{ANY}Disallow: /", path, dialect=dialect).allowed


# Bytes


@DIALECTS
def test_text_after_500_kib_is_ignored(dialect: Dialect) -> None:
    """A line that is cut off by the limit is not a rule."""
    head = b"User-agent: *\nDisallow: /a\n"
    fill = b"#" * (dialect.size_limit - len(head) - len(b"\nDisallow: /b\n")) + b"\n"
    body = head + fill + b"Disallow: /b\nDisallow: /c\n"
    paths = ("/a", "/b", "/c")
    assert [ask(body, path, dialect=dialect).line for path in paths] == [2, 4, 0]
    assert ask(head + fill + b"Disallow: /bb\n", "/b", dialect=dialect).allowed
    # A line is whole if its line end is the first octet after the limit.
    whole, cut = (
        ask(head + fill + b"Disallow: /bb" + end, "/bb", dialect=dialect)
        for end in (b"\nA", b"b\n")
    )
    assert (whole.line, cut.line) == (4, 0)
    smaller = replace(dialect, size_limit=len(head))
    assert ask(body, "/a", dialect=smaller).line == 2


@pytest.mark.parametrize("mark", [b"\xef", b"\xef\xbb", b"\xef\xbb\xbf"])
def test_a_part_of_a_byte_order_mark_is_skipped(mark: bytes) -> None:
    """Google's parser also skips an incomplete UTF-8 byte order mark."""
    assert ask(mark + b"User-agent: *\nDisallow: /", "/", dialect=GOOGLE).line == 2


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_a_truncated_utf_16_file_is_read_up_to_its_last_whole_line(
    encoding: str,
) -> None:
    line = "Disallow: /{:06}\n"
    text = "\ufeff" + ANY + "".join(line.format(n) for n in range(20_000))
    last = (RFC9309.size_limit // 2 - 1 - len(ANY)) // len(line.format(0))
    assert ask(text.encode(encoding), f"/{last - 1:06}").line == last + 1
    assert ask(text.encode(encoding), f"/{last:06}").allowed


def test_googles_dialect_ignores_the_part_of_a_line_after_16663_octets() -> None:
    path = "/x/" + "a" * (2083 * 8 - 1 - len("disallow: /x/"))
    body = f"user-agent: *\ndisallow: {path}/qux\nallow: /x/b"
    paths = (path + "/f", path, path[:-1])
    assert [ask(body, tested, dialect=GOOGLE).line for tested in paths] == [2, 2, 0]


# Decisions and arguments


def test_a_decision_reports_the_rule_as_written() -> None:
    """The reason is a string. Decision, rule and robots.txt cannot be changed."""
    robots = RobotsTxt.parse(f"{ANY}disALLOW:  %7eé* # text")
    decision = robots.decide("https://example.com/~%C3%A9", "bot")
    rule = decision.rule
    assert (rule.kind, rule.pattern, rule.line) == ("disallow", "%7eé*", 2)
    assert f"{decision.reason}" == decision.reason == "rule"
    for value, attribute in (
        (decision, "allowed"), (rule, "pattern"), (robots, "sitemaps"),
    ):  # fmt: skip
        with pytest.raises(AttributeError):
            setattr(value, attribute, None)


@pytest.mark.parametrize(
    ("path", "agents", "line"),
    [
        ("/a", "bot", (2, "Bot")), ("/a", "first", (1, "First, Other")), ("/b", "bot", (5, "Bot")),
        ("/c", "none", (8, "*")), ("/d", "none", None), ("/c", "bot", None),
    ],
)  # fmt: skip
def test_user_agent_line_is_the_line_that_names_the_crawler_in_the_group_of_the_rule(
    path: str, agents: str, line: tuple[int, str] | None
) -> None:
    """The result has the line number and the value as written."""
    body = (
        "User-agent: First, Other # both\r\nuser-agent:Bot\r\nDisallow: /a\r\n\r\n"
        "User-Agent: Bot\r\nDisallow: /b\r\n\r\nUser-agent: *\r\nDisallow: /c"
    )
    robots = RobotsTxt.parse(body)
    decision = robots.decide(f"https://www.example.com{path}", agents)
    assert robots.user_agent_line(decision) == line


def test_a_crawler_without_a_token_follows_the_group_for_everyone() -> None:
    """An empty list of tokens and the token ``*`` stand for such a crawler."""
    body = "User-agent: bot\nDisallow: /\nUser-agent: *\nDisallow: /a"
    assert ask(body, "/a", []).line == 4
    assert ask(body, "/a", "*").agent == "*"


def test_a_string_is_encoded_as_utf_8() -> None:
    """The string may have lone surrogates."""
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
    """A relative URL is resolved against the URL of the robots.txt. If the URL of the robots.txt is unknown, relative
    URLs are ignored.
    """
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
    """A unit of seconds may follow the number. Other values are ignored."""
    body = f"{ANY}Crawl-delay: {value}".encode()
    assert RobotsTxt.parse(body).crawl_delay("bot") == seconds


@pytest.mark.parametrize(
    ("body", "delays"),
    [
        # The Host record separates the two user-agent lines, so the delay is only for b. A rule in place of the delay
        # would be for a and b. Any record except Sitemap separates user-agent lines in this way.
        ("User-agent: a\nHost: x\nUser-agent: b\nCrawl-delay: 2", {"a": None, "b": 2}),
        ("User-agent: a\nDisallow:\nCrawl-delay: 2\nDisallow: /\nCrawl-delay: 3", {"a": 3}),
        # If several runs of user-agent lines name a crawler, the records below each of these runs count.
        (("User-agent: a\nCrawl-delay: 1\nUser-agent: b\nCrawl-delay: 5\nDisallow: /\n"
         "User-agent: a\nUser-agent: c\nCrawl-delay: 3"), {"a": 3, "b": 5, "c": 3}),
        ("User-agent: a, b\nCrawl-delay: 1\nUser-agent: c\nDisallow: /", {"b": 1, "c": None}),
    ],
)  # fmt: skip
def test_a_delay_is_for_the_user_agent_lines_directly_above(
    body: str, delays: dict[str, float | None]
) -> None:
    """In contrast, the rules of a group are for all its user-agent lines."""
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
    """A time of day after the rate is ignored."""
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
    """Delays for a certain time of day always count. A refusal names the first line that sets the
    longest delay.
    """
    robots = RobotsTxt.parse(PACE)
    pace = robots.pace("bot")
    assert (pace.crawl_delay, pace.request_rate, pace.delay) == (60, (1, 60), 60)
    assert pace.refusal("bot").line == 8
    assert robots.pace("other").refusal("other").line == 2
    idle = RobotsTxt.parse(b"User-agent: idle\nDisallow: /x").pace("idle")
    assert (idle.delay, idle.record) == (0, None)
