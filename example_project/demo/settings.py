"""Settings of the example project."""

BOT_NAME = "demo"
SPIDER_MODULES = ["demo.spiders"]

# This line makes a crawl obey robots.txt and the rules that pages state.
ADDONS = {"scrapy_rep.Addon": 500}

# The crawler introduces itself. robots.txt files address it by its product token, "demobot".
USER_AGENT = "demobot/1.0 (+https://www.example.com/demobot)"

# The settings of this project that differ from the defaults (see below).

# The robots.txt of one host is always unreachable. By default, the crawl would wait ten minutes for it.
REP_WAIT_TIMEOUT = 2

# Links with these rel values, for which the author does not vouch, are not followed.
REP_REL = ["nofollow", "ugc", "sponsored"]

# All decisions are recorded in this file, to which each crawl adds.
REP_LEDGER = "demo.ledger"
REP_LEDGER_LEVEL = "all"

# Every setting of scrapy-rep, with its default.
#
# Whether the crawl only reports what it would refuse or drop, and does neither.
# REP_DRY_RUN = False
#
# --- How robots.txt is parsed ---------------------------------------------------------

# The dialect: "rfc9309", "google" or "classic", or the import path of your own Dialect.
# REP_DIALECT = "rfc9309"

# Exceptions for hosts: {host pattern: "obey", "ignore", or the text of a robots.txt
# that replaces that of the host}.
# REP_OVERRIDES = {}

# --- How a robots.txt is fetched, and how long it stays fresh -------------------------

# The Request.meta keys, besides "proxy", that a request for robots.txt copies from the
# page request that waits for it.
# REP_REQUEST_META_KEYS = ["download_slot"]

# The longest time, in seconds, for which a robots.txt stays fresh, whatever its
# Cache-Control says.
# REP_MAX_AGE = 86400

# Where robots.txt files are kept: in memory ("memory://"), in a file that later crawls
# use too ("sqlite:///FILE"), or on a Redis server that several machines share
# ("redis://HOST"). With a JOBDIR, the default is a file there. "?mb=64" at the end limits
# the memory for robots.txt files; 128 MB is the default.
# REP_STORE = "memory://"

# For workers that share a queue in Redis: a worker without a heartbeat for so many
# seconds counts as dead, and the others take over its requests.
# REP_QUEUE_LEASE = 60

# --- Delays, pauses and limits --------------------------------------------------------

# Whether Crawl-delay and Request-rate are respected.
# REP_CRAWL_DELAY_OBEY = True

# Requests to hosts that ask for a longer delay than this, in seconds, are refused.
# REP_SKIP_DELAY_OVER = 180

# The longest pause, in seconds, after a 429, or after the second 503 in a row, if the
# answer has no Retry-After. 0 turns off pauses after 429 and 503.
# REP_BACKOFF_MAX = 60

# How many seconds requests wait before they are refused: while the robots.txt of their
# host is unreachable, and during a pause that the host asked for. If the crawler itself
# has no network for this time, the crawl ends.
# REP_WAIT_TIMEOUT = 600

# The most pages to fetch from each host, and the most requests in flight to all hosts
# on one IP address. 0 sets no limit.
# REP_PAGES_PER_HOST = 0
# REP_CONCURRENCY_PER_ADDRESS = 0

# --- Indexing rules of pages ----------------------------------------------------------

# What to do with items from pages with noindex: "drop", "annotate" or "ignore".
# REP_NOINDEX = "drop"

# The item field for the restrictions of the page, if one of these settings is "annotate".
# REP_ITEM_FIELD = "robots"

# What to do with requests from pages with nofollow: "drop" or "ignore".
# REP_NOFOLLOW = "drop"

# Links with one of these values of rel are not followed.
# REP_REL = []

# --- The purposes of the crawl --------------------------------------------------------

# The purposes for which items are used: "search", "ai-use", "train-ai", "tdm". Items of
# pages that disallow one of them are dropped. Without purposes, usage preferences are
# ignored.
# REP_PURPOSES = []

# What to do with items of pages that disallow a purpose: "drop", "annotate" or "ignore".
# REP_USAGE = "drop"

# Whether a page that states nothing about a purpose may be used for it: "allow" or "deny".
# REP_USAGE_UNKNOWN = "allow"

# --- The ledger -----------------------------------------------------------------------

# The SQLite file in which decisions are recorded; None for no file.
# REP_LEDGER = None

# "denied" records refusals and drops, "all" every decision.
# REP_LEDGER_LEVEL = "denied"

# --- Settings of Scrapy that scrapy-rep uses ------------------------------------------

# Whether robots.txt is obeyed. The add-on sets this to True.
# ROBOTSTXT_OBEY = True

# The product token, or a list of tokens in order of preference; None takes it from the
# User-Agent.
# ROBOTSTXT_USER_AGENT = None

# Settings of the example that have nothing to do with scrapy-rep.

# All requests go to the offline site; at the end, the report prints a table.
DOWNLOADER_MIDDLEWARES = {"demo.offline.middleware.OfflineSite": 700}
EXTENSIONS = {"demo.offline.report.Report": 0}

# Warnings are off, since the table has the same information. "DEBUG" logs each decision.
LOG_LEVEL = "ERROR"
# Off: workers that start at the same moment could choose the same port for the console.
TELNETCONSOLE_ENABLED = False
DEFAULT_DROPITEM_LOG_LEVEL = "INFO"
