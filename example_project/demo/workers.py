"""Settings for several workers that share one crawl: SCRAPY_PROJECT=workers.

The workers, on one machine or many, share the queue of requests and what robots.txt files
say. Needs a Redis server, and ``pip install scrapy-rep[redis] scrapy-redis``.
``python -m demo.many`` starts the server and the workers.
"""

import os

from demo.settings import *

REDIS_URL = os.environ.get("REDIS_URL", "redis://127.0.0.1:6379/0")

# The requests: a queue that all workers take from, and that outlives them.
SCHEDULER = "scrapy_redis.scheduler.Scheduler"
SCHEDULER_PERSIST = True
DUPEFILTER_CLASS = "scrapy_rep.frontier.redis.dupefilter.DupeFilter"

# The add-on sets the rest, from these:
# SCHEDULER_QUEUE_CLASS = "scrapy_rep.frontier.redis.HostQueue"
# REP_STORE = REDIS_URL

# The record: to each worker its own.
REP_LEDGER = "demo-%(pid)s.ledger"

# Seconds without a sign of life after which others get what a worker has taken.
REP_QUEUE_LEASE = float(os.environ.get("LEASE", "60"))

# Where the site is that all workers crawl, and which of them this is: see demo/many.py.
BUNDLED_SITE = os.environ.get("BUNDLED_SITE")
WORKER = os.environ.get("WORKER")
