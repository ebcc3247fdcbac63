"""The signals of this package, in addition to those of Scrapy."""

from __future__ import annotations

decision_made = object()
"""Sent when the crawl decides to refuse a request, to drop a link, an item or a file, to annotate an item, or to slow
down. Depending on the settings (see below), also sent when a request is allowed or a statement of a page is noted.

Arguments: *record* (:class:`scrapy_rep.Record`: the decision and its evidence), *request*
(scrapy.Request: the request that was judged, or the request for the page; None for a pause or a delay of
a host), *response* (scrapy.http.Response: the page or file; None for a decision about a request), and
*spider*.

When a request is allowed or a statement is noted, the signal is sent in these cases:

- There is a ledger, and ``REP_LEDGER_LEVEL`` is ``"all"``.
- There is a ledger, ``REP_LEDGER_LEVEL`` is ``"denied"``, and a setting or meta key overrides a statement of the site.
- There is a ledger, ``REP_LEDGER_LEVEL`` is ``"denied"``, and a statement denies something but has no effect, for
  example because it is on an error page.
- In a dry run, with or without a ledger: this package would allow a request that Scrapy's own RobotsTxtMiddleware
  refuses.
"""

robotstxt_known = object()
"""Sent when a robots.txt was fetched, was read from the store, or could not be fetched.

Arguments: *origin* (Origin), *entry* (CacheEntry: the robots.txt, or the failure), *is_new* (bool: False
if the robots.txt was read from the store), *request* (scrapy.Request: one of the page requests that waited
for the robots.txt), and *spider*.
"""
