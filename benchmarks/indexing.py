"""What reading indexing rules costs, beside what parsing the page costs.

Run it with ``python benchmarks/indexing.py``. Each page is read and parsed in turn, so
that whatever else the machine does falls on both; the medians are compared.
"""

from __future__ import annotations

from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING

from parsel import Selector

from scrapy_rep.protocol.indexing import IndexingRules

if TYPE_CHECKING:
    from collections.abc import Callable

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
SIZE = 100_000


def page(robots: str = "", tail: str = "") -> bytes:
    """Return a page of about SIZE bytes."""
    text = HEAD.format(0, robots=robots)
    items = (SIZE - len(text)) // len(ITEM.format(100))
    body = "".join(ITEM.format(number) for number in range(100, 100 + items))
    return f"{text}{body}{tail}</body></html>\n".encode()


def race(*functions: Callable[[], object], rounds: int = 300) -> list[float]:
    """Return the median time of each function in seconds, the functions taking turns."""
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(rounds):
        for function, taken in zip(functions, times, strict=True):
            # A larger allocation first tidies up what the function before freed: for
            # parsel's tree that takes 150 us, which are not the next function's.
            bytearray(10_000)
            start = perf_counter()
            function()
            taken.append(perf_counter() - start)
    return [median(taken) for taken in times]


def main() -> None:
    agents = ("mybot",)
    for title, html in {
        "no statement": page(),
        "a statement in the head": page(ROBOTS),
        "a statement at the end of the body": page(tail=ROBOTS),
    }.items():
        text = html.decode()
        ours, parsel = race(
            lambda html=html: IndexingRules.parse(html=html, agents=agents),
            lambda text=text: Selector(text=text),
        )
        print(
            f"{title} ({len(html)} bytes): {ours * 1e6:.0f} us, "
            f"parsel {parsel * 1e6:.0f} us, 1/{parsel / ours:.1f}"
        )
    [header] = race(lambda: IndexingRules.parse([HEADER], agents=agents), rounds=5000)
    [nothing] = race(lambda: IndexingRules.parse(agents=agents), rounds=5000)
    print(f"a header of three rules: {header * 1e6:.1f} us")
    print(f"a response that says nothing: {nothing * 1e6:.1f} us")


if __name__ == "__main__":
    main()
