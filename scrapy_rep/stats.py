"""Every stat key that this package writes."""

from __future__ import annotations

# Scrapy's own, with their meaning.
REQUEST_COUNT = "robotstxt/request_count"
"""robots.txt files asked for, redirects not counted."""
RESPONSE_COUNT = "robotstxt/response_count"
"""Answers to that."""
RESPONSE_STATUS_COUNT = "robotstxt/response_status_count/{status}"
"""Answers by status."""
EXCEPTION_COUNT = "robotstxt/exception_count/{type}"
"""Fetches of robots.txt that ended in an exception, by its class."""
FORBIDDEN = "robotstxt/forbidden"
"""Requests not sent because of robots.txt."""

DENIED = "rep/denied/{reason}"
"""The same, by the reason of the decision."""
ABORTED = "rep/browser/aborted"
"""Requests of a browser that were not sent because of robots.txt."""
ARRIVED = "rep/browser/arrived"
"""Responses refused because the browser had gone to a URL that robots.txt forbids."""
ACCESS = "rep/robotstxt/{access}"
"""Fetches of robots.txt by outcome: successful, unavailable, unreachable."""
FROM_COPY = "rep/robotstxt/from_copy"
"""Requests of spiders for robots.txt that were answered from the copy at hand."""
GIVEN_UP = "rep/given_up"
"""Requests refused while they were in the queue, since the robots.txt of their host stayed
unreachable."""
DELAYED_HOSTS = "rep/crawl_delay/hosts"
"""Hosts that ask for a delay between requests."""
SKIPPED_HOSTS = "rep/crawl_delay/skipped"
"""Hosts that ask for a longer delay than REP_CRAWL_DELAY_MAX."""
WAITED = "rep/crawl_delay/waited"
"""Seconds, added up over hosts, in which requests waited for a delay to pass."""
OVERRIDE = "rep/override/{kind}"
"""Requests that REP_OVERRIDES decided on: obey, ignore, robotstxt."""

ANNOTATED = "rep/noindex/annotated"
"""Items that the rules were written into."""
NOT_ANNOTATED = "rep/noindex/not_annotated"
"""Items that have no field for them."""
NOINDEX = "rep/noindex/dropped/{rule}"
"""Items dropped, by the rule: noindex, unavailable_after."""
EXPIRING = "rep/noindex/expiring"
"""Items of pages that say until when they may be in an index."""
MEDIA_REFUSED = "rep/noindex/media/{rule}"
"""Files kept from media pipelines, by the rule: noindex, noimageindex."""
NOFOLLOW = "rep/nofollow/{source}"
"""Requests of callbacks not sent, by what was against it: page, rel."""
FROM_STORE = "rep/robotstxt/from_store"
"""robots.txt files that were not asked for, since the store had them."""
STORE_ERRORS = "rep/store/errors"
"""Calls of the store that failed."""
LEDGER_DROPPED = "rep/ledger/dropped"
"""Records that are missing in the ledger, since it could not be written in time."""
LEDGER_ERRORS = "rep/ledger/errors"
"""Times that the ledger could not be written, tries again included."""
LEDGER_RECORDED = "rep/ledger/recorded"
"""Decisions and robots.txt files written into the ledger."""
STOPPED = "rep/stopped/count"
"""Downloads stopped at their headers."""
STOPPED_BYTES = "rep/stopped/bytes"
"""Bytes that these would have had, as far as their headers said."""
TDMREP = "rep/tdmrep/{access}"
"""Fetches of tdmrep.json by outcome: successful, unavailable, unreachable."""
USAGE_ANNOTATED = "rep/usage/annotated"
"""Items that what their page may be used for was written into."""
USAGE_DROPPED = "rep/usage/dropped/{purpose}"
"""Items dropped, by the purpose that their page is not for."""
USAGE_MEDIA = "rep/usage/media/{purpose}"
"""Files kept from media pipelines, by the purpose that they are not for."""

ALL = (
    ABORTED,
    ARRIVED,
    ANNOTATED,
    NOT_ANNOTATED,
    NOINDEX,
    EXPIRING,
    MEDIA_REFUSED,
    NOFOLLOW,
    FROM_STORE,
    STORE_ERRORS,
    LEDGER_DROPPED,
    LEDGER_ERRORS,
    LEDGER_RECORDED,
    STOPPED,
    STOPPED_BYTES,
    REQUEST_COUNT,
    RESPONSE_COUNT,
    RESPONSE_STATUS_COUNT,
    EXCEPTION_COUNT,
    FORBIDDEN,
    DENIED,
    ACCESS,
    FROM_COPY,
    GIVEN_UP,
    DELAYED_HOSTS,
    SKIPPED_HOSTS,
    WAITED,
    OVERRIDE,
    TDMREP,
    USAGE_ANNOTATED,
    USAGE_DROPPED,
    USAGE_MEDIA,
)
