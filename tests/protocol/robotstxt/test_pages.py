"""HTML in place of a robots.txt: what a browser makes of plain text, and pages."""

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
    "Chromium, with the place for formatted JSON": (
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
    "one that is cut off": CHROMIUM_BEFORE + ESCAPED,
}


@pytest.mark.parametrize("page", SHOWN.values(), ids=SHOWN)
def test_text_in_a_browsers_page_is_a_robots_txt(page: str) -> None:
    """A robots.txt that comes through a browser is the text in the page, in each dialect, with the
    numbers of its lines; it is no HTML page.
    """
    body = page.encode()
    assert shown_text(body) == TEXT.encode()
    assert not is_page(body)
    for dialect in DIALECTS:
        robots, of_text = RobotsTxt.parse(body, dialect), RobotsTxt.parse(TEXT, dialect)
        for path in ("/", "/search?q=1&copy=2", "/caf%C3%A9/%3Cx%3E", "/a%C2%A0b"):
            url = f"https://example.com{path}"
            decision = of_text.decide(url, "mybot")
            assert robots.decide(url, "mybot") == decision
            assert decision.allowed is (path == "/")
            first = RobotsTxt.parse(body, dialect)
            assert first.is_allowed(url, "mybot") is decision.allowed
        assert robots.crawl_delay("mybot") == of_text.crawl_delay("mybot")
        assert robots.sitemaps == ("https://example.com/map.xml?a=1&b=2",)
        assert text_lines(body, dialect) == TEXT.splitlines()
        assert lint(body, dialect) == lint(TEXT, dialect)


def test_an_empty_robots_txt_in_a_browser_is_an_empty_page() -> None:
    """An empty robots.txt is an empty page."""
    body = b"<html><head></head><body></body></html>\n"
    assert shown_text(body) == b""
    assert not is_page(body)


RULES = "User-agent: *\nDisallow: /"
OTHERS = {
    "a page with more": f"<html><head></head><body><pre>{RULES}</pre><p>x</p></body></html>",
    "a page with text before": f"<html><head></head><body>x<pre>{RULES}{END}",
    "a page with elements in it": f"<html><head></head><body><pre><b>{RULES}</b>{END}",
    "a page with a title": f"<html><head><title>x</title></head><body><pre>{RULES}{END}",
    "a page with a script": f"<html><head><script>x</script></head><body><pre>{RULES}{END}",
    "a page with much behind": f"<html><head></head><body><pre>{RULES}</pre>{' ' * 5_000}</body></html>",
    "a challenge": "<!DOCTYPE html><html lang=en><head><title>Just a moment...</title></head></html>",
    "a comment": "<!-- x --><html></html>",
    "a head": "\n<head><meta charset=utf-8></head>",
    "a script": "<script src=/challenge.js></script>",
}


@pytest.mark.parametrize("page", OTHERS.values(), ids=OTHERS)
def test_any_other_page_is_read_line_by_line(page: str) -> None:
    """Any other page is a page, which is read line by line, as a robots.txt is."""
    body = page.encode()
    assert shown_text(body) is None
    assert is_page(body)
    assert text_lines(body, RFC9309) == page.splitlines()


def test_a_robots_txt_is_no_page() -> None:
    """A robots.txt is no page, whatever a line of it is."""
    for text in ("", RULES, f"{RULES}\n<html>", "<a>", "# <html>"):
        assert not is_page(text.encode())
        assert shown_text(text.encode()) is None


def test_character_references_are_decoded_once() -> None:
    """References that a serializer writes are decoded once. Others, and numbers that are no
    character, change nothing else.
    """
    written = "&amp;lt; &copy &copy; &#65; &#x41; &#0; &#9999999; &#xD800; &" + "#" * 9
    text = shown_text((CHROMIUM_BEFORE + written + END).encode())
    assert text is not None
    assert text.decode().startswith("&lt; &copy &copy; A A \ufffd")
    assert text.endswith(b"&" + b"#" * 9)


def test_a_long_page_is_read_up_to_its_last_whole_line() -> None:
    """Of a long page, the part within the size limit is read, up to its last whole line."""
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
    "white space behind": lambda size: CHROMIUM_BEFORE + "</pre>" + " " * size,
    "elements behind": lambda size: CHROMIUM_BEFORE + "</pre>" + "<div></div>" * (size // 11),
}  # fmt: skip


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE)
def test_a_page_takes_time_in_proportion_to_its_size(
    make: Callable[[int], str],
) -> None:
    """The time to read a page grows in proportion to its size."""
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
def test_what_chromium_makes_of_a_robots_txt_is_read_as_its_text(site: str) -> None:
    """The page that Chromium makes of a robots.txt is read as its text."""
    assert CHROMIUM is not None
    command = [CHROMIUM, "--headless", *FLAGS, "--dump-dom", site]
    page = subprocess.run(command, capture_output=True, check=True, timeout=120).stdout
    assert page.startswith(b"<html")
    assert shown_text(page) == TEXT.encode()
