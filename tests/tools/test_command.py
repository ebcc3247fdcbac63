"""Tests of ``scrapy rep`` as a command of Scrapy, through its entry point and in subprocesses:
imports, help, pipes, signals, and terminals.
"""

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

ROBOTS_FILE = ("--robots", "robots.txt")
AS_MYBOT = ("--agent", "mybot")
BASKET = "https://shop.example/basket/"


def start_check(*arguments: str) -> forks.Popen:
    """Return a process that runs ``scrapy rep check``, with pipes for all standard streams."""
    return forks.Popen(
        ["scrapy", "rep", "check", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=plain_environment(),
    )


def test_the_start_of_scrapy_imports_one_module_of_the_command() -> None:
    """Scrapy loads the command at every start, so loading it imports only the module of the
    command. The options of all subcommands are added without any further import.
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
    """Without a project, the crawler is named after Scrapy, and a note says so."""
    command = ["scrapy", "rep", "check", BASKET, *ROBOTS_FILE, "--brief"]
    process = forks.run(command, env=plain_environment())
    assert process.returncode == 1
    assert process.stdout.decode() == f"denied\t{BASKET}\tline 10, Disallow: /\n"
    assert process.stderr.decode() == (
        "scrapy rep: no setting names your crawler, so this command follows the rules for "
        "'Scrapy'; name the crawler with --agent\n"
    )


def test_the_help_names_every_subcommand(rep: Rep) -> None:
    """Each subcommand also has a help page."""
    help_text = rep("-h").out
    for name in SUBCOMMANDS:
        assert f"    {name} " in help_text
        assert rep(name, "-h").status == 0


def test_the_command_ends_silently_when_the_output_pipe_closes(site: Site) -> None:
    """The crawl of the command ends, too. The exit status is that of a process that SIGPIPE has
    ended.
    """
    host = site.add("User-agent: *\nDisallow: /")
    urls = "".join(f"{host.url('/')}{number}\n" for number in range(50_000)).encode()
    with start_check("-", "--brief", *AS_MYBOT) as process:
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
        ("check", BASKET, *ROBOTS_FILE),
        ("lint", "robots.txt"),
        ("page", "robots.txt"),
        ("why", "shop.example", "ledger"),
        ("report", "ledger", "-o", "-"),
        ("report", "ledger", "--json"),
        ("diff", "ledger", "robots.txt"),
        ("diff", "no such file", "robots.txt"),
    ],
)
def test_each_command_ends_silently_if_the_output_pipe_is_already_closed(
    arguments: tuple[str, ...],
) -> None:
    """The same applies to messages, if standard error goes to the closed pipe."""
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


def test_urls_of_standard_input_are_judged_as_they_arrive() -> None:
    """The command does not wait for the end of standard input. Ctrl-C ends it while it waits for
    more lines.
    """
    with start_check("-", *ROBOTS_FILE, "--brief", *AS_MYBOT) as process:
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
    request_received = threading.Event()
    host = site.add(HANGS)
    host.answer = lambda path: request_received.set() or HANGS
    with start_check(host.url("/")) as process:
        assert request_received.wait(timeout=120)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=120) == -signal.SIGINT


@pytest.mark.parametrize("environment", [{}, {"NO_COLOR": "1"}])
def test_a_terminal_gets_colours_unless_no_color_is_set(
    environment: dict[str, str],
) -> None:
    """The output is in colour on a terminal, unless NO_COLOR is set. Escape sequences of a site are
    never sent to the terminal.
    """
    with Path("robots.txt").open("a") as file:
        file.write("User-agent: redbot\nDisallow: /basket/ # \x1b[32mallowed\x1b[0m\n")
    parent_end, child_end = pty.openpty()
    with forks.Popen(
        ["scrapy", "rep", "check", BASKET, *ROBOTS_FILE, "--agent", "redbot"],
        stdin=subprocess.DEVNULL,
        stdout=child_end,
        stderr=child_end,
        env={**plain_environment(), "TERM": "xterm", **environment},
    ) as process:
        os.close(child_end)
        output = b""
        # On Linux, reading raises OSError at the end of a terminal.
        with contextlib.suppress(OSError):
            while chunk := os.read(parent_end, 65536):
                output += chunk
        process.wait(timeout=120)
    os.close(parent_end)
    assert b"# \\x1b[32mallowed\\x1b[0m" in output
    assert b"\x1b[32m" not in output
    assert (b"\x1b[31mdenied \x1b[0m" in output) is not bool(environment)
    assert (b"\x1b" in output) is not bool(environment)


def test_characters_that_the_output_cannot_encode_are_escaped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Path("robots.txt").write_text("User-agent: *\nDisallow: /ü日\n", encoding="utf-8")
    octets = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(octets, encoding="ascii"))
    assert execute(["check", "http://a.example/ü日", *ROBOTS_FILE, "--brief"], {}) == 1
    assert rb"Disallow: /\xfc\u65e5" in octets.getvalue()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize(
    "arguments",
    [
        ("check", BASKET, "--robots", "robots.txt"),
        ("check", f"{BASKET}help", "--robots", "robots.txt"),
        ("report", "ledger", "--json"),
        ("report", "ledger", "-o", "-"),
    ],
)
def test_the_exit_status_is_2_if_the_results_cannot_be_written(
    arguments: tuple[str, ...],
) -> None:
    """The exit status must not be taken for a verdict if the disk is full."""
    write_ledger("ledger", [(BASKET, "refused")])
    command = ["scrapy", "rep", *arguments, "-s", "USER_AGENT=mybot"]
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


def test_the_exit_status_is_the_verdict_if_all_streams_are_closed() -> None:
    """A daemon may start the command with closed standard streams."""
    command = '"$0" -m scrapy rep check "$1" --robots robots.txt -s USER_AGENT=mybot <&- >&- 2>&-'
    for url, status in ((BASKET, 1), ("-", 0)):
        process = subprocess.run(
            ["sh", "-c", command, sys.executable, url],
            env=plain_environment(),
            check=False,
        )
        assert process.returncode == status
