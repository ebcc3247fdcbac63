"""The scheduler of a crawl with several workers, whose requests are on the Redis server that they share.

The add-on puts it in the place of ``scrapy_redis.scheduler.Scheduler``.
"""

from __future__ import annotations

from scrapy_rep.redis.scheduler import SharedScheduler

__all__ = ["SharedScheduler"]
