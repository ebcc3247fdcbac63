"""Tests of crawls on a Scrapy that lacks one of the private names that this package uses.

The consequences must be those in docs/explanation/scrapy.md.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from scrapy_rep.base import compat
from tests.crawl.answers import Answer, robots
from tests.crawl.crawl import ROOT, run_crawl

if TYPE_CHECKING:
    from pathlib import Path

    from tests.crawl.server import Site

pytestmark = [pytest.mark.newest, pytest.mark.unmeasured]

RULES = "User-agent: *\nDisallow: /private/\n"
NAMES = [
    "_slot.closing",
    "_slot.inprogress",
    "_slot.nextcall.schedule",
    "downloader.active",
    "downloader.get_slot_key",
    "downloader.slots",
]
SLOT_ATTRIBUTES = ["slot.concurrency", "slot.delay", "slot.lastseen", "slot.queue"]


def test_the_private_names_in_use_are_those_of_this_test_and_of_the_documentation() -> (
    None
):
    """The package uses only the private names in NAMES, the attributes of download slots, and ``_auth_proxy``. The
    documentation lists all of them.
    """
    text = (ROOT / "scrapy_rep/base/compat.py").read_text(encoding="utf-8")
    paths = set(re.findall(r'_find\((?:\w|\.)+, "([\w.]+)"\)', text))
    # "queue" is an attribute of slots. All other paths without a dot are attributes of the downloader.
    used = {path if "." in path else f"downloader.{path}" for path in paths - {"queue"}}
    # The downloader of the engine is public.
    assert used - {"downloader.downloader"} == set(NAMES)
    assert compat.PROXY_AUTH_META_KEY == "_auth_proxy"
    page = (ROOT / "docs/explanation/scrapy.md").read_text(encoding="utf-8")
    for name in NAMES:
        assert f"`{name}`" in page or f"engine.{name}`" in page, name


@pytest.mark.parametrize("name", [*NAMES, *SLOT_ATTRIBUTES])
def test_without_a_private_name_a_crawl_still_obeys_and_warns_once(
    site: Site, tmp_path: Path, name: str
) -> None:
    """No forbidden request is sent, delays are kept, each allowed page is fetched, and one warning names the missing
    name.
    """
    slow = site.add(f"{RULES}Crawl-delay: 0.2\n")
    late = site.add([Answer(status=503), robots(RULES)], name="127.0.1.1")
    result = run_crawl(
        [
            host.url(f"/{kind}/{n}")
            for n in range(4)
            for host in (slow, late)
            for kind in ("public", "private")
        ],
        settings={
            "EXTENSIONS": {"tests.crawl.missing_names.HidePrivateName": 1},
            # A crawl looks a name up only if it needs the name. These two settings make it need the name.
            "DOWNLOAD_DELAY": 0.02 if name in SLOT_ATTRIBUTES else 0,
            "JOBDIR": str(tmp_path) if name == "_slot.inprogress" else None,
            "MISSING": name,
            "REP_WAIT_TIMEOUT": 30,
        },
        constants={"scrapy_rep.protocol.access.freshness._FIRST_RETRY": 0.5},
        timeout=50,
    )
    assert len(slow.pages) == len(late.pages) == 4
    assert not any("private" in path for path in slow.pages + late.pages)
    assert all(gap >= 0.2 for gap in slow.gaps)
    assert [error["reason"] for error in result.errors] == ["rule"] * 8
    assert result.stats["finish_reason"] == "finished"
    (line,) = result.lines("WARNING", "has no attribute")
    assert name.rpartition(".")[2] in line
