"""Settings of the example project."""

BOT_NAME = "demo"
SPIDER_MODULES = ["demo.spiders"]

# This line makes a crawl obey robots.txt and the rules that pages state.
ADDONS = {"scrapy_rep.Addon": 500}

# Sites address a crawler by its product token: this one's is "demobot".
USER_AGENT = "demobot/1.0 (+https://www.example.com/demobot)"

# The settings of this project that differ from the defaults (see below).

# One host of the site is always down: waiting for it would take ten minutes.
REP_WAIT_TIMEOUT = 2

# Links with these rel values, for which the author does not vouch, are not followed.
REP_REL = ["nofollow", "ugc", "sponsored"]

# Requests and decisions are recorded; each crawl adds to the file.
REP_LEDGER = "demo.ledger"
REP_LEDGER_LEVEL = "all"

# Every setting of scrapy-rep, with its default.
#
# Whether the crawl only says what it would withhold, and withholds nothing.
# REP_DRY_RUN = False
#
# --- How robots.txt is parsed ---------------------------------------------------------

# The dialect: "rfc9309", "google" or "classic", or the import path of your own Dialect.
# REP_DIALECT = "rfc9309"

# Hosts with exceptions: {host pattern: "obey", "ignore" or the text of a robots.txt
# that replaces theirs}.
# REP_OVERRIDES = {}

# --- How a robots.txt is fetched, and how long it stays fresh -------------------------

# Request.meta keys that a robots.txt request copies, besides "proxy", from the request
# that needs it.
# REP_REQUEST_META_KEYS = ["download_slot"]

# Seconds that a robots.txt stays fresh at most, whatever its Cache-Control says.
# REP_MAX_AGE = 86400

# Where robots.txt files are kept: "memory://", "sqlite:///FILE" for later crawls, or
# "redis://HOST" for several machines. With a JOBDIR, the default is a file in it.
# "?mb=64" at the end limits the memory that they take; 128 MB is the default.
# REP_STORE = "memory://"

# For several workers on one queue in Redis: seconds without a heartbeat after which
# other workers get a worker's requests.
# REP_QUEUE_LEASE = 60

# --- How fast, and when ---------------------------------------------------------------

# Whether Crawl-delay and Request-rate are respected.
# REP_CRAWL_DELAY_OBEY = True

# Seconds; hosts that ask for a longer delay are skipped.
# REP_SKIP_DELAY_OVER = 180

# Seconds; the longest pause after a 429, or the second 503 in a row, without a Retry-After. 0 ignores
# both.
# REP_BACKOFF_MAX = 60

# Seconds that requests wait for a host before they are refused: while its robots.txt is
# unreachable, and during a pause that it asked for. If the crawler has no network for as
# long, the crawl ends.
# REP_WAIT_TIMEOUT = 600

# How many pages of each host are fetched, and how many requests are in flight to all hosts on
# one address. 0 sets no limit.
# REP_PAGES_PER_HOST = 0
# REP_CONCURRENCY_PER_ADDRESS = 0

# --- The rules that pages state -------------------------------------------------------

# What to do with items from pages with noindex: "drop", "annotate" or "ignore".
# REP_NOINDEX = "drop"

# The item field for "annotate".
# REP_ITEM_FIELD = "robots"

# What to do with requests from pages with nofollow: "drop" or "ignore".
# REP_NOFOLLOW = "drop"

# Values of rel whose links are not followed.
# REP_REL = []

# --- The purposes of the crawl --------------------------------------------------------

# Purposes: "search", "ai-use", "train-ai", "tdm". Items of pages that forbid one of
# them are dropped. Without purposes, usage preferences are ignored.
# REP_PURPOSES = []

# What to do with such items: "drop", "annotate" or "ignore".
# REP_USAGE = "drop"

# Whether a page without a statement about a purpose may serve it: "allow" or "deny".
# REP_USAGE_UNKNOWN = "allow"

# --- The record -----------------------------------------------------------------------

# The file that requests and decisions are recorded in.
# REP_LEDGER = None

# "denied" records refusals and drops, "all" every decision.
# REP_LEDGER_LEVEL = "denied"

# --- Settings of Scrapy that scrapy-rep uses ------------------------------------------

# Whether robots.txt is obeyed. The add-on sets this to True.
# ROBOTSTXT_OBEY = True

# The product token, or a list of tokens in order of preference; None takes it from the
# User-Agent.
# ROBOTSTXT_USER_AGENT = None

# Settings without relation to scrapy-rep.

# All requests go to the offline site, and a table ends the crawl.
DOWNLOADER_MIDDLEWARES = {"demo.offline.middleware.OfflineSite": 700}
EXTENSIONS = {"demo.offline.report.Report": 0}

# The table says what the warnings would. "DEBUG" logs each decision.
LOG_LEVEL = "ERROR"
# Workers that start at the same moment could take the same port for it.
TELNETCONSOLE_ENABLED = False
DEFAULT_DROPITEM_LOG_LEVEL = "INFO"
