"""Helpers for tests that open pages in Chromium, and check their accessibility with axe."""

from __future__ import annotations

import functools
import shutil
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")
"""The path of Chromium, or None. The headless shell starts in half the time."""

PATIENCE = 120_000
"""The time-out of the browser in milliseconds."""

IN_COLOURS = {"runOnly": ["color-contrast", "link-in-text-block"]}
"""The options of axe for the checks on colours. Another theme changes only the results of these checks."""

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip

# Returns a line for each violation that axe finds, with the id of the check and the HTML of the elements.
_AXE = """async (options) => {
    const result = await axe.run({ resultTypes: ["violations"], ...options });
    return result.violations.map((violation) => violation.id + " " +
        violation.nodes.map((node) => node.html.slice(0, 200)).join(" | "));
}"""

# The synchronous API of Playwright refuses to run in a thread with an event loop, and the tests run in such a thread.
THREAD = ThreadPoolExecutor(1)


def in_browser(test: Callable[..., None]) -> Callable[..., None]:
    """Decorate a test so that it runs in THREAD, the thread of the browser."""

    @functools.wraps(test)
    def run(**fixtures: Any) -> None:
        THREAD.submit(test, **fixtures).result()

    return run


def started() -> Iterator[Any]:
    """Start a browser, yield it, and stop it at the end. Fixtures use this generator. The test is skipped if Playwright
    or axe is not installed.
    """
    sync_api = pytest.importorskip("playwright.sync_api")
    pytest.importorskip("axe_playwright_python")

    def start() -> tuple[Any, Any]:
        sync_api.expect.set_options(timeout=PATIENCE)
        client = sync_api.sync_playwright().start()
        chromium = client.chromium
        return client, chromium.launch(
            executable_path=CHROMIUM, args=FLAGS, timeout=PATIENCE
        )

    client, browser = THREAD.submit(start).result()
    yield browser
    THREAD.submit(browser.close).result()
    THREAD.submit(client.stop).result()


def expect(locator: Any) -> Any:
    """Return Playwright's assertions about *locator*."""
    from playwright import sync_api  # noqa: PLC0415

    return sync_api.expect(locator)


def load_axe(page: Any) -> None:
    """Load axe, the accessibility checker, into *page*."""
    axe = files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")
    page.evaluate(axe + "\n;null")


def problems(page: Any, options: dict[str, Any]) -> list[str]:
    """Run axe with *options* in *page*, into which :func:`load_axe` has loaded it. Return a line for each violation."""
    violations: list[str] = page.evaluate(_AXE, options)
    return violations
