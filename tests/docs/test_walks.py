"""Tests that run the commands of the tutorial and of the example project's README, as they are
written.
"""

from __future__ import annotations

import ast
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from scrapy_rep.base.settings import DEFAULTS
from tests import effort, forks
from tests.docs.pages import PROJECT, environment, samples
from tests.fetching.redis_server import BINARY

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.unmeasured

BLOCKS = re.findall(
    r"```console\n(.*?)```", (PROJECT / "README.md").read_text(), re.DOTALL
)
COMMANDS = re.findall(r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", "".join(BLOCKS), re.MULTILINE)
"""The commands of the example project's README, each with the output that it shows."""

VERDICT = [
    "  0 forbidden",
    "  0 faster than a Crawl-delay",
    "  0 within a pause",
    "  http://slow.example/: Crawl-delay 0.3 s, smallest gap <gap> s",
    "  http://bare.example/: Retry-After 1 s, next request after <gap> s",
]
"""The verdict of the demo on the access log of its site, as :func:`timeless` returns it."""


@pytest.mark.slow
def test_the_commands_of_the_tutorial_print_what_is_shown(tmp_path: Path) -> None:
    """The commands print exactly the output that the tutorial shows. The log of the site has the
    requests that the tutorial names.
    """
    (tmp_path / "site").mkdir()
    command = [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1"]
    command += ["--directory", str(tmp_path / "site")]
    log = tmp_path / "log"
    crawl_log = ""
    with ExitStack() as stack:
        stderr = stack.enter_context(log.open("w"))
        site = stack.enter_context(
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True)
        )
        stack.callback(site.terminate)
        assert site.stdout
        (port,) = re.findall(r" port (\d+) ", site.stdout.readline())
        for sample in samples():
            if sample.page != "docs/tutorial.md":
                continue
            code = sample.code.replace("localhost:8000", f"127.0.0.1:{port}")
            code = code.replace("localhost", "127.0.0.1")
            if sample.mark == "make":
                subprocess.run(["bash", "-c", code], cwd=tmp_path, check=True)
            if sample.mark == "run":
                line, expected = code.removeprefix("$ ").split("\n", 1)
                line, _, grep = line.partition(" 2>&1 | grep ")
                printed = "".join(run(tmp_path, *shlex.split(line))[1:])
                if grep:
                    is_match = re.compile(*shlex.split(grep)).search
                    printed = "".join(
                        filter(is_match, printed.splitlines(keepends=True))
                    )
                assert timeless(printed).splitlines() == timeless(expected).splitlines()
                crawl_log = crawl_log or log.read_text()
    pages = ["/", "/basket/help.html", "/letters.html", "/robots.txt", "/tea.html"]
    assert sorted(re.findall(r'"GET (\S+) ', crawl_log)) == pages


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a copy of the example project, without the output of earlier crawls."""
    ignored = shutil.ignore_patterns("*.ledger*", "robots-report.html", "__pycache__")
    return shutil.copytree(PROJECT, tmp_path / "project", ignore=ignored)


def run(folder: Path, *arguments: str) -> tuple[int, str, str]:
    """Run Scrapy, or another module, in *folder*. Return the exit status, the output and the log."""
    environ = environment() | {"COLUMNS": "200"}
    process = forks.run([*arguments], cwd=folder, env=environ)
    log = process.stderr.decode()
    assert "Traceback" not in log
    assert "ERROR" not in log
    return process.returncode, process.stdout.decode(), log


def timeless(printed: str) -> str:
    """Return *printed* without dates and times, and without durations that depend on the machine."""
    printed = re.sub(r"^\d{4}-\d\d-\d\d [\d:]+ ", "", printed, flags=re.MULTILINE)
    printed = re.sub(r"\b\d:\d\d:\d\d\b", "<time>", printed)
    printed = re.sub(r"\b\d+\.\d{3} s$", "<gap> s", printed, flags=re.MULTILINE)
    return printed.rstrip()


@pytest.mark.newest
@pytest.mark.slow
def test_the_commands_of_the_example_project_print_what_is_shown(project: Path) -> None:
    """The commands of the README run one after the other. The crawl writes no log to standard
    error.
    """
    for command, expected in COMMANDS:
        if command.startswith("scrapy "):
            status, printed, log = run(project, *shlex.split(command))
            assert status in {0, 1}
            assert not (log and " crawl " in command)
            printed += log
        else:
            printed = subprocess.check_output(
                command, shell=True, cwd=project, text=True
            )
        assert timeless(printed) == timeless(expected), command
    subcommands = {command.split()[2] for command, _ in COMMANDS if " rep " in command}
    assert subcommands == {"check", "lint", "page", "diff", "report"}
    report = (project / "robots-report.html").read_text()
    assert "Hosts treated as having no robots.txt" in report


@pytest.mark.newest
def test_the_demo_in_the_main_readme_agrees_with_the_example_project() -> None:
    """Each line of the demo in README.md is in the output that the README of the example project
    shows, in the same order.
    """
    [demo] = (sample.code for sample in samples("text") if sample.mark == "demo")
    remaining_output = iter(timeless(COMMANDS[0][1]).splitlines())
    lines = [line for line in demo.splitlines() if line != "..."]
    assert len(lines) > 5
    assert [line for line in lines if line not in remaining_output] == []


@pytest.mark.newest
@pytest.mark.slow
@pytest.mark.skipif(not effort.is_long, reason="takes long: only with --long")
@pytest.mark.skipif(BINARY is None, reason="There is no redis-server on the PATH")
def test_several_workers_send_the_same_requests_as_a_single_one(
    project: Path,
) -> None:
    """A crawl with two workers sends every request that a crawl with one worker sends, although ``--kill`` kills one of
    the two workers. The access log shows no forbidden request, and no request that was sent too early.
    """
    pytest.importorskip("scrapy_redis")
    status, printed, _ = run(project, "demo.offline.many", "2", "--kill")
    requests_by_worker, _, verdict = timeless(printed).partition("\n\n")
    assert verdict.splitlines()[1:] == VERDICT
    missing = "0 requests were sent in the crawl with 1 worker, but not in the crawl with 2 workers"
    assert f"\n{missing}\n" in requests_by_worker
    requests = sum(
        map(int, re.findall(r": (\d+) requests$", requests_by_worker, re.MULTILINE))
    )
    assert re.match(r"demobot/1.0 \(worker [12]\) was killed\n", requests_by_worker)
    assert requests >= 46
    assert status == 0


@pytest.mark.newest
def test_the_settings_of_the_example_project_show_all_defaults() -> None:
    """One line of settings.py enables this package, and four others set options. Comments show
    every setting of the package with its default.
    """
    settings = (PROJECT / "demo" / "settings.py").read_text()
    documented = re.findall(r"^# (REP_\w+) = (.+)$", settings, flags=re.MULTILINE)
    assert {name: ast.literal_eval(value) for name, value in documented} == DEFAULTS
    assert len(documented) == len(DEFAULTS)
    code = re.sub(r"^#.*\n", "", settings, flags=re.MULTILINE)
    lines = [line for line in code.splitlines() if re.search(r"scrapy_rep|REP_", line)]
    assert lines == [
        'ADDONS = {"scrapy_rep.Addon": 500}',
        "REP_WAIT_TIMEOUT = 2",
        'REP_REL = ["nofollow", "ugc", "sponsored"]',
        'REP_LEDGER = "demo.ledger"',
        'REP_LEDGER_LEVEL = "all"',
    ]
