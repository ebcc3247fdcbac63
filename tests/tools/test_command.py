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

from scrapy_rep.tools.command import SUBCOMMANDS
from tests import forks
from tests.crawl.answers import HANGS
from tests.tools.rep import Rep, execute, plain_environment, write_ledger

if TYPE_CHECKING:
    from tests.crawl.server import Site

pytestmark = pytest.mark.usefixtures("rep")  # A folder with a robots.txt.

FILE = ("--robots", "robots.txt")
AS_MYBOT = ("--agent", "mybot")
BASKET = "https://shop.example/basket/"


def started(*arguments: str) -> forks.Popen:
    """Start ``scrapy rep check`` with pipes."""
    return forks.Popen(
        ["scrapy", "rep", "check", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=plain_environment(),
    )


def test_the_start_of_scrapy_imports_one_module_of_the_command() -> None:
    """Loading the command, as every start of Scrapy does, imports only its module of the package, and
    adding the options of all subcommands imports no other.
    """
    code = (
        "import sys, argparse, scrapy.cmdline\n"
        "from scrapy.settings import Settings\n"
        "from scrapy_rep.tools.command import RepCommand\n"
        "command = RepCommand()\n"
        "command.short_desc()\n"
        "print(*sorted(name for name in sys.modules if name.startswith('scrapy_rep')))\n"
        "command.settings = Settings()\n"
        "loaded = set(sys.modules)\n"
        "command.add_options(argparse.ArgumentParser())\n"
        "print(*sorted(set(sys.modules) - loaded))"
    )
    command = [sys.executable, "-c", code]
    loaded = subprocess.check_output(command, env=plain_environment(), text=True)
    assert loaded.splitlines() == [
        "scrapy_rep scrapy_rep.tools scrapy_rep.tools.command",
        "",
    ]


def test_the_command_works_without_a_project() -> None:
    """The command works without a project; the agent is then Scrapy's, as a note says."""
    command = ["scrapy", "rep", "check", BASKET, *FILE, "--brief"]
    done = forks.run(command, env=plain_environment())
    assert done.returncode == 1
    assert done.stdout.decode() == f"denied\t{BASKET}\tline 10, Disallow: /\n"
    assert done.stderr.decode() == (
        "scrapy rep: no setting names your crawler, so this command follows the rules for "
        "'Scrapy'; name the crawler with --agent\n"
    )


def test_the_help_names_every_subcommand(rep: Rep) -> None:
    """The help names every subcommand, and each has a help of its own."""
    shown = rep("-h").out
    for name in SUBCOMMANDS:
        assert f"    {name} " in shown
        assert rep(name, "-h").status == 0


def test_a_pipe_that_closes_ends_the_run_silently(site: Site) -> None:
    """When the reader of the output closes the pipe, the run and its crawl end silently."""
    host = site.add("User-agent: *\nDisallow: /")
    urls = "".join(f"{host.url('/')}{number}\n" for number in range(50_000)).encode()
    with started("-", "--brief", *AS_MYBOT) as process:
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


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", BASKET, *FILE),
        ("lint", "robots.txt"),
        ("page", "robots.txt"),
        ("why", "shop.example", "ledger"),
        ("report", "ledger", "-o", "-"),
        ("report", "ledger", "--json"),
        ("diff", "ledger", "robots.txt"),
        ("diff", "no such file", "robots.txt"),
    ],
)
def test_a_pipe_that_was_closed_before_ends_the_run_silently(
    arguments: tuple[str, ...],
) -> None:
    """If the reader of the output has closed the pipe before, each command ends silently. So it does
    with its messages, if they go to the same pipe.
    """
    write_ledger("ledger", [(f"{BASKET}1", "refused"), (f"{BASKET}2", "allowed")])
    for stderr in (subprocess.STDOUT, subprocess.PIPE):
        if "no such file" in arguments and stderr is subprocess.PIPE:
            continue
        read, write = os.pipe()
        os.close(read)
        command = ["scrapy", "rep", *arguments, "-s", "USER_AGENT=mybot"]
        with forks.Popen(
            command, stdout=write, stderr=stderr, env=plain_environment()
        ) as process:
            os.close(write)
            _, errors = process.communicate()
        assert (process.returncode, errors or b"") == (141, b"")


