"""Tests of HTML in place of a robots.txt: the page that a browser creates to show plain text, and other
pages.
"""

from __future__ import annotations

import subprocess
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from scrapy_rep import CLASSIC, GOOGLE, RFC9309, RobotsTxt, lint
from scrapy_rep.protocol.robotstxt.lines import text_lines
from scrapy_rep.protocol.robotstxt.pages import is_page, shown_text
from tests.browser import CHROMIUM, FLAGS
from tests.protocol.growth import assert_linear

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


DIALECTS = [RFC9309, GOOGLE, CLASSIC]
TEXT = """\
# <b>Rules</b> & "quotes" 'of' a site, &amp; &lt;
User-agent: *
Disallow: /search?q=1&copy=2
Disallow: /caf\u00e9/<x>
Disallow: /a\u00a0b
Crawl-delay: 5

Sitemap: https://example.com/map.xml?a=1&b=2
"""
ESCAPED = (
    TEXT.replace("&", "&amp;")
    .replace("<", "&lt;")
    .replace(">", "&gt;")
    .replace("\u00a0", "&nbsp;")
)
CHROMIUM_BEFORE = (
    '<html><head><meta name="color-scheme" content="light dark"></head><body>'
    '<pre style="word-wrap: break-word; white-space: pre-wrap;">'
)
END = "</pre></body></html>"

SHOWN = {
    "Chromium": CHROMIUM_BEFORE + ESCAPED + END + "\n",
    "Chromium, with the element for formatted JSON": (
        '<html><head><meta name="color-scheme" content="light dark"><meta charset="utf-8"></head>'
        f"<body><pre>{ESCAPED}</pre>"
        '<div class="json-formatter-container"></div></body></html>'
    ),
    "Firefox": (
        '<html><head><link rel="stylesheet" href="resource://content-accessible/plaintext.css">'
        f"</head><body><pre>{ESCAPED}{END}"
    ),
    "WebKit": f'<html><head></head><body><pre style="x">{ESCAPED}{END}',
    "another serializer": (
        "<!DOCTYPE html>\n<HTML>\n<head>\n</head>\n<body>\n<PRE>"
        + ESCAPED.replace("\u00e9", "&#xE9;").replace("'", "&#39;")
        + "</PRE>\n</body>\n</HTML>"
    ),
    "Chromium, cut off": CHROMIUM_BEFORE + ESCAPED,
}


@pytest.mark.parametrize("page", SHOWN.values(), ids=SHOWN)
def test_the_text_in_a_page_that_a_browser_created_is_the_robots_txt(page: str) -> None:
    """In each dialect, decisions and findings are those of the text, with the same line numbers. The
    page does not count as HTML in place of a robots.txt.
    """
    body = page.encode()
    assert shown_text(body) == TEXT.encode()
    assert not is_page(body)
    for dialect in DIALECTS:
        robots, expected = (
            RobotsTxt.parse(body, dialect),
            RobotsTxt.parse(TEXT, dialect),
        )
        for path in ("/", "/search?q=1&copy=2", "/caf%C3%A9/%3Cx%3E", "/a%C2%A0b"):
            url = f"https://example.com{path}"
            decision = expected.decide(url, "mybot")
            assert robots.decide(url, "mybot") == decision
            assert decision.allowed is (path == "/")
            unused = RobotsTxt.parse(body, dialect)
            assert unused.is_allowed(url, "mybot") is decision.allowed
        assert robots.crawl_delay("mybot") == expected.crawl_delay("mybot")
        assert robots.sitemaps == ("https://example.com/map.xml?a=1&b=2",)
        assert text_lines(body, dialect) == TEXT.splitlines()
        assert lint(body, dialect) == lint(TEXT, dialect)


def test_an_empty_page_of_a_browser_is_an_empty_robots_txt() -> None:
    body = b"<html><head></head><body></body></html>\n"
    assert shown_text(body) == b""
    assert not is_page(body)


