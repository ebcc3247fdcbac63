"""Settings of the example project."""

BOT_NAME = "demo"
SPIDER_MODULES = ["demo.spiders"]

# This setting makes a crawl obey robots.txt, and the rules that pages state.
ADDONS = {"scrapy_rep.Addon": 500}

# The User-Agent of the crawler. User-agent lines in robots.txt files name the crawler by its product token, "demobot".
USER_AGENT = "demobot/1.0 (+https://www.example.com/demobot)"

# The settings of this project that differ from the defaults (see below).

# The server of one host always responds with an error to requests for robots.txt. By default, requests to this host
# would wait ten minutes before they are refused.
REP_WAIT_TIMEOUT = 2

# Links with these rel values are not followed, because the author does not vouch for these links.
REP_REL = ["nofollow", "ugc", "sponsored"]

# Each crawl appends all its decisions to this file.
REP_LEDGER = "demo.ledger"
REP_LEDGER_LEVEL = "all"

# All settings of scrapy-rep, with their defaults.
#
# Whether the crawl refuses and drops nothing, and only reports what it would refuse or drop.
# REP_DRY_RUN = False
#
# --- How robots.txt is parsed ---------------------------------------------------------

# The dialect: "rfc9309", "google" or "classic", or the import path of your own Dialect.
# REP_DIALECT = "rfc9309"

# Exceptions for hosts. The keys are host patterns. The values are "obey", "ignore", or
# the text of a robots.txt that replaces the host's robots.txt.
# REP_OVERRIDES = {}

# --- How a robots.txt is fetched, and how long it stays fresh -------------------------

# The Request.meta keys, besides "proxy", that a request for robots.txt copies from the
# page request that waits for it.
# REP_REQUEST_META_KEYS = ["download_slot"]

# The maximum time in seconds for which a robots.txt stays fresh, even if its Cache-Control
# header allows more.
# REP_MAX_AGE = 86400

# Where robots.txt files are kept: in memory ("memory://"), in a file that later crawls
# reuse ("sqlite:///FILE"), or on a Redis server that several machines share
# ("redis://HOST"). With a JOBDIR, the default is a file in this folder. "?mb=64" at the
# end of an address limits the memory for robots.txt files to 64 MB. The default is 128 MB.
# REP_STORE = "memory://"

# For workers that share a queue in Redis: a worker without a heartbeat for this number of
# seconds counts as dead, and other workers take over its requests.
# REP_QUEUE_LEASE = 60

# --- Delays, pauses and limits --------------------------------------------------------

# Whether Crawl-delay and Request-rate are respected.
# REP_CRAWL_DELAY_OBEY = True

# The maximum delay in seconds. Requests to hosts with a longer Crawl-delay are refused.
# REP_SKIP_DELAY_OVER = 180

# The maximum pause in seconds after a 429 or 503 without Retry-After. 0 turns off all
# pauses, including those that Retry-After asks for.
# REP_BACKOFF_MAX = 60

# The maximum time in seconds that requests wait while their host's robots.txt is
# unreachable, or while the host asks for a pause. After that, the requests are refused. If
# the crawler has no network for this time, the crawl ends.
# REP_WAIT_TIMEOUT = 600

# The maximum number of pages to fetch from each host, and the maximum number of requests
# in flight to all hosts on one IP address. 0 sets no limit.
# REP_PAGES_PER_HOST = 0
# REP_CONCURRENCY_PER_ADDRESS = 0

# --- Indexing rules of pages ----------------------------------------------------------

# The treatment of items from pages with noindex: "drop", "annotate" or "ignore".
# REP_NOINDEX = "drop"

# The item field for the page's restrictions, if REP_NOINDEX or REP_USAGE is "annotate".
# REP_ITEM_FIELD = "robots"

# The treatment of requests for links on pages with nofollow: "drop" or "ignore".
# REP_NOFOLLOW = "drop"

# The rel values with which links are not followed.
# REP_REL = []

# --- The purposes of the crawl --------------------------------------------------------

# The purposes for which items are used: "search", "ai-use", "train-ai" or "tdm". Items
# from pages that disallow one of these purposes are dropped. Without purposes, usage
# preferences have no effect.
# REP_PURPOSES = []

# The treatment of items from pages that disallow a purpose: "drop", "annotate" or "ignore".
# REP_USAGE = "drop"

# Whether a page that states nothing about a purpose may be used for it: "allow" or "deny".
# REP_USAGE_UNKNOWN = "allow"

# --- The ledger -----------------------------------------------------------------------

# The path of the SQLite file in which decisions are recorded. None turns off the ledger.
# REP_LEDGER = None

# The recorded decisions: "denied" for refusals and drops, "all" for every decision.
# REP_LEDGER_LEVEL = "denied"

# --- Settings of Scrapy that scrapy-rep uses ------------------------------------------

# Whether robots.txt is obeyed. With the add-on, the default is True.
# ROBOTSTXT_OBEY = True

# The crawler's product token, or a list of tokens in order of preference. With None, the
# tokens are taken from the User-Agent header.
# ROBOTSTXT_USER_AGENT = None

# Settings of the example that have nothing to do with scrapy-rep.

# All requests are routed to the offline site. At the end, the report prints a table.
DOWNLOADER_MIDDLEWARES = {"demo.offline.middleware.OfflineSite": 700}
EXTENSIONS = {"demo.offline.report.Report": 0}

# The log does not contain warnings, because the table at the end of the demo contains the same
# information. With "DEBUG", the log contains each decision.
LOG_LEVEL = "ERROR"
# The console is off, because workers that start at the same time could choose the same port.
TELNETCONSOLE_ENABLED = False
DEFAULT_DROPITEM_LOG_LEVEL = "INFO"
