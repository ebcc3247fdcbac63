"""``scrapy rep verify``: what it says, and its exit status."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.commands.rep import write_ledger
from tests.ledger.test_seals import change, crawled

if TYPE_CHECKING:
    from tests.commands.conftest import Rep


def test_intact(rep: Rep) -> None:
    """Each crawl is shown with its digest; a digest that was published is looked for."""
    first, second = (crawled(Path("ledger")).digest for _ in range(2))
    assert first
    assert second
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
    found = rep.records("verify", "ledger", first, second)
    assert {(each["verdict"], each["published"]) for each in found} == {
        ("intact", True)
    }


def test_changed(rep: Rep) -> None:
    """What was changed is named. With a published digest, only its crawl counts."""
    first, second = (crawled(Path("ledger")).digest for _ in range(2))
    assert first
    assert second
    change(Path("ledger"), "UPDATE decision SET verdict = 'allowed' WHERE id = 33")
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


def test_a_published_digest_does_not_cover_the_bytes_of_a_robots_txt(rep: Rep) -> None:
    """A digest has the SHA-256 of each robots.txt, so its bytes are compared with that."""
    digest = crawled(Path("ledger")).digest
    assert digest
    change(Path("ledger"), "UPDATE body SET body = x'61'")
    found = rep.record("verify", "ledger", digest)
    assert (found["published"], found["verdict"]) == (True, "changed")


def test_rows_of_no_crawl(rep: Rep) -> None:
    """Rows that belong to no crawl are shown after the crawls."""
    crawled(Path("ledger"))
    change(Path("ledger"), "INSERT INTO body VALUES (sha256(x'61'), x'61')")
    ended = rep("verify", "ledger")
    assert ended.status == 1
    assert "\nchanged  ledger\n  body: no crawl used " in ended.out
    assert rep.records("verify", "ledger")[1]["crawl"] is None


def test_killed(rep: Rep) -> None:
    """A crawl that did not end is shown without its end."""
    crawled(Path("ledger"))
    change(Path("ledger"), "UPDATE crawl SET ended = NULL, finish_reason = NULL")
    assert "  ended " not in rep("verify", "ledger").out


def test_not_sealed(rep: Rep) -> None:
    """The ledger of an earlier version can't be verified, and the command says so."""
    write_ledger(Path("ledger"), [("http://a.example/", "allowed")])
    ended = rep("verify", "ledger")
    assert ended.status == 1
    assert ended.out.startswith("not sealed  ledger\n  crawl 1: shop, ")
    assert rep.records("verify", "ledger")[0]["digest"] is None


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("UPDATE seal SET last = 'x'", "bad value in 'last'"),
        ("UPDATE decision SET statement = CAST(x'ff' AS TEXT)", "Could not decode"),
    ],
)
def test_what_no_ledger_has(rep: Rep, script: str, words: str) -> None:
    """A value that no crawl writes is wrong input."""
    crawled(Path("ledger"))
    change(Path("ledger"), script)
    ended = rep("verify", "ledger")
    assert (ended.status, ended.out) == (2, "")
    assert words in ended.err
