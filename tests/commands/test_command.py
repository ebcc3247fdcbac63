"""``scrapy rep`` as a command of Scrapy: through its entry point, in subprocesses."""

from __future__ import annotations

import contextlib
import io
import os
import pty
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scrapy_rep.commands.arguments import SUBCOMMANDS
from tests import forks
from tests.commands.rep import (
    ROBOTS,
    ROOT,
    Ended,
    execute,
    plain_environment,
    scrapy_rep,
)
from tests.crawl.answers import HANGS

if TYPE_CHECKING:
    from tests.commands.conftest import Rep
    from tests.crawl.server import Site

COMMAND = ["scrapy", "rep"]
PROJECT = ROOT / "example_project"
BASKET = "https://shop.example/basket/"


@pytest.fixture
def robots(tmp_path: Path) -> str:
    path = tmp_path / "robots.txt"
    path.write_text(ROBOTS)
    return str(path)


def from_the_start(*arguments: str, cwd: Path) -> Ended:
    """Run ``scrapy rep`` in a process that starts directly with the command."""
    done = subprocess.run(
        [sys.executable, "-m", *COMMAND, *arguments],
        cwd=cwd,
        env=plain_environment(),
        check=False,
        capture_output=True,
        text=True,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def test_costs_next_to_nothing() -> None:
    """Loading the command, as every start of Scrapy does, imports only two modules of the
    package, and adding the options of all subcommands one more.
    """
    code = (
        "import sys, argparse, scrapy.cmdline\n"
        "from scrapy.settings import Settings\n"
        "before = set(sys.modules)\n"
        "from scrapy_rep.commands import RepCommand\n"
        "command = RepCommand()\n"
        "command.short_desc()\n"
        "loaded = set(sys.modules)\n"
        "print(*sorted(loaded - before))\n"
        "command.settings = Settings()\n"
        "loaded |= set(sys.modules)\n"
        "command.add_options(argparse.ArgumentParser())\n"
        "print(*sorted(set(sys.modules) - loaded))"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
    loaded, later = map(str.split, found.stdout.splitlines())
    assert loaded == ["scrapy_rep", "scrapy_rep.commands"]
    assert later == ["scrapy_rep.commands.arguments"]


def test_outside_of_a_project(robots: str, tmp_path: Path) -> None:
    """The command works without a project; the agent is then Scrapy's, as a note says."""
    arguments = ["check", BASKET, "--robots", robots, "--brief"]
    ended = from_the_start(*arguments, cwd=tmp_path)
    assert (ended.status, ended.out) == (1, f"denied\t{BASKET}\tline 10, Disallow: /\n")
    assert ended.err == (
        "scrapy rep: no setting names your crawler, so the rules for 'Scrapy' are followed. "
        "Name the crawler with --agent\n"
    )
    assert ended == scrapy_rep(*arguments, cwd=tmp_path)


def test_help(rep: Rep) -> None:
    """The help names every subcommand; a missing or unknown subcommand is wrong usage."""
    ended = rep("-h")
    assert ended.status == 0
    for name in SUBCOMMANDS:
        assert f"    {name} " in ended.out
        assert rep(name, "-h").status == 0
    assert rep().status == 2
    assert rep("bless").status == 2


def test_broken_pipe(site: Site, tmp_path: Path) -> None:
    """When the reader of the output closes the pipe, the run and its crawl end silently."""
    host = site.add("User-agent: *\nDisallow: /")
    urls = "".join(f"{host.url('/')}{number}\n" for number in range(50_000)).encode()
    with forks.start(
        [*COMMAND, "check", "-", "--brief", "--agent", "mybot"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env=plain_environment(),
    ) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        process.stdin.write(urls[:10_000])
        process.stdin.flush()
        assert process.stdout.readline().startswith(b"denied\t")
        process.stdout.close()
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(urls)
            process.stdin.close()
        assert process.wait(timeout=120) == 141
        assert process.stderr.read() == b""


def test_results_come_before_the_list_ends(robots: str, tmp_path: Path) -> None:
    """Each URL on standard input is judged as it arrives; Ctrl-C ends the wait for more."""
    with forks.start(
        [*COMMAND, "check", "-", "--robots", robots, "--brief", "--agent", "mybot"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env=plain_environment(),
    ) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        for number in range(3):
            process.stdin.write(f"{BASKET}{number}\n".encode())
            process.stdin.flush()
            assert f"{BASKET}{number}\t".encode() in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=120) == 130
        assert process.stderr.read() == b""


def test_ctrl_c_while_fetching(site: Site, tmp_path: Path) -> None:
    """Ctrl-C immediately ends a run that waits for a server."""
    asked = threading.Event()
    host = site.add(HANGS)
    host.answer = lambda path: asked.set() or HANGS
    with forks.start(
        [*COMMAND, "check", host.url("/")],
        stdout=subprocess.DEVNULL,
        cwd=tmp_path,
        env=plain_environment(),
    ) as process:
        assert asked.wait(timeout=120)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=120) == -signal.SIGINT


def on_a_terminal(*arguments: str, cwd: Path, **environment: str) -> bytes:
    """Return the output of a run on a terminal."""
    ours, its = pty.openpty()
    environment = {**plain_environment(), "TERM": "xterm", **environment}
    with forks.start(
        [*COMMAND, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=its,
        stderr=its,
        cwd=cwd,
        env=environment,
    ) as process:
        os.close(its)
        shown = b""
        with contextlib.suppress(OSError):  # Linux raises it at the end of the output.
            while part := os.read(ours, 65536):
                shown += part
        process.wait(timeout=120)
    os.close(ours)
    return shown


def test_colours(robots: str, tmp_path: Path) -> None:
    """A terminal gets colours unless NO_COLOR is set, but never a site's escape sequences."""
    with Path(robots).open("a") as file:
        file.write("User-agent: redbot\nDisallow: /basket/ # \x1b[32mallowed\x1b[0m\n")
    arguments = ("check", BASKET, "--robots", robots, "--agent", "redbot")
    shown = on_a_terminal(*arguments, cwd=tmp_path)
    assert b"\x1b[31mdenied \x1b[0m" in shown
    assert b"# \\x1b[32mallowed\\x1b[0m" in shown
    assert b"\x1b[32m" not in shown
    assert b"\x1b" not in on_a_terminal(*arguments, cwd=tmp_path, NO_COLOR="1")


def test_what_standard_output_cannot_encode(
    robots: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Characters that the terminal's encoding lacks are shown as escapes."""
    Path(robots).write_text("User-agent: *\nDisallow: /ü日\n", encoding="utf-8")
    octets = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(octets, encoding="ascii"))
    arguments = ["check", "http://a.example/ü日", "--robots", robots, "--brief"]
    assert execute(arguments, {}) == 1
    assert rb"Disallow: /\xfc\u65e5" in octets.getvalue()
