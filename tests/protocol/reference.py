"""A reference implementation of robots.txt. It is simple and slow, and tests compare the package
with it.

It follows RFC 9309, Google's documentation and published parser, and the texts of 1994 and 1996.
It loops over characters and rules, and uses no regular expressions. Where the sources differ, or
leave a point open, a field of the dialect decides.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.protocol.robotstxt.pages import shown_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy_rep.protocol.dialect import Dialect

WHITE_SPACE = b" \t\x0b\x0c"
LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
HEX = b"0123456789ABCDEFabcdef"
UNRESERVED = LETTERS + b"0123456789-._~"
# Reserved characters that are not delimiters in a path or query, and reserved characters that are delimiters.
NO_DELIMITERS = b":@!'(),;[]"
DELIMITERS = b"/?&=+"
# Characters that may stand raw, and that only some URL libraries encode.
ENCODED_BY_SOME = b"[]'"
BOM = b"\xef\xbb\xbf"
UTF_16 = (b"\xff\xfe", b"\xfe\xff")

USER_AGENT = (b"user-agent", b"useragent", b"user agent")
ALLOW = (b"allow",)
DISALLOW = tuple(b"disallow dissallow dissalow disalow diasllow disallaw".split())

# Elements of a pattern that are not octets: "*", and "$" at the end.
ANYTHING = -1
END = -2

# Whether the URL is allowed, the line of the rule (or 0), the matching product token, the reason.
Verdict = tuple[bool, int, "str | None", str]


class Pattern(NamedTuple):
    octets: list[int]  # Normalized.
    length: int  # The longest of the matching patterns decides.
    # The pattern without normalization. None if the pattern is only compared in its normalized form.
    written: list[int] | None = None


class Target(NamedTuple):
    """The part of a URL that patterns are compared with."""

    octets: bytes  # Normalized.
    written: bytes  # Not normalized.


class Rule(NamedTuple):
    kind: str
    line: int
    patterns: list[Pattern]  # More than one with the index.html quirk.


class Group(NamedTuple):
    tokens: list[bytes]
    rules: list[Rule]


class Reference:
    """A parsed robots.txt."""

    def __init__(self, body: bytes, dialect: Dialect) -> None:
        self.dialect = dialect
        self.groups = read_groups(body, dialect)
        # These functions are slow. The caches keep many decisions on one file affordable.
        self.url_target = cache(lambda url: url_target(url, dialect))
        self.groups_of = cache(self.find_groups)
        self.verdict_for = cache(self.find_verdict)

    def decide(self, url: str, agents: str | Sequence[str]) -> Verdict:
        target = self.url_target(url)
        if self.dialect.robotstxt_allowed and target.octets == b"/robots.txt":
            return True, 0, None, "robots-txt"
        tokens = (agents,) if isinstance(agents, str) else tuple(agents)
        agent, groups = self.groups_of(tokens)
        if not groups:
            return True, 0, None, "no-group"
        return self.verdict_for(agent, target)

    def find_verdict(self, agent: str, target: Target) -> Verdict:
        _, groups = self.groups_of((agent,))
        best: tuple[int, bool] | None = None
        line = 0
        for rule in [rule for group in groups for rule in group.rules]:
            for pattern in rule.patterns:
                if not matches(pattern, target, self.dialect):
                    continue
                # An empty Disallow that counts as a rule allows everything.
                allows = rule.kind == "allow" or not pattern.octets
                if self.dialect.rule_choice == "first":
                    return allows, rule.line, agent, "rule"
                if best is None or (pattern.length, allows) > best:
                    best, line = (pattern.length, allows), rule.line
        if best is None:
            return True, 0, agent, "no-rule"
        return best[1], line, agent, "rule"

    def find_groups(self, agents: tuple[str, ...]) -> tuple[str | None, list[Group]]:
        """Return the first product token that has groups, and these groups."""
        for agent in [*agents, "*"]:
            groups = [
                group
                for group in self.groups
                if any(
                    names_agent(token, agent, self.dialect) for token in group.tokens
                )
            ]
            if groups:
                return agent, groups if self.dialect.merge_groups else groups[:1]
        return None, []


def read_groups(body: bytes, dialect: Dialect) -> list[Group]:
    groups: list[Group] = []
    group, in_run = None, False  # True in a run of user-agent lines.
    for number, line in enumerate(read_lines(body, dialect), start=1):
        if not line.strip(WHITE_SPACE):
            if dialect.blank_line_ends_group:
                group, in_run = None, False
            continue
        kind, value = read_field(line, dialect)
        if kind == "user-agent":
            if not in_run:
                group = Group([], [])
                groups.append(group)
            in_run = True
            group.tokens.extend(read_tokens(value, dialect))
        elif kind in ("allow", "disallow") and group is not None:
            in_run = False
            patterns = read_patterns(kind, value, dialect)
            if patterns:
                group.rules.append(Rule(kind, number, patterns))
    return groups


def read_lines(body: bytes, dialect: Dialect) -> list[bytes]:
    utf_16 = dialect.utf_16 and is_utf_16(body)
    too_long = len(body) > dialect.size_limit
    ends_at_limit = body[dialect.size_limit : dialect.size_limit + 1] in (b"\r", b"\n")
    text = shown_text(body[: dialect.size_limit + 1])
    body = body[: dialect.size_limit] if text is None else text
    if utf_16:
        body = body.decode("utf-16", "replace").encode()
    if too_long and (utf_16 or not ends_at_limit):
        body = body[: max(body.rfind(b"\r"), body.rfind(b"\n")) + 1]
    for length in (3, 2, 1) if dialect.partial_bom else (3,):
        if body.startswith(BOM[:length]) and not utf_16:
            body = body[length:]
            break
    lines = body.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    lines = [line[: dialect.line_limit] for line in lines]
    if dialect.nul_ends_line:
        lines = [line.split(b"\0")[0] for line in lines]
    return lines


def is_utf_16(body: bytes) -> bool:
    if body[:2] not in UTF_16:
        return False
    parities = [index % 2 for index, octet in enumerate(body) if octet == 0]
    # The high octets of ASCII characters are zero. In a little-endian file, their indices are odd.
    parity = 1 if body[:2] == UTF_16[0] else 0
    total = len(range(2 + parity, len(body), 2))
    return parities.count(parity) > max(parities.count(1 - parity), total // 8)


def read_field(line: bytes, dialect: Dialect) -> tuple[str, bytes]:
    """Return the kind of the record in a line and its value. The kind is "user-agent", "allow",
    "disallow", "other", or "" if the line has no record.
    """
    line = line.partition(b"#")[0].strip(WHITE_SPACE)
    name, colon, value = line.partition(b":")
    if not colon and dialect.misspelt_fields:
        words = [word for word in line.replace(b"\t", b" ").split(b" ") if word]
        if len(words) == 2:
            (name, value), colon = words, b":"
    if not colon:
        return "", b""
    name = name.strip(WHITE_SPACE).lower()
    value = value.strip(WHITE_SPACE)
    kinds = (("user-agent", USER_AGENT), ("allow", ALLOW), ("disallow", DISALLOW))
    for kind, spellings in kinds:
        if dialect.misspelt_fields:
            if any(name.startswith(spelling) for spelling in spellings):
                return kind, value
        elif name == spellings[0]:
            return kind, value
    return "other", value


def read_tokens(value: bytes, dialect: Dialect) -> list[bytes]:
    parts = value.split(b",") if dialect.comma_separated_agents else [value]
    return [
        token
        for part in parts
        for token in read_token(part.strip(WHITE_SPACE), dialect)
    ]


def read_token(value: bytes, dialect: Dialect) -> list[bytes]:
    if value == b"*" or (value[:1] == b"*" and value[1] in WHITE_SPACE):
        return [b"*"]
    if dialect.agent_match == "letters":
        # The token as Google's parser cuts it, and the whole token. They differ only if the
        # token has digits or dots.
        cut = take(value, LETTERS + b"-_")
        return [cut, take(value, LETTERS + b"0123456789-_.")]
    return [take(value, bytes(set(range(256)) - set(WHITE_SPACE + b"/*")))]


def take(value: bytes, octets: bytes) -> bytes:
    """Return *value* up to the first octet that is not in *octets*."""
    return value[: len(value) - len(value.lstrip(octets))]


def names_agent(token: bytes, agent: str, dialect: Dialect) -> bool:
    """Return True if the token of a user-agent line names the crawler *agent*."""
    if token in (b"", b"*") or agent == "*":
        return token == b"*" and agent == "*"
    name = agent.encode().lower()
    if dialect.agent_match == "prefix":
        return name.startswith(token.lower())
    return name == token.lower()


def read_patterns(kind: str, value: bytes, dialect: Dialect) -> list[Pattern]:
    """Return the patterns of a rule, or an empty list if the line is no rule."""
    if not value:
        allows_all = kind == "disallow" and dialect.empty_disallow == "allow-all"
        return [Pattern([], 0)] if allows_all else []
    starts = (b"/", b"*") if dialect.wildcards else (b"/",)
    if dialect.leading_slash_assumed and value[:1] not in starts:
        value = b"/" + value
    pattern = normalize(value, dialect, in_pattern=True)
    patterns = [Pattern(pattern, pattern_length(pattern, value, dialect))]
    if kind == "allow" and dialect.index_html_quirk:
        slash = max((i for i, o in enumerate(pattern) if o == ord("/")), default=None)
        index = list(b"/index.htm")
        if slash is not None and pattern[slash : slash + len(index)] == index:
            directory = [*pattern[: slash + 1], END]
            written = value[: value.rindex(b"/") + 1] + b"$"
            length = pattern_length(directory, written, dialect)
            patterns.append(Pattern(directory, length))
    if dialect.path_encoding == "rfc3986":
        decoded_patterns = [with_decoded_query(parsed.octets) for parsed in patterns]
        patterns = [Pattern(octets, len(octets)) for octets in decoded_patterns]
    if dialect.path_encoding != "high-octets":
        octets = normalize(value, dialect, in_pattern=True, as_written=True)
        patterns[0] = patterns[0]._replace(written=octets)
    return patterns


def pattern_length(octets: list[int], written: bytes, dialect: Dialect) -> int:
    """Return the length of a pattern: the number of its normalized *octets*.

    In Google's dialect, return the length that Google's parser computes from the pattern without
    normalization (*written*): octets above 0x7F count three times.
    """
    if dialect.path_encoding == "high-octets":
        return sum(3 if octet > 0x7F else 1 for octet in written)
    return len(octets)


def url_target(url: str, dialect: Dialect) -> Target:
    """Return the path, parameters and query of a URL, which are compared with rules."""
    url = url.partition("#")[0]
    scheme, separator, rest = url.partition("://")
    if not separator or "/" in scheme or "?" in scheme:
        rest = url
    while rest and rest[0] not in "/?":
        rest = rest[1:]
    if not rest.startswith("/"):
        rest = "/" + rest
    written = rest.encode()
    return Target(bytes(normalize(written, dialect, in_pattern=False)), written)


def normalize(
    text: bytes, dialect: Dialect, *, in_pattern: bool, as_written: bool = False
) -> list[int]:
    """Return the normalized octets of *text*. In a pattern, ``*`` and a final ``$`` become ANYTHING
    and END.

    With *as_written*, only these special characters are replaced, and nothing is normalized.
    """
    octets: list[int] = []
    i = 0
    while i < len(text):
        octet = text[i]
        last = i == len(text) - 1
        hexes = text[i + 1 : i + 3] if octet == ord("%") else b""
        if in_pattern and dialect.wildcards and octet == ord("*"):
            octets.append(ANYTHING)
        elif in_pattern and dialect.wildcards and octet == ord("$") and last:
            octets.append(END)
        elif as_written:
            octets.append(octet)
        elif len(hexes) == 2 and all(h in HEX for h in hexes):
            octets += normalize_encoded(hexes, dialect.path_encoding, in_pattern)
            i += 2
        else:
            octets += normalize_raw(octet, dialect.path_encoding, in_pattern)
        i += 1
    return octets


def with_decoded_query(octets: list[int]) -> list[int]:
    """Decode the encoded slashes and question marks in the query of a pattern or target: ``/a%2Fb?c%2Fd`` becomes
    ``/a%2Fb?c/d``. The query begins after the first raw question mark.
    """
    i = octets.index(ord("?")) + 1 if ord("?") in octets else len(octets)
    return octets[:i] + decoded(octets[i:])


def decoded(octets: Sequence[int]) -> list[int]:
    """Decode the encoded slashes and question marks in *octets*: ``a%2Fb`` becomes ``a/b``."""
    result: list[int] = []
    i = 0
    while i < len(octets):
        for raw in b"/?":
            if [*octets[i : i + 3]] == [*b"%%%02X" % raw]:
                result.append(raw)
                i += 3
                break
        else:
            result.append(octets[i])
            i += 1
    return result


@cache
def normalize_encoded(hexes: bytes, encoding: str, in_pattern: bool) -> bytes:
    octet = int(hexes, 16)
    if encoding == "rfc3986" and octet in UNRESERVED + NO_DELIMITERS:
        return bytes([octet])
    if encoding == "decoded" and octet != ord("/"):
        return bytes([octet])
    is_google = encoding == "high-octets"
    if is_google and not in_pattern and not is_always_encoded(octet):
        return b"%" + hexes
    return b"%" + hexes.upper()


@cache
def normalize_raw(octet: int, encoding: str, in_pattern: bool) -> bytes:
    encoded = b"%%%02X" % octet
    # A "%" is raw if it does not begin an encoded octet.
    if octet == ord("%") and encoding != "rfc3986":
        return b"%"
    if encoding == "rfc3986":
        # A raw "*" or "$" in a URL is encoded, because a pattern must encode it: a raw "*" or "$" in a pattern is a
        # wildcard or the end.
        stays_raw = octet in UNRESERVED + NO_DELIMITERS + DELIMITERS
        return bytes([octet]) if stays_raw else encoded
    is_google = encoding == "high-octets"
    if is_google and (is_always_encoded(octet) or (octet > 0x7F and in_pattern)):
        return encoded
    return bytes([octet])


def is_always_encoded(octet: int) -> bool:
    """Return True if this is an ASCII character that normalization always encodes. Such a character
    may not stand raw in a path or query, or some URL libraries encode it.
    """
    raw = UNRESERVED + NO_DELIMITERS + DELIMITERS + b"%*$"
    return octet < 0x80 and (octet not in raw or octet in ENCODED_BY_SOME)


def matches(pattern: Pattern, target: Target, dialect: Dialect) -> bool:
    """Return True if the pattern matches the target, either both as written or both normalized.

    If the pattern has a query and the path encoding is ``rfc3986``, ``%2F`` and ``/`` are the same in
    the query, and so are ``%3F`` and ``?``: the pattern ``/a?b=%2F`` matches the target ``/a?b=/``.
    """
    if pattern.written is not None and matches_raw(pattern.written, target.written):
        return True
    octets = target.octets
    if dialect.path_encoding == "rfc3986" and ord("?") in pattern.octets:
        octets = bytes(with_decoded_query([*octets]))
    return matches_raw(pattern.octets, octets)


def matches_raw(pattern: Sequence[int], target: bytes) -> bool:
    """Return True if the pattern matches a beginning of the target."""
    # All positions in the target that the pattern up to here can have reached.
    positions = {0}
    for octet in pattern:
        if octet == END:
            return len(target) in positions
        if octet == ANYTHING:
            positions = set(range(min(positions), len(target) + 1))
        else:
            positions = {
                position + 1
                for position in positions
                if target[position : position + 1] == bytes([octet])
            }
        if not positions:
            return False
    return True
