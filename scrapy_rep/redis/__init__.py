"""The host queue of a crawl with several workers, on the Redis server that they share.

For scrapy-redis: ``SCHEDULER_QUEUE_CLASS = "scrapy_rep.redis.RedisHostQueue"`` and
``DUPEFILTER_CLASS = "scrapy_rep.redis.RedisDupeFilter"``.
"""

from __future__ import annotations

from scrapy_rep.redis.queue import RedisDupeFilter, RedisHostQueue

__all__ = ["RedisDupeFilter", "RedisHostQueue"]
