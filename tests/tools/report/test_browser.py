"""Tests of a report in a browser: sorting, filtering, readability, and malicious text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import scrapy_rep.tools.report.command  # noqa: F401  The coverage of an import inside these tests is not measured.
from tests.browser import (
    CHROMIUM,
    IN_COLOURS,
    PATIENCE,
    expect,
    in_browser,
    load_axe,
    problems,
    started,
)
from tests.tools.rep import execute
from tests.tools.report import ledgers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.skipif(not CHROMIUM, reason="there is no chromium"),
    pytest.mark.unmeasured,
    pytest.mark.slow,
]


KEEP_THREE_ROWS_OF_A_KIND = """() => {
    const counts = {};
    document.querySelectorAll("tbody tr, li").forEach((row) => {
        const kind = [row.closest("section")?.id, row.tagName, row.className].join(" ");
        counts[kind] = (counts[kind] || 0) + 1;
        if (counts[kind] > 3) row.remove();
    });
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Yield a running Chromium."""
    yield from started()


def open_report(
    browser: Any, folder: Path, *paths: str, scripts: bool = True
) -> tuple[Any, list[str]]:
    """Write the report of the ledgers at *paths* and open it. Return the page, and a list to which
    each requested URL, log line, error and dialog of the page is added. *scripts* says whether
    JavaScript is enabled.
    """
    html = folder / "report.html"
    assert execute(["report", *paths, "-o", str(html)], {}) == 0
    page, events = browser.new_context(java_script_enabled=scripts).new_page(), []
    page.set_default_timeout(PATIENCE)
    page.on("request", lambda request: events.append(request.url))
    page.on("console", lambda message: events.append(message.text))
    page.on("pageerror", lambda error: events.append(str(error)))
    page.on("dialog", lambda dialog: events.append(dialog.message))
    page.goto(html.as_uri())
    return page, events


@in_browser
def test_a_report_can_be_sorted_filtered_and_read_without_scripts(
    browser: Any, tmp_path: Path
) -> None:
    """The table of hosts can be sorted and filtered. A link into closed details opens them. Nothing
    is wider than the screen, and an accessibility check finds no problem in any section. Without
    scripts, everything is readable, and the controls that need scripts are hidden. The page
    requests nothing but itself.
    """
    paths = (
        ledgers.write_eventful_ledger(tmp_path / "one"),
        ledgers.write_measured_ledger(tmp_path / "two"),
    )
    page, events = open_report(browser, tmp_path, *paths)
    page.evaluate("location.hash = '#r1'")
    page.locator("#r1").wait_for(state="visible")
    page.evaluate(
        "document.querySelectorAll('details').forEach((details) => details.open = true)"
    )
    hosts = page.locator("#host-table tbody tr:visible th")
    button = page.get_by_role("button", name="Host")
    button.click()
    ascending = hosts.all_inner_texts()
    assert ascending == sorted(ascending)
    button.click()
    assert hosts.all_inner_texts() == ascending[::-1]
    head = page.locator("#host-table [aria-sort]")
    assert head.get_attribute("aria-sort") == "descending"
    count = expect(page.locator("#filter-count"))
    text = page.get_by_label("Filter by host or rule")
    for typed, number in (
        ("SHOP", 1),
        ("example /*?print=", 2),
        ("nothing", 0),
        ("", 18),
    ):
        text.fill(typed)
        count.to_have_text(f"{number} of 18 hosts")
        assert hosts.count() == number
    page.get_by_label("robots.txt", exact=True).select_option("unreachable")
    count.to_have_text("2 of 18 hosts")
    for width in (820, 1400, 390):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") == width
    # The accessibility check takes seconds, most of them for colours. So only the narrowest
    # screen is checked, which has the smallest targets.
    page.evaluate(KEEP_THREE_ROWS_OF_A_KIND)
    load_axe(page)
    assert problems(page, {}) == []
    page.emulate_media(color_scheme="dark")
    assert problems(page, IN_COLOURS) == []
    assert [line[:5] for line in events] == ["file:"]
    page, _ = open_report(browser, tmp_path, paths[1], scripts=False)
    assert page.locator("#host-table tbody tr:visible th").count() == 7
    assert not page.locator("#filter").is_visible()
    assert page.locator("#host-table button").count() == 0
    page.locator("#files summary").first.click()
    assert page.locator("li.refused").first.is_visible()


@in_browser
def test_hostile_text_adds_no_element_and_runs_no_script(
    browser: Any, tmp_path: Path
) -> None:
    """No link in the report leads to another page. Control characters are shown as escapes."""
    page, events = open_report(
        browser, tmp_path, ledgers.write_hostile_ledger(tmp_path / "ledger")
    )
    assert page.locator("script").count() == page.locator("style").count() == 1
    assert page.locator("img, iframe, object, form:not(#filter)").count() == 0
    links = page.locator("a").evaluate_all("all => all.map((a) => a.protocol)")
    assert set(links) == {"file:"}
    page.get_by_role("button", name="Host").click()
    page.get_by_label("Filter by host or rule").fill("__proto__")
    expect(page.locator("#filter-count")).to_have_text("1 of 6 hosts")
    text = page.locator("body").inner_text()
    for words in (ledgers.MARKUP[:25], "\\x1b", "\\u202e"):
        assert words in text
    assert text.replace("\n", "").replace("\t", "").isprintable()
    assert [line[:5] for line in events] == ["file:"]
