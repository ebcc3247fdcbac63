"""The signals of this package, in addition to those of Scrapy."""

from __future__ import annotations

decision_made = object()
"""Sent when the crawl has decided about a request, a page, a link, an item or a file.

Arguments: *record* (:class:`scrapy_rep.Record`: the decision and its evidence), *request*
(scrapy.Request: the request that was judged, or the request for the page; None for a pause or a delay of
a host), *response* (scrapy.http.Response: the page or file; None for a decision about a request), and
*spider*.

Decisions that refuse, drop, annotate or slow down something are always sent. Decisions without such a consequence (a
request is allowed, or a statement of a page changes nothing) are sent only if the crawl writes a ledger. With
``REP_LEDGER_LEVEL = "all"``, all of them are sent. With any other level, only those are sent in which a setting or meta
key overrides a statement of the site, or in which a statement denies something but has no effect. A dry run also sends
the decisions about allowed requests that Scrapy's own RobotsTxtMiddleware refuses.
"""

robotstxt_known = object()
"""Sent when a robots.txt was fetched, was read from the store, or could not be fetched.

Arguments: *origin* (Origin), *entry* (CacheEntry: the robots.txt, or the failure), *is_new* (bool: False
if the entry comes from the store), *request* (scrapy.Request: a page request that waited for the
robots.txt), and *spider*.
"""
