"""The user agent whose rules a crawl follows. ``tests/fetching/test_identity.py`` has each setting."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.crawl.crawl import run_crawl

if TYPE_CHECKING:
    from tests.crawl.server import Site

pytestmark = [pytest.mark.newest, pytest.mark.unmeasured]

NAMES = ("everyone", "defaultbot", "spiderbot", "MJ12bot")
RULES = "".join(
    f"User-agent: {'*' if name == 'everyone' else name}\nDisallow: /{name}\n"
    for name in NAMES
)


def test_requests_by_several_names(site: Site, mode: str) -> None:
    """``spider.user_agent`` has priority over USER_AGENT, and the User-Agent header of a request
    over both; that of a browser follows the rules for ``*``. All requests share one robots.txt.
    """
    host = site.add(RULES)
    browser = "Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0"
    follows = {"": "spiderbot", "MJ12bot/1.4": "MJ12bot", browser: "everyone"}
    requests = [
        {
            "url": host.url(f"/{path}?{follows[header]}"),
            "headers": {"User-Agent": header} if header else {},
        }
        for header in follows
        for path in NAMES
    ]
    settings = {"USER_AGENT": "defaultbot"}
    run_crawl(requests, mode=mode, spider="MozillaSpider", settings=settings)
    refused = {request["url"] for request in requests} - set(map(host.url, host.pages))
    assert refused == {host.url(f"/{name}?{name}") for name in follows.values()}
    assert len(host.robots_hits) == 1
