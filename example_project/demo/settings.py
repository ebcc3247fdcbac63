"""Settings of the example project."""

BOT_NAME = "demo"
SPIDER_MODULES = ["demo.spiders"]

# The one line that makes a crawl keep to robots.txt, and to what pages say of themselves.
ADDONS = {"scrapy_rep.Addon": 500}

# Sites know a crawler by its product token: this one's is "demobot".
USER_AGENT = "demobot/1.0 (+https://www.example.com/demobot)"

# A few things that this project wants otherwise than they are by default (see below).

# One host of the site is down and stays down: to wait for it would take ten minutes.
REP_UNREACHABLE_WAIT = 0

# Links that the author of a page does not vouch for are left alone.
REP_REL = ["nofollow", "ugc", "sponsored"]

# What was asked and decided is put on record, and each crawl added to it.
REP_LEDGER = "demo.ledger"
REP_LEDGER_LEVEL = "all"

# Every setting of scrapy-rep, with its default.
#
# --- How it is read -------------------------------------------------------------------

# Which text to follow: "rfc9309", "google" or "classic", or the import path of a Dialect
# of your own.
# REP_DIALECT = "rfc9309"

# Short for REP_DIALECT = "google".
# REP_GOOGLE_COMPATIBLE = False

# Hosts that are treated otherwise: {host pattern: "obey", "ignore" or the text of a
# robots.txt to use in place of theirs}.
# REP_OVERRIDES = {}

# --- How a robots.txt is fetched, and for how long it holds ---------------------------

# Seconds after which a robots.txt that has not come counts as unreachable.
# REP_DOWNLOAD_TIMEOUT = 30

# How often a robots.txt is asked for again when there was no answer at all.
# REP_RETRY_TIMES = 1

# Request.meta keys that the request for a robots.txt takes over from the request that
# needs it, besides "proxy".
# REP_REQUEST_META_KEYS = ["download_slot"]

# Seconds that a robots.txt holds at most, whatever its Cache-Control says.
# REP_MAX_AGE = 86400

# Seconds that it holds at least, so that it is not fetched again for each page.
# REP_MIN_AGE = 300

# Where robots.txt files are kept: "memory://", "sqlite:///FILE" for later crawls, or
# "redis://HOST" for several machines. With a JOBDIR, the default is a file in it.
# REP_STORE = "memory://"

# Hosts whose robots.txt is kept in memory at most, and the bytes that all of them take.
# REP_STORE_MAX_ENTRIES = 100000
# REP_STORE_MAX_BYTES = 134217728

# Seconds that a request waits for a robots.txt that can't be had, before it is given up.
# REP_UNREACHABLE_WAIT = 600

# Of several workers on one queue in Redis: seconds without a sign of life after which what
# a worker has taken is given to others.
# REP_QUEUE_LEASE = 60

# Whether a robots.txt on a public address may be redirected to a private one.
# REP_REDIRECT_PRIVATE = False

# --- How fast, and when ---------------------------------------------------------------

# Whether Crawl-delay and Request-rate are kept to.
# REP_CRAWL_DELAY = True

# Seconds; a host that asks for a longer delay is skipped.
# REP_CRAWL_DELAY_MAX = 180

# Whether the workers on one store keep the delay of a host together.
# REP_SHARED_DELAY = True

# Whether hosts are visited only in the window of their Visit-time (UTC).
# REP_VISIT_TIME = True

# Seconds that a request waits for such a window to open, before it is given up.
# REP_VISIT_TIME_WAIT = 3600

# --- What pages say of themselves -----------------------------------------------------

# Whether X-Robots-Tag headers count.
# REP_HEADER_ENABLED = True

# Whether <meta name="robots"> tags count.
# REP_META_ENABLED = True

# What becomes of items from pages with noindex: "drop", "annotate" or "ignore".
# REP_NOINDEX = "drop"

# The field of items that "annotate", and a date of expiry, is written into.
# REP_ITEM_FIELD = "robots"

# What becomes of requests from pages with nofollow: "drop" or "ignore".
# REP_NOFOLLOW = "drop"

# Links with one of these values in their rel are not followed.
# REP_REL = []

# Whether a download ends at its headers where no item and no link of it is wanted.
# REP_STOP_DOWNLOAD = False

# --- What the crawl is for ------------------------------------------------------------

# Its purposes: "search", "ai-use", "train-ai", "tdm". Items of pages that are not for one
# of them are dropped. With none, nothing is asked.
# REP_PURPOSES = []

# What becomes of such items: "drop", "annotate" or "ignore".
# REP_USAGE = "drop"

# Whether a page may serve a purpose that nobody speaks about: "allow" or "deny".
# REP_USAGE_UNKNOWN = "allow"

# Product tokens by purpose: {"train-ai": "mybot-train"}.
# REP_AGENTS = {}

# --- What is put on record ------------------------------------------------------------

# The file that what was asked and decided is written into.
# REP_LEDGER = None

# "denied" for what was refused or dropped, "all" for every decision.
# REP_LEDGER_LEVEL = "denied"

# --- Scrapy's own settings that scrapy-rep keeps to -----------------------------------

# Whether robots.txt counts. The add-on sets this to True.
# ROBOTSTXT_OBEY = True

# The product token, or a list of tokens in order of preference; None takes it from the
# User-Agent.
# ROBOTSTXT_USER_AGENT = None

# And what has nothing to do with scrapy-rep.

# All requests go to the bundled site, and a table ends the crawl.
DOWNLOADER_MIDDLEWARES = {"demo.middlewares.BundledSite": 700}
EXTENSIONS = {"demo.extensions.Report": 0}

# Let the table stand alone. "DEBUG" shows each decision when it is made.
LOG_LEVEL = "WARNING"
# Workers that start at the same moment can take the same port for it.
TELNETCONSOLE_ENABLED = False
DEFAULT_DROPITEM_LOG_LEVEL = "INFO"
