"""Every stat key that this package writes.

``docs/reference/stats.md`` describes each of them; a test compares the two lists.
"""

from __future__ import annotations

# Scrapy's own, with their meaning.
REQUEST_COUNT = "robotstxt/request_count"
RESPONSE_COUNT = "robotstxt/response_count"
RESPONSE_STATUS_COUNT = "robotstxt/response_status_count/{status}"
EXCEPTION_COUNT = "robotstxt/exception_count/{type}"
FORBIDDEN = "robotstxt/forbidden"

ABORTED = "rep/browser/aborted"
ARRIVED = "rep/browser/arrived"
BACK_OFF_HOSTS = "rep/backoff/hosts"
PAUSES = "rep/backoff/pauses"
PAUSED = "rep/backoff/seconds"
DELAYED_HOSTS = "rep/crawl_delay/hosts"
SKIPPED_HOSTS = "rep/crawl_delay/skipped"
WAITED = "rep/crawl_delay/waited"
DENIED = "rep/denied/{reason}"
GIVEN_UP = "rep/given_up"
LEDGER_DROPPED = "rep/ledger/dropped"
LEDGER_ERRORS = "rep/ledger/errors"
LEDGER_RECORDED = "rep/ledger/recorded"
NOFOLLOW = "rep/nofollow/{source}"
ANNOTATED = "rep/noindex/annotated"
NOINDEX = "rep/noindex/dropped/{rule}"
EXPIRING = "rep/noindex/expiring"
MEDIA_REFUSED = "rep/noindex/media/{rule}"
NOT_ANNOTATED = "rep/noindex/not_annotated"
OVERRIDE = "rep/override/{kind}"
FROM_COPY = "rep/robotstxt/from_copy"
FROM_STORE = "rep/robotstxt/from_store"
ACCESS = "rep/robotstxt/{access}"
STORE_ERRORS = "rep/store/errors"
TDMREP = "rep/tdmrep/{access}"
USAGE_ANNOTATED = "rep/usage/annotated"
USAGE_DROPPED = "rep/usage/dropped/{purpose}"
USAGE_MEDIA = "rep/usage/media/{purpose}"
