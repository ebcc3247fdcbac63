"""Every key of ``Request.meta`` that this package reads or writes, and every flag that it
sets on a Response.

``docs/reference/meta.md`` describes the public ones; a test compares the two lists.
"""

from __future__ import annotations

# Scrapy's own.
DONT_OBEY_ROBOTSTXT = "dont_obey_robotstxt"

DONT_OBEY_NOFOLLOW = "dont_obey_nofollow"
DONT_OBEY_NOINDEX = "dont_obey_noindex"
INDEXING = "rep_indexing"
PURPOSES = "rep_purposes"
USAGE = "rep_usage"

EXEMPT_ORIGIN = "_rep_exempt_origin"
"""Internal: the origin of a request with DONT_OBEY_ROBOTSTXT when this package first saw it.
A rendering service may change its URL later."""

PAGE_INIT = "_rep_page_init_callback"
"""Internal: the spider's own function for new pages of scrapy-playwright. This package replaces
it by a function that calls it at its end."""

REFUSALS = "_rep_refusals"
"""Internal: the statements by which the page of an item forbids the indexing or use of the
image that a media pipeline requests."""

# Flags.
COPIED_FLAG = "robotstxt_copy"
NOINDEX_FLAG = "noindex"
NOFOLLOW_FLAG = "nofollow"
