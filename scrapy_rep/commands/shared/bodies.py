"""robots.txt files named in arguments, as paths or URLs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from scrapy_rep.commands.shared.lists import asked_argument
from scrapy_rep.commands.shared.sources import is_url, read_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy_rep.commands.shared.terms import Terms
    from scrapy_rep.protocol.access.results import AccessResult
    from scrapy_rep.protocol.origins import Origin


class Body(NamedTuple):
    """A robots.txt as it was written or sent."""

    where: str
    """The path of the file, or the URL."""

    octets: bytes

    result: AccessResult | None
    """How the fetch ended, where it was fetched."""

    origin: Origin | None
    """Whose it is, where it was fetched."""

    @property
    def url(self) -> str | None:
        """Where it was fetched from, if it was."""
        return None if self.result is None else self.where


def bodies(arguments: Sequence[str], terms: Terms) -> list[Body]:
    """All of them, in order. Raises UsageError for what can't be read or is no URL."""
    urls = {each: robotstxt_url(each) for each in arguments if is_url(each)}
    read = {each: read_file(each) for each in arguments if each not in urls}
    results = dict(zip(urls, _fetched(list(urls.values()), terms), strict=True))
    return [
        Body(urls[each], results[each].body, results[each], asked_argument(each).origin)
        if each in urls
        else Body(each, read[each], None, None)
        for each in arguments
    ]


def robotstxt_url(argument: str) -> str:
    """The URL itself, or that of the robots.txt of the host, if it has no path.

    Raises UsageError for what is no URL.
    """
    url, origin = asked_argument(argument)
    parts = urlsplit(url)
    if parts.path in {"", "/"} and not parts.query:
        return origin.robotstxt_url
    return url


def _fetched(urls: list[str], terms: Terms) -> list[AccessResult]:
    if not urls:
        return []
    from scrapy_rep.commands.shared.asking import Web, in_crawl  # noqa: PLC0415

    return in_crawl(
        terms.settings, lambda crawler: Web(crawler, terms.rep).robotstxts(urls)
    )
