"""Every key of ``Request.meta`` that this package reads or writes, and every flag that it
sets on a Response.
"""

from __future__ import annotations

DONT_OBEY_ROBOTSTXT = "dont_obey_robotstxt"
"""Scrapy's own: the request is sent whatever robots.txt says. It ends where a redirect
leads to another origin."""

DONT_OBEY_NOFOLLOW = "dont_obey_nofollow"
"""On a request that a callback makes: it is sent, whatever the page says of its links."""

DONT_OBEY_NOINDEX = "dont_obey_noindex"
"""The items of the response are kept, whatever it says of indexing."""

EXEMPT_ORIGIN = "_rep_exempt_origin"
"""Internal: the origin that such a request was for when it was first met. What renders
pages for a spider may have it sent elsewhere."""

INDEXING = "rep_indexing"
"""On a response: its :class:`~scrapy_rep.protocol.indexing.rules.IndexingRules`."""

PAGE_INIT = "_rep_page_init_callback"
"""Internal: what a spider has scrapy-playwright call with a new page, beside what this
package has it call."""

PURPOSES = "rep_purposes"
"""On a request: what its response is for, in the place of ``REP_PURPOSES``."""

REFUSALS = "_rep_refusals"
"""Internal: what the page of an item has against the image that a media pipeline asks for."""

USAGE = "rep_usage"
"""On a response: its :class:`~scrapy_rep.protocol.usage.preferences.UsagePreferences`."""

COPIED_FLAG = "robotstxt_copy"
"""On a Response, as a flag: it was not downloaded, but made from the robots.txt at hand."""

NOINDEX_FLAG = "noindex"
"""On a Response, as a flag: it says that it must not be in an index."""

NOFOLLOW_FLAG = "nofollow"
"""On a Response, as a flag: it says that its links must not be followed."""
