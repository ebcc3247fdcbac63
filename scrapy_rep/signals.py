"""The signals of this package, in addition to those of Scrapy."""

from __future__ import annotations

decision_made = object()
"""Sent when the crawl decides to refuse a request, to drop a link, an item or a file, to annotate an item, or to slow
down. In some cases (see the lists below), also sent when a request is allowed, or when a page states something, such as
``noindex``.

Arguments: *record* (:class:`scrapy_rep.Record`: the decision and its evidence), *request*
(scrapy.Request: the request that was judged, or the request for the page; None for a pause or a delay of
a host), *response* (scrapy.http.Response: the page or file; None for a decision about a request), and
*spider*.

Sent for these allowed requests:

- With a ledger and ``REP_LEDGER_LEVEL = "all"``: all allowed requests.
- With a ledger and ``REP_LEDGER_LEVEL = "denied"``: requests that are allowed by an override (``REP_OVERRIDES``) or by
  the meta key ``dont_obey_robotstxt``.
- In a dry run, with or without a ledger: requests that Scrapy's own RobotsTxtMiddleware refuses, but this package would
  allow.

Sent for these statements of pages:

- With a ledger and ``REP_LEDGER_LEVEL = "all"``: all indexing rules and usage preferences that this package knows.
- With a ledger and ``REP_LEDGER_LEVEL = "denied"``: indexing rules that forbid something, but have no effect. For
  example, the page is an error page, or a setting or meta key overrides the rule.
"""

robotstxt_known = object()
"""Sent when a robots.txt was fetched, was read from the store, or could not be fetched.

Arguments: *origin* (Origin), *entry* (CacheEntry: the robots.txt, or the failure), *is_new* (bool: False
if the robots.txt was read from the store), *request* (scrapy.Request: one of the page requests that waited
for the robots.txt), and *spider*.
"""
