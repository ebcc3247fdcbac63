"""Tests of the resolver in SECURITY.md, which keeps a crawl out of the private network of its machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from scrapy.settings import default_settings

from tests.crawl import own_resolver
from tests.crawl.crawl import ROOT, run_crawl

if TYPE_CHECKING:
    from tests.crawl.server import Site

NAME = "DNS_RESOLVER"
if hasattr(default_settings, f"TWISTED_{NAME}"):
    NAME = f"TWISTED_{NAME}"
RESOLVER = f"{own_resolver.__name__}.PublicResolver"

pytestmark = [pytest.mark.newest, pytest.mark.unmeasured]


def test_security_md_shows_the_tested_resolver() -> None:
    page = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    code = Path(own_resolver.__file__).read_text(encoding="utf-8")
    assert f"```python\n{code.partition(chr(10))[2].lstrip()}```" in page


def test_the_resolver_prevents_requests_to_private_addresses(
    site: Site,
) -> None:
    """Neither pages nor robots.txt are fetched from a private address. Since the resolver decides for each
    request, the targets of links and redirects are covered as well.
    """
    hosts = [site.add(), site.add(name="localhost")]
    requests = [host.url("/public") for host in hosts]
    requests += [
        {"url": host.url("/exempt"), "meta": {"dont_obey_robotstxt": True}}
        for host in hosts
    ]
    result = run_crawl(requests, settings={NAME: RESOLVER})
    assert [host.hits for host in hosts] == [[], []]
    assert len(result.errors) == 4
    assert result.lines("WARNING", "the host name could not be resolved")
