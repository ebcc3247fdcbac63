"""Signals that this package sends, in addition to Scrapy's."""

from __future__ import annotations

host_paused = object()
"""A host has asked for a pause, with status 429 or 503, and the crawl keeps it.

Arguments: *request* (scrapy.Request), *response* (scrapy.http.Response), *seconds* (float: how
long nothing is sent to the host), and *spider*.
"""

indexing_read = object()
"""A response has indexing rules. Sent only if the crawl writes a ledger: with
``REP_LEDGER_LEVEL`` ``"all"`` for each such response, otherwise if a rule denies something.

Arguments: *request* (scrapy.Request), *response* (scrapy.http.Response), *rules*
(IndexingRules), and *spider*.
"""

item_annotated = object()
"""The page of an item must not be indexed. Its indexing rules were written into the item, if
that has a field for them.

Arguments: *item*, *response* (scrapy.http.Response, the page), *rules* (IndexingRules),
and *spider*.
"""

link_dropped = object()
"""A request that a callback made is dropped, because its page says ``nofollow``, or marks the
link with a ``rel`` that the crawl does not follow.

Arguments: *request* (scrapy.Request), *response* (scrapy.http.Response, the page),
*reason* (str: ``"page"`` or ``"rel"``), *statement* (Statement of the page, or the value
of ``rel`` as written), and *spider*.
"""

media_refused = object()
"""A media pipeline does not get a file: it requested the file, whose own headers deny its
indexing or use; or the page of an item does, and the field of its images was emptied.

Arguments: *url* (str: of the file), *request* (scrapy.Request) and *response*
(scrapy.http.Response) of what denies it, the file or the page, *reason* (str: ``"noindex"``,
``"noimageindex"``, or the purpose that is denied), *statement* (Statement, UsageStatement or
None), *entry* (Entry: the cache entry of robots.txt, if that or tdmrep.json may state usage
preferences; else None), and *spider*.
"""

request_allowed = object()
"""A request may be sent. Sent only if the crawl writes a ledger: with ``REP_LEDGER_LEVEL``
``"all"`` for each request, otherwise if the user of the crawler decided, by a setting or by
``meta``.

Arguments: *request* (scrapy.Request), *decision* (Decision), *origin* (Origin; None if the
URL has no valid host or port), *entry* (Entry: the cache entry of its robots.txt; None if
robots.txt did not decide), *override* (Override or None), *via* (Via: how a browser came to
the URL, if no spider requested it; else None), and *spider*.
"""

request_denied = object()
"""A request is refused, because robots.txt forbids it.

Arguments: those of ``request_allowed``, and *robotstxt_url* (str; empty if *origin* is None
or an override decided).
"""

robotstxt_known = object()
"""The robots.txt of an origin was fetched or read from the store, or could not be fetched.

Arguments: *origin* (Origin), *entry* (Entry), *is_new* (bool: whether it was fetched, not
read from the store), *request* (scrapy.Request: the URL, proxy and User-Agent of a request
that waited for it), and *spider*.
"""

usage_annotated = object()
"""The page of an item denies a purpose of the crawl. The uses that it allows were written
into the item, if that has a field for them.

Arguments: *item*, *response* (scrapy.http.Response, the page), *denial* (Denial), *entry*
(Entry, as in ``media_refused``), and *spider*.
"""

usage_read = object()
"""The usage preferences for a response were read. Sent only if there are any, and the crawl
writes a ledger with ``REP_LEDGER_LEVEL`` ``"all"``.

Arguments: *request* (scrapy.Request), *response* (scrapy.http.Response), *preferences*
(UsagePreferences), *entry* (Entry, as in ``media_refused``), and *spider*.
"""
