"""A report in a browser: sorting, filtering, reading, printing, and malicious text."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser import (
    CHROMIUM,
    IN_COLOURS,
    PATIENCE,
    THREAD,
    in_browser,
    load_axe,
    problems,
    started,
)
from tests.report import ledgers
from tests.report.making import make_report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

sync_api = pytest.importorskip("playwright.sync_api")
pytest.importorskip("axe_playwright_python")

pytestmark = [
    pytest.mark.skipif(not CHROMIUM, reason="there is no chromium"),
    pytest.mark.unmeasured,
    pytest.mark.slow,
]


class Opened:
    """A report that is open in a page, with the events of the page."""

    def __init__(self, page: Any, path: Path) -> None:
        self.page = page
        self.requests: list[str] = []
        self.said: list[str] = []
        self.listeners: dict[str, Callable[[Any], None]] = {
            "request": lambda request: self.requests.append(request.url),
            "console": lambda message: self.said.append(message.text),
            "pageerror": lambda error: self.said.append(str(error)),
            "dialog": lambda dialog: self.said.append(dialog.message),
        }
        for event, listener in self.listeners.items():
            page.on(event, listener)
        page.goto(path.as_uri())

    def leave(self) -> None:
        """Reset the page for the next test."""
        for event, listener in self.listeners.items():
            self.page.remove_listener(event, listener)

    def hosts(self) -> list[str]:
        return self.page.locator("#host-table tbody tr:visible th").all_inner_texts()

    def wait_for_count(self, text: str) -> None:
        sync_api.expect(self.page.locator("#filter-count")).to_have_text(text)


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The report of each ledger, by name; made on first use."""
    folder = tmp_path_factory.mktemp("reports")
    return functools.cache(lambda name: make_report(folder, getattr(ledgers, name)))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    yield from started()


@pytest.fixture(scope="module")
def pages(browser: Any) -> Callable[[bool], Any]:
    """Pages with and without scripts; opened on first use."""

    def make(scripts: bool) -> Any:
        page = browser.new_context(java_script_enabled=scripts).new_page()
        page.set_default_timeout(PATIENCE)
        return page

    return functools.cache(make)


@pytest.fixture
def opened(
    pages: Callable[[bool], Any], reports: Callable[[str], Path]
) -> Iterator[Callable[..., Opened]]:
    """Open a report, by default on a light screen, 1,280 pixels wide.

    After each test, the page must not have requested or logged anything.
    """
    all_opened: list[Opened] = []

    def open_report(name: str, *, scripts: bool = True) -> Opened:
        page = pages(scripts)
        page.set_viewport_size({"width": 1280, "height": 800})
        page.emulate_media(media="screen", color_scheme="light")
        all_opened.append(Opened(page, reports(name)))
        return all_opened[-1]

    def leave() -> None:
        for report in all_opened:
            report.leave()

    yield open_report
    THREAD.submit(leave).result()
    for report in all_opened:
        assert report.said == []
        assert [url[:5] for url in report.requests] == ["file:"]


@in_browser
def test_sorting_and_filtering(opened: Callable[..., Opened]) -> None:
    """A click on a heading sorts by its column, a second click reverses the order. The table can
    be filtered by host, rule and outcome, and shows the count.
    """
    report = opened("realistic")
    page = report.page
    button = page.get_by_role("button", name="Host")
    button.click()
    ascending = report.hosts()
    assert ascending == sorted(ascending)
    button.click()
    assert report.hosts() == ascending[::-1]
    head = page.locator("#host-table thead th").first
    assert head.get_attribute("aria-sort") == "descending"
    assert page.locator("[aria-sort]").count() == 1
    text = page.get_by_label("Filter by host or rule")
    for typed, number in (
        ("SHOP", 1), ("example /*?print=", 5), ("nothing like it", 0), ("", 10),
    ):  # fmt: skip
        text.fill(typed)
        report.wait_for_count(f"{number} of 10 hosts")
        assert len(report.hosts()) == number
    page.get_by_label("robots.txt", exact=True).select_option("unreachable")
    report.wait_for_count("2 of 10 hosts")
    assert page.locator("#filter-count").get_attribute("aria-live") == "polite"


