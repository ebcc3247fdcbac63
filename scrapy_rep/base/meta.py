"""All keys of ``Request.meta`` that this package reads, and all flags that it sets on responses.

``docs/reference/meta.md`` describes them; a test compares the two lists.
"""

from __future__ import annotations

# This key is Scrapy's own.
DONT_OBEY_ROBOTSTXT = "dont_obey_robotstxt"

DONT_OBEY_NOFOLLOW = "dont_obey_nofollow"
DONT_OBEY_NOINDEX = "dont_obey_noindex"
PURPOSES = "rep_purposes"

# Flags.
COPIED_FLAG = "robotstxt_copy"
NOINDEX_FLAG = "noindex"
NOFOLLOW_FLAG = "nofollow"
