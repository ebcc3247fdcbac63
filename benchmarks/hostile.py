"""Malicious robots.txt files of any size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from scrapy_rep.protocol.dialect import RFC9309, Dialect

LIMIT = RFC9309.size_limit

Maker: TypeAlias = Callable[[int], tuple[bytes, str, Dialect]]

ORIGIN = "https://example.com/"
LONG = ORIGIN + "a" * 2000


def word(number: int) -> str:
    """Return a different word of letters for each number."""
    return "".join(chr(ord("a") + int(digit)) for digit in str(number))


def user_agents_over_rules(size: int) -> tuple[bytes, str, Dialect]:
    count = size * 12_000 // LIMIT
    lines = [f"User-agent: a{word(n)}" for n in range(count)]
    lines += [f"Disallow: /{n}" for n in range(count)]
    return _body([*lines, "User-agent: *", "Disallow: /a"]), LONG, RFC9309


def one_agent_over_rules(size: int) -> tuple[bytes, str, Dialect]:
    count = size // 30
    lines = ["User-agent: *"] * count + [f"Disallow: /{n}" for n in range(count)]
    return _body(lines), LONG, RFC9309


def equal_wildcards(size: int) -> tuple[bytes, str, Dialect]:
    return (
        _body(["User-agent: *", *["Disallow: /*a*a*a*b"] * (size // 20)]),
        LONG,
        RFC9309,
    )


def different_wildcards(size: int) -> tuple[bytes, str, Dialect]:
    lines = [f"Disallow: /*a*a*{word(n)}*b" for n in range(size // 25)]
    return _body(["User-agent: *", *lines]), LONG, RFC9309


def wildcards_that_nearly_match(size: int) -> tuple[bytes, str, Dialect]:
    lines = [f"Allow: /*a*{'a' * (n % 50)}*{n}" for n in range(size // 40)]
    return _body(["User-agent: *", *lines]), LONG + "0123456789", RFC9309


def one_long_line(size: int) -> tuple[bytes, str, Dialect]:
    return (
        _body(["User-agent: *", "Disallow: /" + "*a" * (size // 2 - 20)]),
        LONG,
        RFC9309,
    )


def empty_groups(size: int) -> tuple[bytes, str, Dialect]:
    return b"User-agent: *\nAllow:\n" * (size // 21), LONG, RFC9309


def quarter_of_a_million_empty_groups(size: int) -> tuple[bytes, str, Dialect]:
    body = b"User-agent: *\nAllow:\n" * (size * 250_000 // LIMIT)
    return body, LONG, replace(RFC9309, size_limit=len(body))


def nested_literals(size: int) -> tuple[bytes, str, Dialect]:
    lines = []
    while sum(map(len, lines[-1:])) * len(lines) < 2 * size:
        lines.append(f"Allow: /{'a' * len(lines)}")
    return _body(["User-agent: *", *lines]), LONG, RFC9309


INPUTS: dict[str, Maker] = {
    "12,000 user agents over 12,000 rules": user_agents_over_rules,
    "17,000 lines for everyone over 17,000 rules": one_agent_over_rules,
    "25,000 times /*a*a*a*b": equal_wildcards,
    "20,000 different /*a*a*...*b": different_wildcards,
    "12,800 wildcards that nearly match": wildcards_that_nearly_match,
    "one line of 500 KB": one_long_line,
    "24,000 empty groups": empty_groups,
    "250,000 empty groups, limit raised": quarter_of_a_million_empty_groups,
    "1,000 literals, each a prefix of the next": nested_literals,
}


def _body(lines: list[str]) -> bytes:
    return "\n".join(lines).encode()
