"""Settings for several workers that share one crawl: SCRAPY_PROJECT=workers.

The workers, on one machine or many, share the queue of requests and the robots.txt files.
They need a Redis server, and ``pip install scrapy-rep[redis] scrapy-redis``.
``python -m demo.many`` starts the server and the workers.
"""

import os

from demo.settings import *

REDIS_URL = os.environ.get("REDIS_URL", "redis://127.0.0.1:6379/0")

# The requests: one queue for all workers, which is kept when they end.
SCHEDULER = "scrapy_redis.scheduler.Scheduler"
SCHEDULER_PERSIST = True
DUPEFILTER_CLASS = "scrapy_rep.frontier.redis.dupefilter.DupeFilter"

# The add-on derives the rest from these settings:
# SCHEDULER_QUEUE_CLASS = "scrapy_rep.frontier.redis.HostQueue"
# REP_STORE = REDIS_URL

# The ledger: one for each worker.
REP_LEDGER = "demo-%(pid)s.ledger"

# Seconds without a heartbeat after which other workers get a worker's requests.
REP_QUEUE_LEASE = float(os.environ.get("LEASE", "60"))

# The site that all workers crawl, and the name of this worker: see demo/many.py.
BUNDLED_SITE = os.environ.get("BUNDLED_SITE")
WORKER = os.environ.get("WORKER")
