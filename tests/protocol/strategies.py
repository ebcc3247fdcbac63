"""Hypothesis strategies that generate robots.txt files full of edge cases, and URLs that match them."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote_from_bytes

from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable

ORIGIN = "https://example.com"
AGENTS = ("bot", "BOT", "botnews", "bot-image", "bot_x", "other", "b", "bot1", "bot.1")

USER_AGENTS = (
    *(b"*", b"* all", b"*\tall", b"*all", b"**", b"bot", b"Bot", b"BOT", b"b"),
    *(b"botnews", b"bot-image", b"bot_x", b"bot/1.0", b"bot 2", b"bot*", b"bot;x"),
    *(b"bot1", b"BOT.1/2", b"bot, other", b"other,*,bot1 x", b",", b"/bot", b""),
    *(b"bot\xc3\xa9", b"\xff", b"bot\x0cnews", b"bot\xe2\x80\xa8"),
)

USER_AGENT_FIELDS = (
    *([b"User-agent"] * 6),
    *(b"user-agent", b"USER-AGENT ", b" User-Agent", b"useragent", b"User agent"),
    *(b"User-agents", b"user_agent", b"\x0cUser-agent"),
)
RULE_FIELDS = (
    *([b"Allow", b"Disallow"] * 4),
    *(b"allow", b"ALLOW\t", b" Disallow ", b"DISALLOW", b"Allowed", b"Disallows"),
    *(b"Dissallow", b"dissalow", b"Disalow", b"diasllow", b"disallaw", b"diaslow"),
    *(b"Dis allow", b"isallow", b"dis\xc3\xa4llow"),
)
COLONS = (*([b": "] * 8), b":", b" : ", b":\t", b" ", b"  ", b"\t", b"", b"::")

OTHER_LINES = (
    *([b""] * 6),
    *(b" ", b"\t \t", b"\x0c", b"# text", b"  # text", b"#", b":", b": /a"),
    *(b"Sitemap: https://example.com/s.xml", b"Sitemap: /s.xml", b"sitemap"),
    *(b"Crawl-delay: 2", b"Crawl-delay", b"Request-rate: 1/5", b"Noindex: /a"),
    *(b"crawl-delay :3", b" Crawl-delay: 4 # text", b"Request-rate: 1/5 0600-0845"),
    *(b"unknown: /", b"text without meaning", b"allow", b"Disallow", b"User-agent"),
    *(b"<html>", b"\xff\xfe\x00", b"\xe2\x80\xa8Disallow: /", b"\x85Allow: /"),
)
ENDS = (*([b"\n"] * 6), b"\r\n", b"\r\n", b"\r")
COMMENTS = (*([b""] * 6), b" # text", b"#text", b"\t", b"  ")
BEGINNINGS = (
    *([b""] * 8),
    *(b"\xef\xbb\xbf", b"\xef\xbb", b"\xef", b"\xef\xef\xbb\xbf", b"\xbb", b"\n"),
)

# Pieces of patterns. They are few and short, so that patterns and URLs often match.
PIECES = (
    *([b"/"] * 5),
    *(
        b"a",
        b"b",
        b"ab",
        b"A",
        b"~",
        b"%7E",
        b"%7e",
        b"%61",
        b"%2F",
        b"%2f",
        b"%3F",
        b"%2A",
    ),
    *(b"%24", b"%", b"%2", b"%zz", b"%25", b"%3c", b"%3C", b"<", b" ", b"\x0c", b"?"),
    *(b"=", b"&", b"%26", b";", b"+", b"[", b"|", b"'", b".html", b"index.html"),
    *(b":", b"%3A", b"%3a", b"%5B", b"%5b", b"%7C", b"%7c", b"%27", b"%3F", b"?", b"?"),
    *(
        b"?a=/",
        b"?a=%2F",
        b"?a=%2f",
        b"?a=?b",
        b"?a=%3Fb",
        b"\\",
        b"%5C",
        b"%20",
        b"\0",
    ),
    *(b"/index.htm", b"\xc3\xa9", b"%C3%A9", b"%c3%a9", b"\xe9", b"%E9", b"%e9"),
    *(b"\xe3\x83\x84", b"\xe2\x80\xa8", b"\xf0\x9f\x98\x80", b"\x01", b"\x7f"),
    *([b"*"] * 4),
    *([b"$"] * 3),
)
# If a URL is made from a pattern, one of these replaces each "*" of the pattern.
WILD = (b"", b"", b"", b"a", b"/", b"/ab", b"%2F", b"*", b"index.html")
# One of these is appended to the URL.
TAILS = (*([b""] * 4), b"a", b"/", b"?a", b"$", b"#a", b"index.html", b"/robots.txt")
URLS = ("/", "", "?a", "/robots.txt", "/robots.txt?a", "/%72obots.txt", "/a", "/a/")


def patterns() -> st.SearchStrategy[bytes]:
    """The path pattern of a rule."""
    pieces = st.lists(st.sampled_from(PIECES), max_size=5).map(b"".join)
    return st.one_of(
        pieces.map(lambda tail: b"/" + tail),
        pieces,
        st.sampled_from((b"", b"/", b"*", b"$", b"/$", b"/*", b"/a*a$", b"/a*a*a$")),
        st.sampled_from((b"/index.html", b"/a/index.htm", b"/*/index.html", b"/a/")),
    )


@st.composite
def lines(draw: Callable, drawn_patterns: list[bytes]) -> bytes:
    """A line of a robots.txt. The pattern of a rule is appended to ``drawn_patterns``."""
    kind = draw(st.sampled_from(("agent", "agent", "rule", "rule", "rule", "other")))
    if kind == "other":
        return draw(st.sampled_from(OTHER_LINES))
    if kind == "agent":
        start = draw(st.sampled_from(USER_AGENT_FIELDS))
        value = draw(st.sampled_from(USER_AGENTS))
    else:
        start = draw(st.sampled_from(RULE_FIELDS))
        value = draw(patterns())
        drawn_patterns.append(value)
    colon = draw(st.sampled_from(COLONS))
    return start + colon + value + draw(st.sampled_from(COMMENTS))


@st.composite
def bodies(draw: Callable, drawn_patterns: list[bytes]) -> bytes:
    """A robots.txt. The patterns of its rules are appended to ``drawn_patterns``."""
    body = draw(st.sampled_from(BEGINNINGS))
    # A file without any user-agent line would test little.
    body += draw(st.sampled_from((b"", b"User-agent: *\n", b"User-agent: bot\n")))
    for _ in range(draw(st.integers(0, 10))):
        body += draw(lines(drawn_patterns))
        body += draw(st.sampled_from(ENDS))
    body += draw(st.sampled_from((b"", b"Disallow: /", b"User-agent: bot")))
    if draw(st.integers(0, 30)) == 0:
        encoding = draw(st.sampled_from(("utf-16-le", "utf-16-be")))
        body = ("\ufeff" + body.decode("utf-8", "replace")).encode(encoding)
    return body


@st.composite
def urls(draw: Callable, drawn_patterns: list[bytes]) -> str:
    """A URL that is likely to match, or nearly match, one of the patterns."""
    if not drawn_patterns or draw(st.integers(0, 5)) == 0:
        return ORIGIN + draw(st.sampled_from(URLS))
    path = b""
    for octet in draw(st.sampled_from(drawn_patterns)):
        piece = bytes([octet])
        if piece == b"*":
            piece = draw(st.sampled_from(WILD))
        elif piece == b"$":
            piece = draw(st.sampled_from((b"", b"", b"$")))
        elif draw(st.integers(0, 15)) == 0:
            spelling = draw(st.sampled_from((b"%%%02X", b"%%%02x")))
            piece = spelling % octet
        path += piece
    path += draw(st.sampled_from(TAILS))
    if (
        draw(st.integers(0, 5)) == 0
    ):  # The path up to its last slash, or its first octets.
        path = path[: path.rfind(b"/") + 1] or path[:2]
    if not path.startswith(b"/"):
        path = b"/" + path
    if draw(st.integers(0, 10)) == 0:  # Not encoded, as people write URLs.
        return ORIGIN + path.decode("utf-8", "ignore")
    return ORIGIN + quote_from_bytes(path, safe="/%?#[]@!$&'()*+,;=:~|<")


@st.composite
def cases(draw: Callable) -> tuple[bytes, str, tuple[str, ...]]:
    """A robots.txt, a URL and the product tokens of a crawler."""
    drawn_patterns: list[bytes] = []
    body = draw(bodies(drawn_patterns))
    tokens = st.lists(st.sampled_from(AGENTS), min_size=1, max_size=2, unique=True)
    return body, draw(urls(drawn_patterns)), tuple(draw(tokens))
