"""``scrapy rep verify``: what it says, and its exit status. ``tests/ledger`` has all changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands.rep import Rep, write_ledger
from tests.ledger.test_seals import change, crawled

LEDGER = Path("ledger")


@pytest.fixture
def digests(rep: Rep) -> list[str]:
    """Write a ledger of two crawls. Return their digests."""
    return [str(crawled(LEDGER).digest) for _ in range(2)]


def test_intact(rep: Rep, digests: list[str]) -> None:
    """Each crawl is shown with its digest; a digest that was published is looked for."""
    first, second = digests
    ended = rep("verify", "ledger")
    assert ended.status == 0
    assert ended.out.startswith(
        "intact  ledger\n"
        "  crawl 1: spider, started 1970-01-01T00:00:01Z\n"
        "  ended 1970-01-01T00:00:09Z: finished\n"
    )
    assert "  decision: 30 rows\n" in ended.out
    assert f"  sha256 {first}\n" in ended.out
    ended = rep("verify", "ledger", f"SHA256:{second.upper()}")
    assert (ended.status, ended.err) == (0, "")
    assert f"  sha256 {first}\n  published: no\n" in ended.out
    assert f"  sha256 {second}\n  published: yes\n" in ended.out
    for found in rep.records("verify", "ledger", first, second):
        assert (found["verdict"], found["published"]) == ("intact", True)


def test_changed(rep: Rep, digests: list[str]) -> None:
    """What was changed is named. With a published digest, only its crawl counts."""
    first, second = digests
    change(LEDGER, "UPDATE decision SET verdict = 'allowed' WHERE id = 33")
    ended = rep("verify", "ledger")
    assert ended.status == 1
    assert "changed  ledger\n  crawl 2: " in ended.out
    assert "  decision: rows 31 to 40 are not as they were sealed\n" in ended.out
    assert rep("verify", "ledger", first).status == 0
    ended = rep("verify", "ledger", first, second)
    assert ended.status == 1
    said = f"scrapy rep: no crawl in ledger has the digest {second} as it is now\n"
    assert ended.err == said
    [one, two] = rep.records("verify", "ledger")
    assert one["problems"] == []
    assert two["problems"] == [
        {
            "table": "decision", "what": "changed", "first": 31, "last": 40,
            "message": "rows 31 to 40 are not as they were sealed",
        }
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("script", "status", "said"),
    [
        # A digest has the SHA-256 of each robots.txt, so its bytes are compared with that.
        ("UPDATE body SET body = x'61'", 1, "changed  ledger\n"),
        ("INSERT INTO body VALUES (sha256(x'61'), x'61')", 0, "\nchanged  ledger\n  body: no crawl "),
        ("UPDATE crawl SET ended = NULL, finish_reason = NULL", 1, "01Z\n  crawl: 1 row\n"),
        ("UPDATE seal SET last = 'x'", 2, "bad value in 'last'"),
        ("UPDATE decision SET statement = CAST(x'ff' AS TEXT)", 2, "Could not decode"),
    ],
)  # fmt: skip
def test_other_changes(
    rep: Rep, digests: list[str], script: str, status: int, said: str
) -> None:
    """A robots.txt that was changed is found by a published digest too; one of no crawl is shown
    after the crawls; a crawl that did not end has no end. A value that no crawl writes is wrong
    input.
    """
    change(LEDGER, script)
    ended = rep("verify", "ledger", digests[0])
    assert ended.status == status
    is_other = "no crawl in ledger has the digest" in ended.err
    assert is_other is script.startswith("UPDATE crawl")
    ended = rep("verify", "ledger")
    assert ended.status == max(1, status)
    assert said in (ended.err if status == 2 else ended.out)
    assert bool(ended.out) is (status != 2)


def test_not_sealed(rep: Rep) -> None:
    """The ledger of an earlier version can't be verified, and the command says so."""
    write_ledger("ledger", [("http://a.example/", "allowed")])
    ended = rep("verify", "ledger")
    assert ended.status == 1
    assert ended.out.startswith("not sealed  ledger\n  crawl 1: shop, ")
    assert rep.records("verify", "ledger")[0]["digest"] is None