def test_results_come_before_the_list_ends() -> None:
    """Each URL on standard input is judged as it arrives; Ctrl-C ends the wait for more."""
    with started("-", *FILE, "--brief", *AS_MYBOT) as process:
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


def test_ctrl_c_ends_a_run_that_waits_for_a_server(site: Site) -> None:
    """Ctrl-C immediately ends a run that waits for a server."""
    asked = threading.Event()
    host = site.add(HANGS)
    host.answer = lambda path: asked.set() or HANGS
    with started(host.url("/")) as process:
        assert asked.wait(timeout=120)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=120) == -signal.SIGINT


@pytest.mark.parametrize("environment", [{}, {"NO_COLOR": "1"}])
def test_a_terminal_gets_colours_unless_no_color_is_set(
    environment: dict[str, str],
) -> None:
    """A terminal gets colours unless NO_COLOR is set, but never a site's escape sequences."""
    with Path("robots.txt").open("a") as file:
        file.write("User-agent: redbot\nDisallow: /basket/ # \x1b[32mallowed\x1b[0m\n")
    ours, its = pty.openpty()
    with forks.Popen(
        ["scrapy", "rep", "check", BASKET, *FILE, "--agent", "redbot"],
        stdin=subprocess.DEVNULL,
        stdout=its,
        stderr=its,
        env={**plain_environment(), "TERM": "xterm", **environment},
    ) as process:
        os.close(its)
        shown = b""
        with contextlib.suppress(OSError):  # Linux raises it at the end.
            while part := os.read(ours, 65536):
                shown += part
        process.wait(timeout=120)
    os.close(ours)
    assert b"# \\x1b[32mallowed\\x1b[0m" in shown
    assert b"\x1b[32m" not in shown
    assert (b"\x1b[31mdenied \x1b[0m" in shown) is not bool(environment)
    assert (b"\x1b" in shown) is not bool(environment)


def test_characters_that_the_terminal_lacks_are_escaped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Characters that the terminal's encoding lacks are shown as escapes."""
    Path("robots.txt").write_text("User-agent: *\nDisallow: /ü日\n", encoding="utf-8")
    octets = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(octets, encoding="ascii"))
    assert execute(["check", "http://a.example/ü日", *FILE, "--brief"], {}) == 1
    assert rb"Disallow: /\xfc\u65e5" in octets.getvalue()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize(
    "asked",
    [
        ("check", BASKET, "--robots", "robots.txt"),
        ("check", f"{BASKET}help", "--robots", "robots.txt"),
        ("report", "ledger", "--json"),
        ("report", "ledger", "-o", "-"),
    ],
)
def test_results_that_cannot_be_written_are_no_verdict(asked: tuple[str, ...]) -> None:
    """If the results cannot be written, that is no verdict: the status says that something is wrong."""
    write_ledger("ledger", [(BASKET, "refused")])
    command = ["scrapy", "rep", *asked, "-s", "USER_AGENT=mybot"]
    with (
        Path("/dev/full").open("w") as full,
        forks.Popen(
            command, stdout=full, stderr=subprocess.PIPE, env=plain_environment()
        ) as process,
    ):
        errors = process.communicate()[1].decode()
    assert process.returncode == 2
    assert "the results could not be written: No space left on device" in errors
    assert "Traceback" not in errors


def test_with_closed_streams_the_verdict_is_the_exit_status() -> None:
    """If a daemon has closed the standard streams, the verdict is still in the exit status."""
    command = '"$0" -m scrapy rep check "$1" --robots robots.txt -s USER_AGENT=mybot <&- >&- 2>&-'
    for url, status in ((BASKET, 1), ("-", 0)):
        done = subprocess.run(
            ["sh", "-c", command, sys.executable, url],
            env=plain_environment(),
            check=False,
        )
        assert done.returncode == status
