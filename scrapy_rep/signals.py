"""The signals of this package, in addition to those of Scrapy."""

from __future__ import annotations

decision_made = object()
"""A decision was made about a request, a page, a link, an item or a file.

Arguments: *record* (:class:`scrapy_rep.Record`: the decision and its evidence),
*request* (scrapy.Request: the subject of the decision, or the request for the page; None if there
is none), *response* (scrapy.http.Response: the page, the file, or the answer that asks for a pause;
None for a decision about a request), and *spider*.

Sent for all that is refused, dropped, annotated or slowed down. Sent for what is allowed, and for
what a page states, only if the crawl writes a ledger: with ``REP_LEDGER_LEVEL`` ``"all"`` always,
otherwise if the user of the crawler decided against a statement of a site, or if the rules of the
page deny something.
"""

robotstxt_known = object()
"""The robots.txt of an origin was fetched or read from the store, or could not be fetched.

Arguments: *origin* (Origin), *entry* (CacheEntry), *is_new* (bool: whether it was fetched, not
read from the store), *request* (scrapy.Request: one that waited for it), and *spider*.
"""
