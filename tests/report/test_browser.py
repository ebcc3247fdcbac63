"""A report in a browser: sorting, filtering, reading, printing, and malicious text."""

from __future__ import annotations

import functools
import re
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

    def column(self, number: int) -> list[str]:
        cells = self.page.locator(f"#host-table tbody td:nth-child({number})")
        return cells.all_inner_texts()

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

    def open_report(
        name: str, *, scheme: str = "light", scripts: bool = True
    ) -> Opened:
        page = pages(scripts)
        page.set_viewport_size({"width": 1280, "height": 800})
        page.emulate_media(media="screen", color_scheme=scheme)
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
def test_sorting(opened: Callable[..., Opened]) -> None:
    """A click on a heading sorts by its column, a second click reverses the order."""
    report = opened("realistic")
    button = report.page.get_by_role("button", name="Host")
    button.click()
    ascending = report.hosts()
    assert ascending == sorted(ascending)
    button.click()
    assert report.hosts() == ascending[::-1]
    head = report.page.locator("#host-table thead th").first
    assert head.get_attribute("aria-sort") == "descending"
    assert report.page.locator("[aria-sort]").count() == 1


@in_browser
def test_numbers_are_sorted_as_such(opened: Callable[..., Opened]) -> None:
    """Numbers are sorted by value, greatest first, and ages by their length."""
    report = opened("realistic")
    report.page.get_by_role("button", name="Dropped").click()
    dropped = [int(text) for text in report.column(7)]
    assert dropped == sorted(dropped, reverse=True)
    assert dropped[0] > 0
    report.page.get_by_role("button", name="Age").click()
    assert report.column(3)[0].endswith("min")
    assert report.column(3)[-1] == "–"


@in_browser
def test_sorting_by_keyboard(opened: Callable[..., Opened]) -> None:
    """Tab reaches the headings, after the filter; Enter and Space sort."""
    report = opened("realistic")
    keys = report.page.keyboard
    report.page.get_by_label("robots.txt", exact=True).focus()
    keys.press("Tab")
    keys.press("Enter")
    assert report.hosts() == sorted(report.hosts())
    keys.press("Space")
    assert report.hosts() == sorted(report.hosts(), reverse=True)


@in_browser
def test_skip_link(opened: Callable[..., Opened]) -> None:
    """The first Tab shows a link that skips the navigation."""
    report = opened("realistic")
    report.page.keyboard.press("Tab")
    link = report.page.locator(":focus")
    assert link.inner_text() == "Skip to the report"
    sync_api.expect(link).to_be_in_viewport()
    report.page.keyboard.press("Enter")
    assert report.page.locator(":focus").get_attribute("id") == "main"


@in_browser
def test_filtering(opened: Callable[..., Opened]) -> None:
    """The table can be filtered by host, rule and outcome, and shows the count."""
    report = opened("realistic")
    text = report.page.get_by_label("Filter by host or rule")
    text.fill("SHOP")
    report.wait_for_count("1 of 10 hosts")
    assert report.hosts() == ["https://shop.example"]
    text.fill("example /*?print=")
    report.wait_for_count("5 of 10 hosts")
    text.fill("nothing like it")
    report.wait_for_count("0 of 10 hosts")
    text.fill("")
    report.wait_for_count("10 of 10 hosts")
    report.page.get_by_label("robots.txt", exact=True).select_option("unreachable")
    report.wait_for_count("2 of 10 hosts")
    assert report.page.locator("#filter-count").get_attribute("aria-live") == "polite"


@in_browser
def test_from_a_host_to_its_file(opened: Callable[..., Opened]) -> None:
    """A host links to its robots.txt, in which the deciding lines are marked and counted."""
    report = opened("realistic")
    report.page.get_by_role("link", name="https://library.example").click()
    line = report.page.locator("details[open] li.refused").first
    sync_api.expect(line).to_be_in_viewport()
    assert line.inner_text().startswith("Disallow: /private/ refused 67")
    assert line.get_attribute("value") == "3"


@in_browser
def test_from_a_host_to_its_refused_urls(opened: Callable[..., Opened]) -> None:
    """The count of refusals links to the URLs of the host, with the rule of each."""
    report = opened("realistic")
    row = report.page.locator("#host-table tbody tr", has_text="library.example")
    row.get_by_role("link", name="90").click()
    urls = report.page.locator("#urls details[open] tbody tr")
    sync_api.expect(urls.first).to_be_in_viewport()
    assert urls.count() == 20
    assert urls.first.inner_text().split("\t")[0] == "https://library.example/private/0"
    assert "line 3, Disallow: /private/" in urls.first.inner_text()
    more = report.page.locator("#urls details[open] .note")
    assert more.inner_text() == "70 more URLs not shown."


# The number of lines of the text of a cell.
LINES = """(cell) => {
    const range = document.createRange();
    range.selectNodeContents(cell);
    return range.getClientRects().length;
}"""


@in_browser
def test_words_and_dates_of_an_outage(opened: Callable[..., Opened]) -> None:
    """On a desktop screen, dates stay on one line, and words are not broken."""
    report = opened("outages")
    lines = """(cell) => {
        const range = document.createRange();
        const found = [];
        for (const match of cell.textContent.matchAll(/\\S+/g)) {
            range.setStart(cell.firstChild, match.index);
            range.setEnd(cell.firstChild, match.index + match[0].length);
            found.push(new Set([...range.getClientRects()].map((one) => one.top)).size);
        }
        return Math.max(...found);
    }"""
    cells = report.page.locator(".outages td")
    assert set(cells.evaluate_all(f"(cells) => cells.map({lines})")) == {1}
    dates = report.page.locator(".outages .when")
    assert [text.count(" to ") for text in dates.all_inner_texts()] == [1] * 4
    assert dates.evaluate_all(f"(cells) => cells.map({LINES})") == [1] * 4


