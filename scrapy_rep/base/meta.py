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
"""Internal: the origin that DONT_OBEY_ROBOTSTXT exempts from robots.txt. Another middleware may
later replace the URL of the request with the URL of a rendering service."""

PAGE_INIT = "_rep_page_init_callback"
"""Internal: the ``playwright_page_init_callback`` of the spider. This package replaces it with
``scrapy_rep.playwright.watch_page``, which calls the function stored here."""

# Flags.
COPIED_FLAG = "robotstxt_copy"
NOINDEX_FLAG = "noindex"
NOFOLLOW_FLAG = "nofollow"
