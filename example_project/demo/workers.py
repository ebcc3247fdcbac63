"""Settings for several workers that share one crawl: SCRAPY_PROJECT=workers.

The workers, on one machine or many, share the queue of requests and what robots.txt files
say: of those that need one, one fetches it. Needs a Redis server, and
``pip install scrapy-rep[redis] scrapy-redis``.
"""

import os

from demo.settings import *

REDIS_URL = os.environ.get("REDIS_URL", "redis://127.0.0.1:6379/0")

# The requests: a queue that all workers take from, and that outlives them.
SCHEDULER = "scrapy_redis.scheduler.Scheduler"
SCHEDULER_PERSIST = True
DUPEFILTER_CLASS = "scrapy_redis.dupefilter.RFPDupeFilter"

# The robots.txt files.
REP_STORE = REDIS_URL

# The record: to each worker its own.
REP_LEDGER = "demo-%(pid)s.ledger"