@pytest.mark.parametrize("width", [390, 820, 1160, 1400])
@in_browser
def test_no_cell_covers_another(opened: Callable[..., Opened], width: int) -> None:
    """On any screen, the text of each cell stays in its cell, and host names in one line."""
    report = opened("realistic")
    report.page.set_viewport_size({"width": width, "height": 900})
    too_wide = """(cells) => cells.filter((cell) => {
        const range = document.createRange();
        range.selectNodeContents(cell);
        const [text, box] = [range, cell].map((one) => one.getBoundingClientRect());
        return text.width && box.width > 1 && (text.right > box.right + 1 || text.left < box.left - 1);
    }).map((cell) => cell.textContent)"""
    cells = report.page.locator("th:visible, td:visible")
    assert cells.evaluate_all(too_wide) == []
    # No host name is broken, either.
    names = report.page.locator("#host-table tbody th, .outages tbody th")
    lines = """(cells) => cells.map((cell) => {
        const range = document.createRange();
        range.selectNodeContents(cell);
        return new Set([...range.getClientRects()].map((one) => one.top)).size;
    })"""
    assert set(names.evaluate_all(lines)) == {1}


@in_browser
def test_one_bar_for_requests_and_one_for_what_was_dropped(
    opened: Callable[..., Opened],
) -> None:
    """The first bar has the requests: those let through, and those refused. The second one
    has what was withheld or marked of the pages that were let through.
    """
    report = opened("realistic")
    bars = report.page.locator("#glance .overview")
    shown = [bar.locator("desc").text_content() for bar in bars.all()]
    assert shown == [
        "let through 1,574, refused 687; also shown as figures below.",
        "dropped 91, annotated 6; also shown as figures below.",
    ]
    titles = report.page.locator("#glance h3").all_inner_texts()
    assert titles == [
        "Requests",
        "Items, links and files dropped or annotated",
        "Hosts",
    ]


@pytest.mark.parametrize(
    ("name", "widths"), [("brief", [1280, 360]), ("hostile", [360]), ("empty", [360])]
)
@in_browser
def test_accessible(
    opened: Callable[..., Opened], name: str, widths: list[int]
) -> None:
    """An accessibility check finds no problem in any view; nothing is wider than the screen."""
    report = opened(name)
    show_all = "document.querySelectorAll('details').forEach((one) => one.open = true)"
    report.page.evaluate(show_all)
    load_axe(report.page)
    for width in widths:
        report.page.set_viewport_size({"width": width, "height": 800})
        report.page.emulate_media(color_scheme="light")
        assert problems(report.page, {}) == []
        report.page.emulate_media(color_scheme="dark")
        assert problems(report.page, IN_COLOURS) == []
        assert report.page.evaluate("document.documentElement.scrollWidth") == width


KIND = re.compile(r'<(\w+)(?:[^<>]*? class="([^"]*)")?')


def test_brief_has_each_kind_of_element(reports: Callable[[str], Path]) -> None:
    """The brief report has each kind of element, so its checks hold for any report."""

    def kinds(name: str) -> set[Any]:
        return set(KIND.findall(reports(name).read_text("utf-8")))

    assert kinds("brief") == kinds("realistic") >= kinds("outages")


@in_browser
def test_printed(opened: Callable[..., Opened]) -> None:
    """In print, each robots.txt is expanded, on white, without controls."""
    report = opened("brief", scheme="dark")
    report.page.emulate_media(media="print")
    assert not report.page.locator("#filter").is_visible()
    background = "getComputedStyle(document.body).backgroundColor"
    assert report.page.evaluate(background) == "rgb(253, 253, 252)"
    height = "document.getElementById('r1').getBoundingClientRect().height"
    assert report.page.evaluate(height) > 100
    assert report.page.pdf().startswith(b"%PDF")


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
    report.wait_for_count("1 of 5 hosts")
    text = page.locator("body").inner_text()
    assert ledgers.MARKUP[:25] in text
    assert "\\x1b" in text
    assert "\\u202e" in text
    assert [
        each for each in text if not each.isprintable() and each not in "\n\t"
    ] == []


def processor_seconds(browser: Any) -> float:
    """Return the processor time of all processes of the browser."""
    session = browser.new_browser_cdp_session()
    found = session.send("SystemInfo.getProcessInfo")["processInfo"]
    session.detach()
    return sum(process["cpuTime"] for process in found)


@pytest.fixture
def large(reports: Callable[[str], Path]) -> Path:
    return reports("large")


@pytest.mark.slow
@in_browser
def test_many_decisions(
    opened: Callable[..., Opened], large: Path, browser: Any
) -> None:
    """A report of 30,000 decisions on 2,000 hosts stays small and fast."""
    assert large.stat().st_size < 4_000_000
    report = opened("large")
    before = processor_seconds(browser)
    report.page.get_by_label("Filter by host or rule").fill("host-17")
    report.wait_for_count("111 of 2,000 hosts")
    report.page.get_by_role("button", name="Host").click()
    shown = report.page.locator("#host-table tbody tr:not([hidden]) th")
    assert shown.first.inner_text() == "https://host-17.example"
    assert 0 < processor_seconds(browser) - before < 5
