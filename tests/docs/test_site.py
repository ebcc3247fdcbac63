"""Tests that the documentation site builds without a warning, is readable in a browser, and covers
the code.
"""

from __future__ import annotations

import ast
import html
import posixpath
import re
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from typing import TYPE_CHECKING, Any

import pytest

import scrapy_rep
from scrapy_rep.base import settings
from scrapy_rep.protocol.dialect import Dialect
from tests.browser import (
    CHROMIUM,
    IN_COLOURS,
    PATIENCE,
    in_browser,
    load_axe,
    problems,
    started,
)
from tests.docs.pages import DOCS, PAGES, environment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import ModuleType

pytestmark = pytest.mark.unmeasured

pytest.importorskip("sphinx")

from sphinx.util.inventory import InventoryFile

SPLIT_NAMES = """[...document.querySelectorAll("td code .pre")]
    .filter((name) => name.getClientRects().length > 1).map((name) => name.textContent)"""
"""JavaScript that returns the names in tables that are split into several lines."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site, with warnings as errors, and return its folder."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-j", "1"]
    command += ["-d", f"{folder}.doctrees", str(DOCS), str(folder)]
    process = subprocess.run(
        command, check=False, capture_output=True, text=True, env=environment()
    )
    assert process.returncode == 0, process.stderr
    return folder


@pytest.fixture(scope="module")
def logmessages() -> ModuleType:
    """Return the Sphinx extension that collects the log messages from the code."""
    path = DOCS / "_ext" / "logmessages.py"
    spec = spec_from_file_location("logmessages", path)
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def messages(logmessages: ModuleType) -> list[Any]:
    """Return all log messages of the package."""
    return logmessages.messages()


@pytest.mark.slow
def test_the_site_has_each_page_public_name_and_log_message(
    site: Path, messages: list[Any]
) -> None:
    """The API page has each public name and each field of Dialect; the page of log messages has
    each message.
    """
    for page in PAGES[1:]:
        assert (site / page.relative_to(DOCS)).with_suffix(".html").exists()
    api = (site / "reference" / "api.html").read_text(encoding="utf-8")
    dialects = {"CLASSIC", "GOOGLE", "RFC9309"}
    errors = {name for name in scrapy_rep.__all__ if name.endswith("Denied")}
    for name in set(scrapy_rep.__all__) - dialects - errors:
        assert f'id="scrapy_rep.{name}"' in api, name
    for name in Dialect.__dataclass_fields__:
        assert f'id="scrapy_rep.Dialect.{name}"' in api, name
    ids = re.findall(r'id="scrapy_rep\.RobotsTxt\.(\w+)"', api)
    assert ids[:3] == ["parse", "decide", "is_allowed"]
    log = html.unescape((site / "reference" / "log.html").read_text(encoding="utf-8"))
    for message in messages:
        assert message.text in log


def test_each_setting_is_a_link_target_and_is_linked(site: Path) -> None:
    """Other documentation can link to each setting. Where a page names a setting of this package or
    of Scrapy, the name is a link.
    """
    with (site / "objects.inv").open("rb") as file:
        inventory = InventoryFile.load(file, "", posixpath.join)["std:setting"]
    assert set(inventory) == {setting.name for setting in settings.SETTINGS.values()}
    page = (site / "waiting.html").read_text(encoding="utf-8")
    assert 'href="reference/settings.html#rep-wait-timeout"' in page
    scrapy = "https://docs.scrapy.org/en/latest/topics/settings.html"
    assert f'href="{scrapy}#std-setting-CONCURRENT_REQUESTS_PER_DOMAIN"' in page


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Yield a running Chromium."""
    yield from started()


@pytest.mark.slow
@pytest.mark.skipif(not CHROMIUM, reason="there is no chromium")
@in_browser
def test_the_site_is_readable_in_each_colour_scheme_and_width(
    site: Path, browser: Any
) -> None:
    """The site follows the colour scheme of the system, light or dark, with enough contrast for all
    text. No page is wider than a phone. On a wide screen, no table splits a name.
    """
    page = browser.new_page(viewport={"width": 390, "height": 800})
    page.set_default_timeout(PATIENCE)
    for name in ("index", "genindex", "reference/api", "howto/migrate", "stores"):
        page.goto((site / f"{name}.html").as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") == 390, name
    load_axe(page)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        colours = page.evaluate("getComputedStyle(document.body).backgroundColor")
        brightness = sum(map(int, re.findall(r"\d+", colours)[:3])) / 3
        assert (brightness < 128) == (scheme == "dark")
        assert problems(page, IN_COLOURS) == []
    page.set_viewport_size({"width": 1400, "height": 900})
    for name in ("stats", "exceptions", "settings", "../usage"):
        page.goto((site / "reference" / f"{name}.html").as_uri())
        assert page.evaluate(SPLIT_NAMES) == [], name
    page.close()


@pytest.mark.slow
@pytest.mark.skipif(not CHROMIUM, reason="there is no chromium")
@pytest.mark.parametrize("symptom", ["no items", "hangs", "refused"])
@in_browser
def test_a_search_for_a_symptom_finds_its_page_first(
    site: Path, browser: Any, symptom: str
) -> None:
    """A search for a symptom of a crawl lists the page about causes first."""
    page = browser.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(f"{(site / 'search.html').as_uri()}?q={symptom}")
    first = page.locator("#search-results li > a").first
    first.wait_for()
    page.locator("#search-results .search-summary").wait_for()
    assert first.get_attribute("href") == "howto/why.html#index-0"
    page.close()


def is_logging_call(node: ast.AST) -> bool:
    """Return whether *node* is a call of a method of ``logger``."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="logger"))):
            return True
    return False


def test_each_logging_call_is_found(
    logmessages: ModuleType, messages: list[Any]
) -> None:
    """The extension finds each logging call with its message, except for calls that only pass on a
    message.
    """
    loggers = {message.logger for message in messages}
    logs_a_message = re.compile(
        r"logger\.(?!(log|warning)\((\*|level|message))"
        r"(debug|info|warning|error|exception|critical|log)\("
    )
    for path in logmessages.PACKAGE.rglob("*.py"):
        name = ".".join(
            path.relative_to(logmessages.PACKAGE.parent).with_suffix("").parts
        )
        source = path.read_text(encoding="utf-8")
        nodes = ast.walk(ast.parse(source)) if "logger" in source else ()
        for node in nodes:
            call = ast.unparse(node) if is_logging_call(node) else ""
            assert name in loggers or not logs_a_message.match(call), call
    texts = {(message.level, message.text.partition(":")[0]) for message in messages}
    assert ("info", "%(path)s can be written again, and contains all changes") in texts
    assert ("error", "The crawl stops") in texts
