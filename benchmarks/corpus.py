"""Reads or generates the robots.txt files on which parsers are measured."""

from __future__ import annotations

import random
import tarfile
from typing import TYPE_CHECKING
from urllib.parse import quote_from_bytes

from scrapy_rep.protocol.robots import RobotsTxt

if TYPE_CHECKING:
    from pathlib import Path

AGENT = "examplebot"
"""The product token of the crawler in the benchmarks. No robots.txt in the benchmarks names this crawler, so it
follows the groups for ``*``, as most crawlers do."""

FIXED_PATHS = ("/", "/index.html", "/a/b.html?c=d", "/about/team")
SAFE = "/%?[]@!$&'()*+,;=:~|"

WORDS = """
about account admin ajax api app archive article author backup basket blog book cart
category cgi-bin checkout comment compare contact content core css customer data
download edit event feed file forum gallery help home image includes index item job js
lang legal list login mail map media member message misc modules news node order page
partner photo plugins poll press print private product profile public rating redirect
register report review rss sale scripts search section sendmail session share shop site
sitemap sort stat store support tag temp theme tmp tools topic track user video view
wishlist wp-admin wp-content xmlrpc
""".split()  # noqa: SIM905
AGENTS = """
Googlebot Bingbot GPTBot CCBot AhrefsBot SemrushBot Yandex Baiduspider
""".split()  # noqa: SIM905


def read(path: Path) -> list[bytes]:
    """Return the contents of all ``.txt`` files in the folder or ``.tar.gz`` file at *path*."""
    if path.is_dir():
        return [file.read_bytes() for file in sorted(path.glob("**/*.txt"))]
    with tarfile.open(path) as archive:
        return [
            archive.extractfile(member).read()
            for member in archive
            if member.isfile() and member.name.endswith(".txt")
        ]


def generate(count: int = 1000) -> list[bytes]:
    """Return *count* generated robots.txt files whose shapes and sizes resemble those of real files. Half of the files
    contain fewer than ten rules, one in a hundred contains hundreds of rules, and a few contain thousands. Some
    files are HTML pages.
    """
    chance = random.Random(
        9309
    )  # The fixed seed makes each run generate the same files.
    return [_generate(chance) for _ in range(count)]


def _generate(chance: random.Random) -> bytes:
    if chance.random() < 0.06:
        page = "<div class='a'>\n  <a href='/b'>text: and more</a>\n</div>\n"
        return f"<!doctype html>\n<html>\n{page * chance.randrange(10, 2000)}".encode()
    rules = min(int(chance.paretovariate(0.85) * 5), 20_000)
    wild = chance.choice((0.0, 0.0, 0.05, 0.2, 0.5))
    lines = ["# robots.txt"] if chance.random() < 0.5 else []
    for agent in chance.sample(AGENTS, chance.choice((0, 0, 0, 1, 2, 8))):
        lines += [f"User-agent: {agent}", "Disallow: /", ""]
    lines += ["User-agent: *", *(["Crawl-delay: 10"] if chance.random() < 0.2 else [])]
    for _ in range(rules):
        kind = "Allow" if chance.random() < 0.12 else "Disallow"
        comment = " # text" if chance.random() < 0.01 else ""
        lines.append(f"{kind}: {_pattern(chance, wild)}{comment}")
        if chance.random() < 0.05:
            lines.append(f"# {chance.choice(WORDS)}")
    lines += ["", "Sitemap: https://example.com/sitemap.xml", ""]
    return chance.choice(("\n", "\n", "\r\n")).join(lines).encode()


def _pattern(chance: random.Random, wild: float) -> str:
    parts = chance.choices(WORDS, k=chance.choice((1, 1, 2, 2, 3)))
    if chance.random() < 0.3:
        parts[-1] += str(chance.randrange(10_000))
    path = "/" + "/".join(parts)
    if chance.random() < wild:
        word = chance.choice(WORDS)
        shapes = (
            f"/*?{word}=", f"/*/{word}/", f"{path}/*", f"{path}/*.css$", f"/*.{word}$",
            f"{path}*{word}", f"/*&{word}", f"/*{word}*{word}",
        )  # fmt: skip
        return chance.choice(shapes)
    return path + chance.choice(("/", "/", "/", "", ".php", "?a="))


def urls(body: bytes, count: int = 20) -> list[str]:
    """Return *count* URLs to judge by the robots.txt *body*, encoded as Scrapy encodes URLs. Most of the URLs match, or
    nearly match, a rule for AGENT.
    """
    groups = RobotsTxt.parse(body).groups
    values = [
        rule.pattern.encode()
        for group in groups
        if "*" in group.agents
        for rule in group.rules
        if rule.pattern
    ]
    from_rules = count - len(FIXED_PATHS)
    step = max(1, len(values) // from_rules)
    paths = list(FIXED_PATHS)
    for i, value in enumerate(values[::step][:from_rules]):
        path = value.replace(b"*", (b"", b"a", b"/a/b")[i % 3]).removesuffix(b"$")
        path += (b"", b"a", b"/", b"?a=b")[i % 4]
        paths.append("/" + quote_from_bytes(path, safe=SAFE).removeprefix("/"))
    while len(paths) < count:
        paths.append(f"/{WORDS[len(paths)]}/{len(paths)}.html")
    return [f"https://www.example.com{path}" for path in paths]