RULES = "User-agent: *\nDisallow: /"
OTHER_PAGES = {
    "a page with a paragraph after the text": f"<html><head></head><body><pre>{RULES}</pre><p>x</p></body></html>",
    "a page with other text before": f"<html><head></head><body>x<pre>{RULES}{END}",
    "a page with an element in the text": f"<html><head></head><body><pre><b>{RULES}</b>{END}",
    "a page with a title": f"<html><head><title>x</title></head><body><pre>{RULES}{END}",
    "a page with a script": f"<html><head><script>x</script></head><body><pre>{RULES}{END}",
    "a page with much white space after the text": f"<html><head></head><body><pre>{RULES}</pre>{' ' * 5_000}</body></html>",
    "a challenge": "<!DOCTYPE html><html lang=en><head><title>Just a moment...</title></head></html>",
    "a comment": "<!-- x --><html></html>",
    "a head": "\n<head><meta charset=utf-8></head>",
    "a script": "<script src=/challenge.js></script>",
}


@pytest.mark.parametrize("page", OTHER_PAGES.values(), ids=OTHER_PAGES)
def test_any_other_page_is_read_line_by_line(page: str) -> None:
    """Only a page in which a browser shows a text file is decoded. Any other page is parsed line by line, and is
    reported as HTML in place of a robots.txt.
    """
    body = page.encode()
    assert shown_text(body) is None
    assert is_page(body)
    assert text_lines(body, RFC9309) == page.splitlines()


def test_a_robots_txt_is_not_a_page_even_with_tags_in_it() -> None:
    for text in ("", RULES, f"{RULES}\n<html>", "<a>", "# <html>"):
        assert not is_page(text.encode())
        assert shown_text(text.encode()) is None


def test_character_references_are_decoded_once() -> None:
    """``&amp;lt;`` becomes ``&lt;``. Only numeric references and a few named references, such as ``&amp;``, are
    decoded; ``&copy;`` is not. A number that is not a character becomes U+FFFD.
    """
    references = (
        "&amp;lt; &copy &copy; &#65; &#x41; &#0; &#9999999; &#xD800; &" + "#" * 9
    )
    text = shown_text((CHROMIUM_BEFORE + references + END).encode())
    assert text is not None
    assert text.decode().startswith("&lt; &copy &copy; A A \ufffd")
    assert text.endswith(b"&" + b"#" * 9)


def test_a_long_page_is_read_up_to_its_last_whole_line() -> None:
    """The last whole line is the last one within the size limit."""
    line = "Disallow: /&amp;a\n"
    page = CHROMIUM_BEFORE + "User-agent: *\n" + line * 40_000 + "Disallow: /b" + END
    robots = RobotsTxt.parse(page)
    assert not robots.is_allowed("https://example.com/&a", "mybot")
    assert robots.is_allowed("https://example.com/b", "mybot")
    assert set(text_lines(page.encode(), RFC9309)[1:]) == {"Disallow: /&a"}


HOSTILE: dict[str, Callable[[int], str]] = {
    "tags": lambda size: "<html><head>" + "<meta>" * (size // 6),
    "white space": lambda size: "<html>" + " " * size,
    "attributes": lambda size: "<html " + "a " * (size // 2),
    "metas and spaces": lambda size: "<html><head>" + "<meta a>  " * (size // 10) + "<x>",
    "references": lambda size: CHROMIUM_BEFORE + "&amp;" * (size // 5) + END,
    "parts of references": lambda size: CHROMIUM_BEFORE + "&#1" * (size // 3) + END,
    "digits": lambda size: CHROMIUM_BEFORE + "&#" + "1" * size + ";" + END,
    "white space after the text": lambda size: CHROMIUM_BEFORE + "</pre>" + " " * size,
    "elements after the text": lambda size: CHROMIUM_BEFORE + "</pre>" + "<div></div>" * (size // 11),
}  # fmt: skip


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE)
def test_a_page_takes_time_in_proportion_to_its_size(
    make: Callable[[int], str],
) -> None:
    assert_linear(
        lambda body: RobotsTxt.parse(body).groups,
        lambda size: make(size).encode(),
        size=256 * 1_024,
    )


@pytest.fixture
def site() -> Iterator[str]:
    """Serve TEXT as plain text, and yield its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = TEXT.encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            """Print nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/robots.txt"
        server.shutdown()
        thread.join()


@pytest.mark.slow
@pytest.mark.newest
@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
def test_the_text_of_the_page_that_chromium_creates_is_extracted(site: str) -> None:
    assert CHROMIUM is not None
    command = [CHROMIUM, "--headless", *FLAGS, "--dump-dom", site]
    page = subprocess.run(command, capture_output=True, check=True, timeout=120).stdout
    assert page.startswith(b"<html")
    assert shown_text(page) == TEXT.encode()
