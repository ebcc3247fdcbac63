"""Every key of ``Request.meta`` that this package reads or writes, and every flag that it
sets on a Response.

What the public ones mean is in ``docs/reference/meta.md``, and a test holds the two together.
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
"""Internal: the origin of a request with DONT_OBEY_ROBOTSTXT when it was first met. What
renders pages for a spider may have it sent elsewhere."""

PAGE_INIT = "_rep_page_init_callback"
"""Internal: what a spider has scrapy-playwright call with a new page, beside what this
package has it call."""

REFUSALS = "_rep_refusals"
"""Internal: what the page of an item has against the image that a media pipeline asks for."""

# Flags.
COPIED_FLAG = "robotstxt_copy"
NOINDEX_FLAG = "noindex"
NOFOLLOW_FLAG = "nofollow"
