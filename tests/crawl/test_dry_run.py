"""A dry run changes nothing, and says exactly what a real run withholds."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from tests import effort
from tests.crawl.crawl import ADDON, CrawlResult, run_crawl
from tests.crawl.dry_run_site import build

if TYPE_CHECKING:
    from pathlib import Path

    from tests.crawl.server import Host, Site

pytestmark = pytest.mark.unmeasured

DRY = {**ADDON, "REP_DRY_RUN": True}
REAL_VERDICTS = {"would-refuse": "refused", "would-drop": "dropped"}
TDMREP = "/.well-known/tdmrep.json"
COLUMNS = "subject, verdict, layer, reason, url, page, agent, line, statement, form"


def ledger(tmp_path: Path, name: str) -> dict[str, str]:
    return {"REP_LEDGER": str(tmp_path / f"{name}.sqlite")}


def withheld(settings: dict[str, str]) -> Counter[tuple[Any, ...]]:
    """Return what a ledger says was withheld, or would be, with the verdicts of a real run."""
    query = f"SELECT {COLUMNS} FROM decision WHERE verdict NOT IN ('allowed', 'noted')"
    with closing(sqlite3.connect(settings["REP_LEDGER"])) as file:
        found = file.execute(query).fetchall()
    return Counter(
        (subject, REAL_VERDICTS.get(verdict, verdict), *others)
        for subject, verdict, *others in found
    )


def requests(site: Site) -> Counter[tuple[str, str]]:
    """Return the requests of the spider that the hosts got, and forget all."""
    own = {"/robots.txt", "/moved.txt", TDMREP}
    hits = [hit for hit in site.log if hit.path not in own]
    site.log.clear()
    return Counter((hit.host.name, hit.path) for hit in hits)


def run(
    site: Site,
    hosts: list[Host],
    starts: list[str],
    settings: dict[str, Any],
    **kwargs: Any,
) -> tuple[CrawlResult, Counter[tuple[str, str]]]:
    names = {host.name: ["127.0.0.1"] for host in hosts}
    result = run_crawl(
        starts,
        spider="tests.crawl.dry_run_site.SiteSpider",
        names=names,
        settings=settings,
        timeout=600,
        **kwargs,
    )
    assert result.exit_code == 0, result.log
    return result, requests(site)


def test_compared_with_both_runs(site: Site, mode: str, tmp_path: Path) -> None:
    """A dry run sends the same requests and makes the same items as the crawl without this
    package, and its ledger has exactly what the ledger of a real run has.
    """
    size = (200, 100) if effort.is_long else (16, 25)
    hosts, starts = build(site, *size)
    settings: dict[str, Any] = {
        "ITEM_PIPELINES": {"scrapy.pipelines.images.ImagesPipeline": 1},
        "IMAGES_STORE": str(tmp_path / "images"),
        "IMAGES_EXPIRES": 0,
        "MEDIA_ALLOW_REDIRECTS": True,
        "REP_REL": ["nofollow"],
        "REP_PURPOSES": ["train-ai"],
    }
    real_ledger, dry_ledger = ledger(tmp_path, "real"), ledger(tmp_path, "dry")
    stock, by_stock = run(site, hosts, starts, settings, mode=mode, enable={})
    dry, by_dry = run(
        site, hosts, starts, {**settings, **dry_ledger}, mode=mode, enable=DRY
    )
    real, by_real = run(site, hosts, starts, {**settings, **real_ledger}, mode=mode)
    assert by_dry == by_stock
    assert sorted(map(repr, dry.items)) == sorted(map(repr, stock.items))
    assert by_real < by_stock
    would, was = withheld(dry_ledger), withheld(real_ledger)
    assert would - was == Counter()
    assert was - would == Counter()
    kinds = Counter((subject, reason) for subject, _, _, reason, *_ in was.elements())
    assert {"request", "link", "item", "file"} <= {subject for subject, _ in kinds}
    assert {"rule", "unreachable", "crawl-delay"} <= {reason for _, reason in kinds}
    assert dry.stats["rep/dry_run/not_judged"] == 0
