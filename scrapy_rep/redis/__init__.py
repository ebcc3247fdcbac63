"""The scheduler of a crawl with several workers. All workers share one request queue on a Redis server.

The add-on replaces ``scrapy_redis.scheduler.Scheduler`` with this scheduler.
"""

from __future__ import annotations

from scrapy_rep.redis.scheduler import SharedScheduler

__all__ = ["SharedScheduler"]
