"""The browser of the tests."""

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
"""Milliseconds to wait for the browser."""

IN_COLOURS = {"runOnly": ["color-contrast", "link-in-text-block"]}
"""The checks on colours, since a theme changes only these."""

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip

# Each line says what the accessibility check found, and where.
_AXE = """async (options) => {
    const result = await axe.run({ resultTypes: ["violations"], ...options });
    return result.violations.map((violation) => violation.id + " " +
        violation.nodes.map((node) => node.html.slice(0, 200)).join(" | "));
}"""

# The tests run inside an event loop, and this client of the browser refuses to run in
# the thread of one.
THREAD = ThreadPoolExecutor(1)


def in_browser(test: Callable[..., None]) -> Callable[..., None]:
    """Run a test in the thread of the browser."""

    @functools.wraps(test)
    def run(**fixtures: Any) -> None:
        THREAD.submit(test, **fixtures).result()

    return run


def started() -> Iterator[Any]:
    """Yield a browser that is started, and end it. For a fixture. The test is skipped without its packages."""
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
    """Load the accessibility check into a page."""
    axe = files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")
    page.evaluate(axe + "\n;null")


def problems(page: Any, options: dict[str, Any]) -> list[str]:
    """Return what the accessibility check finds in a page into which it is loaded."""
    violations: list[str] = page.evaluate(_AXE, options)
    return violations
