"""The steps of the page about proofs, on the ledger of a crawl; and that they find what was changed."""

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
from tests.docs.pages import ROOT, environment, python, samples

if TYPE_CHECKING:
    from pathlib import Path

PAGE = "docs/ledger.md"
[SETTINGS] = (sample.code for sample in python("settings") if sample.page == PAGE)
[PROGRAM] = (sample.code for sample in python("code") if sample.page == PAGE)
[LINE] = (sample.code for sample in samples("text") if sample.page == PAGE)
*_, CHECK, WHY = (sample.code for sample in samples("sh") if sample.page == PAGE)
DIGEST = r"[0-9a-f]{64}"
URL = "https://shop.example/basket/1"

pytestmark = [pytest.mark.newest, pytest.mark.unmeasured]


@pytest.mark.skipif(not shutil.which("sha256sum"), reason="needs sha256sum")
def test_the_steps_of_the_page_find_what_was_changed(tmp_path: Path) -> None:
    """The log has the digest of the file, with which sha256sum finds a change; why shows the rule,
    and Protego confirms each decision, but not a false one.
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
    logger, message = LINE.strip().split(" INFO: ")
    begin, _, words, _ = re.split(rf"(ledgers/\S+|{DIGEST})", message)[:4]
    [line] = result.lines("INFO", logger, begin, words)
    digest = line.split()[-1]

    def run(command: str) -> subprocess.CompletedProcess[str]:
        command = command.replace("scrapy", f"{sys.executable} -m scrapy")
        return subprocess.run(
            command.replace("python3", sys.executable).replace(URL, urls[0]),
            shell=True, cwd=tmp_path, env=environment(), capture_output=True, text=True,
            check=False,
        )  # fmt: skip

    def checked(url: str) -> str:
        return run(f"python3 check_rule.py shop.sqlite {url}").stdout

    assert run(CHECK).stdout == f"{digest}  shop.sqlite\n"
    assert "line 3, Disallow: /basket/ (robots.txt)" in run(WHY).stdout
    (tmp_path / "check_rule.py").write_text(PROGRAM)
    assert f"`python3 check_rule.py shop.sqlite {URL}`" in (ROOT / PAGE).read_text()
    for url, verdict in zip(urls, ("refused", "allowed", "allowed"), strict=True):
        assert checked(url) == f"{verdict} {url} confirmed\n"
    assert run(CHECK).stdout.startswith(digest)
    with closing(sqlite3.connect(ledger)) as connection, connection:
        connection.execute("UPDATE decision SET verdict = 'allowed'")
    assert not run(CHECK).stdout.startswith(digest)
    assert checked(urls[0]) == f"allowed {urls[0]} NOT CONFIRMED\n"
