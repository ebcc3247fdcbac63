"""The time for indexing rules, compared with the time for parsing the page.

The tasks take turns at batches of pages. A turn for each page would measure the caches of
the machine: after parsing a page into a tree, they hold nothing for the next task.
"""

from __future__ import annotations

from http.cookies import SimpleCookie
from typing import TYPE_CHECKING

from parsel import Selector

from benchmarks.peers import OURS
from benchmarks.table import Row, Target, timed
from benchmarks.timing import interleaved
from scrapy_rep.protocol.indexing.rules import IndexingRules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HEAD = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<title>Robots, and other things that crawl &amp; climb</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="description" content="It's all about robots: a list of {0} things">
<meta property="og:title" content="A list"><meta property="og:type" content="website">
<meta property="og:url" content="https://example.com/list?page=1&amp;order=name">
<meta name="twitter:card" content="summary"><meta name="theme-color" content="#fff">
<meta http-equiv="x-ua-compatible" content="ie=edge">
{robots}<link rel="canonical" href="https://example.com/list">
<style>body {{ margin: 0 }} .item > p {{ color: #333 }}</style>
<script>if (1 < 2) {{ window.robots = "<b>none</b>"; }}</script>
</head><body><nav><ul><li><a href="/">Home</a></li><li><a href="/b">B</a></li></ul></nav>
"""
ITEM = """<div class="item" id="item-{0}" data-name="{0}">
<h2><a href="/item/{0}?ref=list&amp;page=1" title="Number {0}">Number {0}</a></h2>
<img src="/images/{0}.jpg" alt="" width="120" height="80" loading="lazy">
<p>Mr. Fox, quick and brown, doesn&#8217;t <em>jump</em> over the lazy dog; it walks past, and
sits down where the <strong>sun</strong> has warmed the stones since the morning.</p>
</div>
"""
ROBOTS = '<meta name="robots" content="noindex, max-snippet:50">\n'
HEADER = b"noindex, max-snippet: 50, googlebot: nofollow"
COOKIE = "session=0; Path=/items; Max-Age=50; Secure"
SIZE = 100_000
BATCH = 20
RESPONSES = 5_000
AGENTS = ("mybot",)


def page(robots: str = "", tail: str = "") -> bytes:
    """Return a page of about SIZE bytes."""
    text = HEAD.format(0, robots=robots)
    items = (SIZE - len(text)) // len(ITEM.format(100))
    body = "".join(ITEM.format(number) for number in range(100, 100 + items))
    return f"{text}{body}{tail}</body></html>\n".encode()


def pages(_files: list[bytes], rounds: int) -> Iterator[Row]:
    """Return pages of 100 KB, with and without statements."""
    for what, robots, tail, target in (
        ("page of 100 KB, no statement", "", "", Target(20)),
        ("page of 100 KB, a statement in the head", ROBOTS, "", Target(10)),
        ("page of 100 KB, a statement at its end", "", ROBOTS, None),
    ):
        batch = [page(robots, f"<p>{number}</p>{tail}") for number in range(BATCH)]
        texts = [html.decode() for html in batch]
        ours, parsel = interleaved(
            {
                "ours": lambda batch=batch: [
                    IndexingRules.parse(html=html, agents=AGENTS) for html in batch
                ],
                "parsel": lambda texts=texts: [Selector(text=text) for text in texts],
            },
            2 * rounds,
        ).values()
        yield timed(what, OURS, ours, BATCH)
        taken = parsel.median / BATCH
        yield Row(what, "parsel", taken, parsel.spread, ours.ratio(parsel), target)


def headers(_files: list[bytes], rounds: int) -> Iterator[Row]:
    """Measure responses that are no pages.

    The closest header that Python itself parses is a ``Set-Cookie`` with as many
    attributes: it is as long, has separators, and each part is looked up in a vocabulary.
    But a statement has more to parse: its text, agent, position, number and findings.
    Twice the time is acceptable for that.
    """
    said, nothing = "a header of three statements", "a response without statements"
    cookies = "http.cookies, three attributes"
    found = interleaved(
        {
            said: _many(lambda: IndexingRules.parse([HEADER], agents=AGENTS)),
            cookies: _many(lambda: SimpleCookie(COOKIE)),
            nothing: _many(lambda: IndexingRules.parse([], agents=AGENTS)),
        },
        rounds,
    )
    yield timed(said, OURS, found[said], RESPONSES)
    ratio = found[said].ratio(found[cookies])
    seconds = found[cookies].median / RESPONSES
    yield Row(said, cookies, seconds, found[cookies].spread, ratio)
    yield timed(nothing, OURS, found[nothing], RESPONSES)


def _many(task: Callable[[], object]) -> Callable[[], None]:
    def do() -> None:
        for _ in range(RESPONSES):
            task()

    return do


ALL = (pages, headers)
