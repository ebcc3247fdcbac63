"""The signals of this package, in addition to those of Scrapy."""

from __future__ import annotations

decision_made = object()
"""Sent when the crawl has decided about a request, a page, a link, an item or a file.

Arguments: *record* (:class:`scrapy_rep.Record`: the decision and its evidence), *request*
(scrapy.Request: the request that was judged, or the request for the page; None for a pause or a delay of
a host), *response* (scrapy.http.Response: the page or file; None for a decision about a request), and
*spider*.

Decisions that refuse, drop, annotate or slow down something are always sent. Other decisions (a request is allowed, or
a statement of a page is noted) depend on the ledger. Without a ledger, they are not sent. With
``REP_LEDGER_LEVEL = "all"``, all of them are sent. With ``"denied"``, they are sent in two cases: if a setting or meta
key overrides a statement of the site; and if a statement denies something but has no effect, for example because it is
on an error page. A dry run, with or without a ledger, also sends the decisions about allowed requests that Scrapy's own
RobotsTxtMiddleware refuses.
"""

robotstxt_known = object()
"""Sent when a robots.txt was fetched, was read from the store, or could not be fetched.

Arguments: *origin* (Origin), *entry* (CacheEntry: the robots.txt, or the failure), *is_new* (bool: False
if the robots.txt was read from the store), *request* (scrapy.Request: one of the page requests that waited
for the robots.txt), and *spider*.
"""
