"""Signals that this package sends, in addition to Scrapy's."""

from __future__ import annotations

indexing_read = object()
"""A response says something about indexing. Sent only where there is a ledger: of
``REP_LEDGER_LEVEL`` ``"all"`` for each, else where something is denied.

Arguments: *request* (scrapy.Request), *response* (scrapy.http.Response), *rules*
(IndexingRules), and *spider*.
"""

item_annotated = object()
"""The rules of a page that must not be in an index were written into an item of it, as far
as the item has a field for them.

Arguments: *item*, *response* (scrapy.http.Response, the page), *rules* (IndexingRules),
and *spider*.
"""

link_dropped = object()
"""A request that a callback made is not sent, because the page says that its links, or
this one, must not be followed.

Arguments: *request* (scrapy.Request), *response* (scrapy.http.Response, the page),
*reason* (str: ``"page"`` or ``"rel"``), *statement* (Statement of the page, or the value
of ``rel`` as written), and *spider*.
"""

media_refused = object()
"""A downloaded file is not handed to the media pipeline that asked for it.

Arguments: *request* (scrapy.Request), *response* (scrapy.http.Response), *reason* (str:
``"noindex"``, ``"noimageindex"``, or a purpose that the file is not for), *page_url* (str:
who says so, the file itself or the page whose item names it), *statement* (Statement,
UsageStatement or None), *entry* (Entry: what was known of the robots.txt, where that says
what the file may be used for; else None), and *spider*.
"""

request_allowed = object()
"""A request may be sent. Sent only where there is a ledger: of ``REP_LEDGER_LEVEL``
``"all"`` for each request, else where the user of the crawler has decided it.

Arguments: *request* (scrapy.Request), *decision* (Decision), *origin* (Origin; None
where host or port of the URL can't be read), *entry* (Entry: what is known of its
robots.txt; None where that does not count), *override* (Override or None), *via* (Via: how a
browser came to the URL where no spider asked for it; else None), and *spider*.
"""

request_denied = object()
"""A request is not sent, because robots.txt does not allow it.

Arguments: *robotstxt_url* (str; empty where *origin* is None or an override decided), and
those of ``request_allowed``.
"""

robotstxt_known = object()
"""It has come to be known what the robots.txt of an origin says, or that it can't be had.

Arguments: *origin* (Origin), *entry* (Entry), *is_new* (bool: it was fetched, and is not
from the store), *request* (scrapy.Request: the URL, proxy and User-Agent of one that waited
for it), and *spider*.
"""

usage_annotated = object()
"""What a page may be used for was written into an item of it, and the crawl has a purpose
that the page is not for.

Arguments: *item*, *response* (scrapy.http.Response, the page), *denial* (Denial), *entry*
(Entry, as in ``media_refused``), and *spider*.
"""

usage_read = object()
"""It has come to be known what a response may be used for. Sent only where there is a
ledger of ``REP_LEDGER_LEVEL`` ``"all"``, and something is stated.

Arguments: *request* (scrapy.Request), *response* (scrapy.http.Response), *preferences*
(UsagePreferences), *entry* (Entry, as in ``media_refused``), and *spider*.
"""
