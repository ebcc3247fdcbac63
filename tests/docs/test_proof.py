"""The program on the page about proofs finds each change of a ledger."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.docs.pages import python
from tests.ledger.test_seals import CHANGES, change, checked, crawled

if TYPE_CHECKING:
    from pathlib import Path

[PROGRAM] = (each.code for each in python("code") if each.page == "docs/howto/proof.md")


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    (tmp_path / "verify_ledger.py").write_text(PROGRAM)
    crawled(tmp_path / "ledger")
    crawled(tmp_path / "ledger")
    return tmp_path / "ledger"


def run(ledger: Path, digest: str | None) -> subprocess.CompletedProcess[str]:
    assert digest
    return subprocess.run(
        # Without the packages of this environment.
        [sys.executable, "-I", "-S", "verify_ledger.py", str(ledger), digest],
        cwd=ledger.parent,
        check=False,
        capture_output=True,
        text=True,
    )


def test_it_agrees(ledger: Path) -> None:
    """It is short, and computes the digests that the crawls logged."""
    assert PROGRAM.count("\n") <= 60
    first, second = (each.digest for each in checked(ledger))
    for digest in (first, second):
        done = run(ledger, digest)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == f"crawl 1: sha256 {first}\ncrawl 2: sha256 {second}\n"


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in CHANGES
        if name not in {"seal", "seal of no rows", "robots.txt of no crawl"}
    ],
)
def test_changes(ledger: Path, name: str) -> None:
    """It fails for each change of what a crawl wrote."""
    script, (crawl, *_) = CHANGES[name]
    digest = checked(ledger)[(crawl or 1) - 1].digest
    change(ledger, script)
    if name == "removed last seals":  # They are no evidence.
        assert run(ledger, digest).returncode == 0
    else:
        assert run(ledger, digest).returncode == 1
