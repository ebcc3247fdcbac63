"""A spider in a process with fewer rights."""

from __future__ import annotations

import ctypes
import struct
from typing import TYPE_CHECKING, Any

from tests.crawl.spiders import PlanSpider

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

_VERSION_3 = 0x20080522  # See linux/capability.h.


class PowerlessSpider(PlanSpider):
    """Drops its capabilities, so that file modes apply to it also if root runs it."""

    name = "powerless"

    @classmethod
    def from_crawler(
        cls, crawler: Crawler, *args: Any, **kwargs: Any
    ) -> PowerlessSpider:
        none = struct.pack("6I", *[0] * 6)
        ctypes.CDLL(None).capset(struct.pack("Ii", _VERSION_3, 0), none)
        return super().from_crawler(crawler, *args, **kwargs)
