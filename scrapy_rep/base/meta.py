"""Every key of ``Request.meta`` that this package reads or writes, and every flag that it
sets on a Response.

``docs/reference/meta.md`` describes the public ones; a test compares the two lists.
"""

from __future__ import annotations

# A key of Scrapy.
DONT_OBEY_ROBOTSTXT = "dont_obey_robotstxt"

DONT_OBEY_NOFOLLOW = "dont_obey_nofollow"
DONT_OBEY_NOINDEX = "dont_obey_noindex"
PURPOSES = "rep_purposes"

# Flags.
COPIED_FLAG = "robotstxt_copy"
NOINDEX_FLAG = "noindex"
NOFOLLOW_FLAG = "nofollow"
