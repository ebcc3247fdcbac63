"""Signals that this package sends, in addition to Scrapy's."""

from __future__ import annotations

request_denied = object()
"""A request is not sent, because robots.txt does not allow it.

Arguments: *request* (scrapy.Request), *decision* (Decision), *robotstxt_url* (str), and
*spider*.
"""

link_dropped = object()
"""A request that a callback made is not sent, because the page says that its links, or
this one, must not be followed.

Arguments: *request* (scrapy.Request), *response* (scrapy.http.Response, the page),
*reason* (str: ``"page"`` or ``"rel"``), and *spider*.
"""