@in_browser
def test_accessible(opened: Callable[..., Opened]) -> None:
    """An accessibility check finds no problem in any section; nothing is wider than the screen."""
    page = opened("everything").page
    show_all = "document.querySelectorAll('details').forEach((one) => one.open = true)"
    page.evaluate(show_all)
    load_axe(page)
    for width in (360, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        assert problems(page, {}) == []
        assert page.evaluate("document.documentElement.scrollWidth") == width
    page.emulate_media(color_scheme="dark")
    assert problems(page, IN_COLOURS) == []


@pytest.mark.parametrize(
    ("name", "width", "longest"),
    [("measured", 390, 8000), ("crowded", 390, 10_000), ("crowded", 1400, 7500)],
)
@in_browser
def test_not_too_long(
    opened: Callable[..., Opened], name: str, width: int, longest: int
) -> None:
    """Before one opens details, the page is not long, and has the answers at its beginning."""
    page = opened(name).page
    page.set_viewport_size({"width": width, "height": 900})
    assert page.evaluate("document.documentElement.scrollHeight") <= longest
    assert page.evaluate("document.documentElement.scrollWidth") == width
    (answers,) = page.locator("#answers").all()
    assert answers.bounding_box()["y"] < 700
    assert answers.locator("dd").count() == 5


@in_browser
def test_names_are_not_split(opened: Callable[..., Opened]) -> None:
    """On a wide screen, names of 40 characters stand on one line in all tables."""
    page = opened("measured").page
    page.set_viewport_size({"width": 1400, "height": 900})
    names = page.locator(".hosts tbody th, .cards tbody th")
    split = """all => all.filter((one) => {
        const range = document.createRange();
        range.selectNodeContents(one);
        const tops = Array.from(range.getClientRects(), (box) => Math.round(box.top / 9));
        return new Set(tops).size > 1;
    }).map((one) => one.textContent)"""
    assert names.count() > 20
    assert names.evaluate_all(split) == []


@in_browser
def test_a_link_into_closed_details(opened: Callable[..., Opened]) -> None:
    """A link to a host that is behind two summaries opens both."""
    page = opened("crowded").page
    page.evaluate("location.hash = '#r30'")
    page.locator("#r30").wait_for(state="visible")


@in_browser
def test_without_scripts(opened: Callable[..., Opened]) -> None:
    """Without scripts, all text is readable, and controls that need scripts are absent."""
    report = opened("realistic", scripts=False)
    assert len(report.hosts()) == 10
    assert not report.page.locator("#filter").is_visible()
    assert report.page.locator("#host-table button").count() == 0
    report.page.locator("#files summary").first.click()
    assert report.page.locator("li.refused").first.is_visible()


@in_browser
def test_hostile(opened: Callable[..., Opened]) -> None:
    """Text of others adds no element, runs no script and links nowhere."""
    report = opened("hostile")
    page = report.page
    assert page.locator("script").count() == 1
    assert page.locator("style").count() == 1
    assert page.locator("img, iframe, object, form:not(#filter)").count() == 0
    links = page.locator("a").evaluate_all("all => all.map((a) => a.protocol)")
    assert set(links) == {"file:"}
    page.get_by_role("button", name="Host").click()
    page.get_by_label("Filter by host or rule").fill("__proto__")
    report.wait_for_count("1 of 6 hosts")
    text = page.locator("body").inner_text()
    assert ledgers.MARKUP[:25] in text
    assert "\\x1b" in text
    assert "\\u202e" in text
    assert [
        each for each in text if not each.isprintable() and each not in "\n\t"
    ] == []
