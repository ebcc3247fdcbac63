"""Tests that the commands and the Python program in docs/ledger.md verify a ledger, and detect that a ledger was
changed.
"""

from __future__ import annotations

import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from tests.crawl.crawl import run_crawl
from tests.crawl.server import Site
from tests.docs.pages import ROOT, environment, python_samples, samples

if TYPE_CHECKING:
    from pathlib import Path

PAGE = "docs/ledger.md"
[SETTINGS] = (
    sample.code for sample in python_samples("settings") if sample.page == PAGE
)
[PROGRAM] = (sample.code for sample in python_samples("code") if sample.page == PAGE)
[LOG_LINE] = (sample.code for sample in samples("text") if sample.page == PAGE)
*_, DIGEST_COMMAND, WHY_COMMAND = (
    sample.code for sample in samples("sh") if sample.page == PAGE
)
DIGEST = r"[0-9a-f]{64}"
URL = "https://shop.example/basket/1"

pytestmark = [pytest.mark.newest, pytest.mark.unmeasured]


@pytest.mark.skipif(not shutil.which("sha256sum"), reason="needs sha256sum")
def test_the_steps_of_the_page_find_a_changed_ledger(tmp_path: Path) -> None:
    """The log has the digest of the ledger, and sha256sum prints the same digest until the ledger
    is changed. ``scrapy rep why`` shows the rule. The program of the page confirms each decision
    with Protego, and does not confirm a falsified one.
    """
    settings: dict[str, str] = {}
    exec(SETTINGS, settings)
    with Site() as site:
        host = site.add("User-agent: *\nAllow: /basket/help\nDisallow: /basket/\n")
        urls = [host.url(path) for path in ("/basket/1", "/basket/help", "/free")]
        result = run_crawl(
            urls,
            settings={
                "REP_LEDGER": str(tmp_path / settings["REP_LEDGER"]),
                "REP_LEDGER_LEVEL": settings["REP_LEDGER_LEVEL"],
            },
        )
    [ledger] = (tmp_path / "ledgers").iterdir()
    ledger = ledger.rename(tmp_path / "shop.sqlite")
    logger, message = LOG_LINE.strip().split(" INFO: ")
    start_of_message, _, middle_of_message, _ = re.split(
        rf"(ledgers/\S+|{DIGEST})", message
    )[:4]
    [line] = result.lines("INFO", logger, start_of_message, middle_of_message)
    digest = line.split()[-1]

    def run(command: str) -> subprocess.CompletedProcess[str]:
        command = command.replace("scrapy", f"{sys.executable} -m scrapy")
        return subprocess.run(
            command.replace("python3", sys.executable).replace(URL, urls[0]),
            shell=True, cwd=tmp_path, env=environment(), capture_output=True, text=True,
            check=False,
        )  # fmt: skip

    def check_rule(url: str) -> str:
        return run(f"python3 check_rule.py shop.sqlite {url}").stdout

    assert run(DIGEST_COMMAND).stdout == f"{digest}  shop.sqlite\n"
    assert "line 3, Disallow: /basket/ (robots.txt)" in run(WHY_COMMAND).stdout
    (tmp_path / "check_rule.py").write_text(PROGRAM)
    assert f"`python3 check_rule.py shop.sqlite {URL}`" in (ROOT / PAGE).read_text()
    for url, verdict in zip(urls, ("refused", "allowed", "allowed"), strict=True):
        assert check_rule(url) == f"{verdict} {url} confirmed\n"
    assert run(DIGEST_COMMAND).stdout.startswith(digest)
    with closing(sqlite3.connect(ledger)) as connection, connection:
        connection.execute("UPDATE decision SET verdict = 'allowed'")
    assert not run(DIGEST_COMMAND).stdout.startswith(digest)
    assert check_rule(urls[0]) == f"allowed {urls[0]} NOT CONFIRMED\n"
