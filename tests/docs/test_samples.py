"""Tests that each code sample of the documentation does what its page says."""

from __future__ import annotations

import doctest
import json
import re
import shlex
import shutil
import sys
from argparse import ArgumentParser
from base64 import b64decode
from configparser import ConfigParser
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request
from scrapy.http import HtmlResponse
from scrapy.settings import Settings, default_settings

from scrapy_rep import IndexingRules, UsagePreferences
from scrapy_rep.base import stats
from scrapy_rep.base.settings import DEFAULTS, RepSettings
from scrapy_rep.crawl.pages import stated
from scrapy_rep.tools.command import SUBCOMMANDS, RepCommand
from tests import forks
from tests.browser import CHROMIUM, FLAGS, PATIENCE
from tests.crawl import own_store
from tests.crawl.answers import Answer, html
from tests.crawl.server import Site
from tests.docs.pages import (
    PAGES,
    PROJECT,
    ROOT,
    Sample,
    environment,
    python_samples,
    samples,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.unmeasured


TESTED_LANGUAGES = {"python", "pycon", "console", "sh"}
OTHER_LANGUAGES = {"html", "json", "text", ""}
"""The languages of code blocks without code, such as a diagram or the output of a command. ``""`` is a block without a
language."""

FOREIGN_SETTINGS = re.compile(
    "ROBOTSTXT_FOLDER$|PLAYWRIGHT_|REDIS_|SCHEDULER_(PERSIST|DUPEFILTER_KEY)$"
)
"""Settings of other packages, which may not be installed, or of a project."""

SCRIPT = {"Content-Type": "text/javascript"}


def test_each_sample_is_in_a_language_that_is_tested() -> None:
    """A sample in another language would not be tested at all."""
    directives = {sample.language for sample in samples() if sample.language[:1] == "{"}
    assert {
        sample.language for sample in samples()
    } <= TESTED_LANGUAGES | OTHER_LANGUAGES | directives


@pytest.mark.parametrize("sample", python_samples("settings"), ids=str)
def test_settings_of_samples_exist_and_are_valid(sample: Sample) -> None:
    sample_settings: dict[str, Any] = {}
    exec(sample.code, sample_settings)
    del sample_settings["__builtins__"]
    for name in sample_settings:
        is_known = hasattr(default_settings, name) or name in DEFAULTS
        assert is_known or FOREIGN_SETTINGS.match(name), name
    importable = {
        name: value
        for name, value in sample_settings.items()
        if "myproject." not in str(value)
    }
    RepSettings(Settings(importable))
    for name in (
        "DOWNLOADER_MIDDLEWARES",
        "SPIDER_MIDDLEWARES",
        "EXTENSIONS",
        "ADDONS",
    ):
        for path in sample_settings.get(name, {}):
            assert find_spec(path.rpartition(".")[0]), path


@pytest.mark.parametrize("page", sorted({sample.page for sample in samples("pycon")}))
def test_interactive_sessions_print_the_shown_output(page: str) -> None:
    results = doctest.testfile(
        str(ROOT / page), module_relative=False, encoding="utf-8"
    )
    assert results.attempted
    assert not results.failed


@pytest.mark.parametrize("sample", python_samples("code"), ids=str)
def test_code_samples_run(sample: Sample, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample can use the variables ``body``, a robots.txt, and ``response``, and the modules of a project
    ``myproject``.
    """
    for name in ("myproject", "myproject.stores"):
        monkeypatch.setitem(sys.modules, name, own_store)
    body = b"User-agent: *\nDisallow: /private/\nDisalow: /tmp/\n"
    response = HtmlResponse("https://example.com/")
    page = UsagePreferences.parse(headers=[("Content-Usage", b"train-ai=n")], html=b"")
    stated.note(Request(response.url), response, (IndexingRules(), page))
    exec(sample.code, {"body": body, "response": response})


@pytest.fixture(scope="module")
def crawl_results(
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Any]:
    """Run all spiders of the documentation against the example site. Return a dict that maps each sample, such as
    "README.md:12", to the items and stats of its spider. The key "log" has the log of all spiders.
    """
    folder = tmp_path_factory.mktemp("samples")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(PROJECT))
        from demo.offline.server import Site  # noqa: PLC0415
    site = Site()
    files = {}
    for number, sample in enumerate(spiders()):
        files[str(sample)] = file = folder / f"sample{number}.py"
        # The example site has no TLS, and its robots.txt files name another crawler.
        code = sample.code.replace("https://", "http://").replace("mybot", "demobot")
        file.write_text(code, encoding="utf-8")
    process = forks.run(
        ["tests.docs.crawl_samples", site.address, *map(str, files.values())],
        cwd=folder,
        env=environment(),
    )
    site.stop()
    log = process.stderr.decode()
    assert process.returncode == 0, log
    results_by_path = {
        line["file"]: line for line in map(json.loads, process.stdout.splitlines())
    }
    return {
        "log": log,
        **{name: results_by_path[str(file)] for name, file in files.items()},
    }


def spiders() -> list[Sample]:
    """Return the samples with a spider that crawls hosts of the example site, and needs no browser."""
    return [
        sample
        for sample in python_samples("spider")
        if "localhost" not in sample.code and "PLAYWRIGHT" not in sample.code
    ]


@pytest.mark.parametrize("sample", spiders(), ids=str)
def test_spiders_crawl_without_an_error(
    crawl_results: dict[str, Any], sample: Sample
) -> None:
    """All items that a spider makes are in its feed. If a spider makes no items, robots.txt has refused a request."""
    result = crawl_results[str(sample)]
    stats = result["stats"]
    reason = "finished" if result["items"] else "robots_denied"
    assert stats["finish_reason"] == reason
    assert "log_count/ERROR" not in stats
    assert len(result["items"]) == stats.get("item_scraped_count", 0)
    assert result["items"] if "yield {" in sample.code else stats["robotstxt/forbidden"]


def test_spiders_make_the_items_that_the_pages_describe(
    crawl_results: dict[str, Any],
) -> None:
    """The spider of ``archive.md`` also stores pages with noindex, with their content and rules. The spider of
    ``data-set.md`` stores only pages that allow training or state nothing about it. If a page of the documentation
    shows an item as JSON, the spider that makes the item makes no other items.
    """
    results = {
        (sample.page, *re.findall(r'name = "(\w+)"', sample.code)): crawl_results[
            str(sample)
        ]
        for sample in spiders()
    }
    archive_items = results["docs/howto/archive.md", "archive"]["items"]
    items = {item["url"]: item for item in archive_items}
    page = items["http://press.example/archive.html"]
    assert (page["robots"]["index"], page["noarchive"]) == (False, False)
    assert b'content="noindex"' in b64decode(page["body"])
    file = items["http://press.example/paper.pdf"]
    assert ["X-Robots-Tag", "noindex, nofollow"] in file["headers"]
    items = results["docs/howto/data-set.md", "corpus"]["items"]
    assert {item["train-ai"] for item in items} == {True, None}
    assert all(item["text"].strip() for item in items)
    for sample in samples("json"):
        if sample.mark:
            expected = json.loads(sample.code.replace("https://", "http://"))
            name = sample.mark.removeprefix("items: ")
            assert results[sample.page, name]["items"] == [expected], sample


def test_log_lines_of_the_pages_are_in_the_logs_of_the_spiders(
    crawl_results: dict[str, Any],
) -> None:
    """The log of the sample spiders contains each log line that the documentation shows for them, and the line that the
    signal handler in docs/reference/signals.md logs.
    """
    assert " http://shop.example/basket/: Disallow: /basket/\n" in crawl_results["log"]
    for sample in samples("text"):
        if sample.mark == "log":
            code = sample.code.replace("https://", "http://")
            for line in code.replace("mybot", "demobot").splitlines():
                assert line in crawl_results["log"], sample


@pytest.mark.slow
def test_log_lines_of_the_demo_are_in_its_log(tmp_path: Path) -> None:
    """The log of a real run contains each log line of the demo that the documentation shows. The example URL at the end
    of a line can differ.
    """
    project = shutil.copytree(PROJECT, tmp_path / "project")
    command = ["scrapy", "crawl", "demo", "-s", "LOG_LEVEL=INFO"]
    process = forks.run(command, cwd=project, env=environment())
    log = (process.stdout + process.stderr).decode()
    log_samples = [
        sample.code for sample in samples("text") if sample.mark == "log of the demo"
    ]
    assert log_samples
    for line in "".join(log_samples).splitlines():
        level, _, message = line.partition(": ")
        assert f"] {level}: {message.partition('Example: ')[0]}" in log


@pytest.mark.newest
@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="There is no Chromium")
def test_the_spider_of_the_page_on_browsers_sends_nothing_forbidden(
    tmp_path: Path,
) -> None:
    """The spider of the page about browsers follows links, and Chromium requests nothing that
    robots.txt forbids. The log has the lines that the page shows.
    """
    pytest.importorskip("scrapy_playwright")
    page = "docs/howto/browsers.md"
    [spider] = (
        sample.code for sample in python_samples("spider") if sample.page == page
    )
    [lines] = (sample.code for sample in samples("text") if sample.page == page)
    with Site() as site:
        host = site.add("User-agent: *\nDisallow: /private\n")
        host.answers |= {
            "/": html(
                '<script src="/private/track.js"></script><a href="/tea">Tea</a>',
                head="<title>A page</title>",
            ),
            "/private/track.js": Answer(b"fetch('/more')", headers=SCRIPT),
            "/tea": html("<script>document.title = 'Tea'</script>"),
        }
        host_of_test = ("https://shop.example/", host.url("/"))
        (tmp_path / "browser.py").write_text(spider.replace(*host_of_test))
        command = ["scrapy", "runspider", "browser.py", "-O", "pages.json"]
        launch = {"executable_path": CHROMIUM, "args": FLAGS, "timeout": PATIENCE}
        command += ["-s", f"PLAYWRIGHT_LAUNCH_OPTIONS={json.dumps(launch)}"]
        process = forks.run(command, cwd=tmp_path, env=environment())
        log = process.stderr.decode()
        assert sorted(host.pages) == ["/", "/tea"], log
    assert "'rep/browser/aborted': 1" in log
    assert "ERROR" not in log
    for line in lines.replace(*host_of_test).splitlines():
        assert line in log
    items = json.loads((tmp_path / "pages.json").read_text())
    assert [item["title"] for item in items] == ["A page", "Tea"]


def command_lines() -> Iterator[tuple[str, str]]:
    """Yield each command line of the pages that no other test runs, and the name of its sample."""
    for sample in samples("sh"):
        if sample.mark == "make":  # Another test runs it.
            continue
        code = re.sub(r' "\n(.*?)"$', "", sample.code, flags=re.DOTALL | re.MULTILINE)
        for line in code.splitlines():
            yield str(sample), line.partition("  #")[0]
    for sample in samples("console"):
        if sample.mark != "run":  # Another test runs the samples with this mark.
            yield str(sample), sample.code.partition("\n")[0].removeprefix("$ ")


@pytest.mark.parametrize(("sample", "line"), list(command_lines()))
def test_command_lines_are_valid(sample: str, line: str) -> None:
    """The subcommand, options, module, file or extra of each command line must exist."""
    setup = ConfigParser(interpolation=None)
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    match shlex.split(line):
        case ["scrapy", "rep", subcommand, *arguments]:
            assert subcommand in SUBCOMMANDS
            parser = ArgumentParser(conflict_handler="resolve")
            command = RepCommand()
            command.settings = Settings()
            command.add_options(parser)
            options, rest = parser.parse_known_args([subcommand, *arguments])
            command.process_options(rest, options)
        case ["scrapy", "runspider" | "crawl", *_]:
            pass
        case ["pip", "install", *names]:
            extras = re.findall(r"\[(\w+)\]", " ".join(names))
            assert set(extras) <= set(setup["options.extras_require"])
        case ["python3", "dev.py", command]:
            assert f'case ["{command}", *rest]' in (ROOT / "dev.py").read_text()
        case ["python" | "python3", "-m", module, *_]:
            assert find_spec(module)
        case ["python", path] if path.endswith(".py"):
            assert (ROOT / path).exists()
        case [".", ".venv/bin/activate"] | ["cd", "scrapy-rep"]:
            pass
        case ["git", "clone", "URL", "scrapy-rep"]:  # There is no public address yet.
            pass
        case ["sqlite3" | "playwright" | "sha256sum" | "scrapyd-deploy" | "curl", *_]:
            pass
        case other:
            pytest.fail(f"{sample}: {other}")


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_settings_stats_and_python_names_on_the_pages_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for name in re.findall(r"\bREP_[A-Z_]+\b(?!\*)", text):
        assert name.rstrip("_") in DEFAULTS, name
    keys = [value for name, value in vars(stats).items() if name.isupper()]
    patterns = [re.sub(r"\\{\w+\\}", r"[\\w{}.-]+", re.escape(key)) for key in keys]
    for key in re.findall(r"[`'](rep/[\w/{}-]+)[`']", text):
        assert any(re.fullmatch(pattern, key) for pattern in patterns), key
    for path in re.findall(r"\bscrapy_rep(?:\.\w+)+\b", text):
        module, _, name = path.rpartition(".")
        spec = find_spec(module)
        assert spec, path
        exists = hasattr(import_module(module), name) or find_spec(path)
        assert exists, path
