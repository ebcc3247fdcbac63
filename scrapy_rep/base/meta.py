"""The ``Request.meta`` keys that this package reads, and the flags that it adds to ``Response.flags``.

``docs/reference/meta.md`` describes these keys and flags. A test compares that page with this module.
"""

from __future__ import annotations

# This key is Scrapy's own.
DONT_OBEY_ROBOTSTXT = "dont_obey_robotstxt"

DONT_OBEY_NOFOLLOW = "dont_obey_nofollow"
DONT_OBEY_NOINDEX = "dont_obey_noindex"
PURPOSES = "rep_purposes"

# The flags that this package adds to Response.flags.
COPIED_FLAG = "robotstxt_copy"
NOINDEX_FLAG = "noindex"
NOFOLLOW_FLAG = "nofollow"
