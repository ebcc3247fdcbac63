"""A spider in a process that takes 127.9.0.0/16 for public addresses."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Any

from scrapy_rep.fetching import boundary
from scrapy_rep.protocol.addresses import is_private
from tests.crawl.spiders import PlanSpider

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from scrapy_rep.protocol.addresses import Address

OUTSIDE = IPv4Network("127.9.0.0/16")


def _is_private(address: Address) -> bool:
    return address not in OUTSIDE and is_private(address)


class BoundarySpider(PlanSpider):
    name = "boundary"

    @classmethod
    def from_crawler(
        cls, crawler: Crawler, *args: Any, **kwargs: Any
    ) -> BoundarySpider:
        boundary.is_private = _is_private  # type: ignore[attr-defined]
        return super().from_crawler(crawler, *args, **kwargs)
