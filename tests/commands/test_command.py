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
from tests.commands.rep import ROBOTS, execute, plain_environment
from tests.crawl.answers import HANGS

if TYPE_CHECKING:
    from tests.commands.conftest import Rep
    from tests.crawl.server import Site

COMMAND = ["scrapy", "rep"]
AS_MYBOT = ("--agent", "mybot")
BASKET = "https://shop.example/basket/"


@pytest.fixture
def robots(tmp_path: Path) -> str:
    path = tmp_path / "robots.txt"
    path.write_text(ROBOTS)
    return str(path)


def started(*arguments: str, cwd: Path) -> forks.Forked:
    """Start ``scrapy rep`` with pipes."""
    return forks.start(
        [*COMMAND, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=cwd,
        env=plain_environment(),
    )


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
    assert found.stdout.splitlines() == [
        "scrapy_rep scrapy_rep.commands", "scrapy_rep.commands.arguments"
    ]  # fmt: skip


def test_outside_of_a_project(robots: str, tmp_path: Path) -> None:
    """The command works without a project; the agent is then Scrapy's, as a note says."""
    arguments = ["check", BASKET, "--robots", robots, "--brief"]
    done = subprocess.run(
        [sys.executable, "-m", *COMMAND, *arguments],
        cwd=tmp_path,
        env=plain_environment(),
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert done.stdout == f"denied\t{BASKET}\tline 10, Disallow: /\n"
    assert done.stderr == (
        "scrapy rep: no setting names your crawler, so the rules for 'Scrapy' are followed. "
        "Name the crawler with --agent\n"
    )


def test_help(rep: Rep) -> None:
    """The help names every subcommand, and each has a help of its own."""
    shown = rep("-h").out
    for name in SUBCOMMANDS:
        assert f"    {name} " in shown
        assert rep(name, "-h").status == 0


def test_broken_pipe(site: Site, tmp_path: Path) -> None:
    """When the reader of the output closes the pipe, the run and its crawl end silently."""
    host = site.add("User-agent: *\nDisallow: /")
    urls = "".join(f"{host.url('/')}{number}\n" for number in range(50_000)).encode()
    with started("check", "-", "--brief", *AS_MYBOT, cwd=tmp_path) as process:
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
    asked = ("check", "-", "--robots", robots, "--brief", *AS_MYBOT)
    with started(*asked, cwd=tmp_path) as process:
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
    with started("check", host.url("/"), cwd=tmp_path) as process:
        assert asked.wait(timeout=120)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=120) == -signal.SIGINT


def test_colours(robots: str, tmp_path: Path) -> None:
    """A terminal gets colours unless NO_COLOR is set, but never a site's escape sequences."""
    with Path(robots).open("a") as file:
        file.write("User-agent: redbot\nDisallow: /basket/ # \x1b[32mallowed\x1b[0m\n")

    def shown(**environment: str) -> bytes:
        ours, its = pty.openpty()
        with forks.start(
            [*COMMAND, "check", BASKET, "--robots", robots, "--agent", "redbot"],
            stdin=subprocess.DEVNULL,
            stdout=its,
            stderr=its,
            cwd=tmp_path,
            env={**plain_environment(), "TERM": "xterm", **environment},
        ) as process:
            os.close(its)
            found = b""
            with contextlib.suppress(OSError):  # Linux raises it at the end.
                while part := os.read(ours, 65536):
                    found += part
            process.wait(timeout=120)
        os.close(ours)
        return found

    with_colours = shown()
    assert b"\x1b[31mdenied \x1b[0m" in with_colours
    assert b"# \\x1b[32mallowed\\x1b[0m" in with_colours
    assert b"\x1b[32m" not in with_colours
    assert b"\x1b" not in shown(NO_COLOR="1")


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
