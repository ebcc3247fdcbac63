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

INDEXING = "rep_indexing"
"""On a response: its :class:`~scrapy_rep.protocol.indexing.rules.IndexingRules`."""

PURPOSES = "rep_purposes"
"""On a request: what its response is for, in the place of ``REP_PURPOSES``."""

USAGE = "rep_usage"
"""On a response: its :class:`~scrapy_rep.protocol.usage.preferences.UsagePreferences`."""

COPIED_FLAG = "robotstxt_copy"
"""On a Response, as a flag: it was not downloaded, but made from the robots.txt at hand."""

NOINDEX_FLAG = "noindex"
"""On a Response, as a flag: it says that it must not be in an index."""

NOFOLLOW_FLAG = "nofollow"
"""On a Response, as a flag: it says that its links must not be followed."""
