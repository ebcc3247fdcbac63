"""robots.txt files named in arguments, as paths or URLs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from scrapy.exceptions import UsageError

from scrapy_rep.commands.shared.sources import is_url, read_file
from scrapy_rep.commands.shared.urls import asked_argument

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy_rep.commands.shared.profile import Profile
    from scrapy_rep.protocol.access.results import AccessResult
    from scrapy_rep.protocol.origins import Origin


class GivenFile(NamedTuple):
    """The bytes of a robots.txt, and where they are from."""

    where: str
    """The path of the file, or the URL."""

    octets: bytes

    result: AccessResult | None
    """The result of the fetch, if it was fetched."""

    origin: Origin | None
    """The origin that it is the robots.txt of, if it was fetched."""

    @property
    def url(self) -> str | None:
        """The URL that it was fetched from, if it was fetched."""
        return None if self.result is None else self.where


def given_files(
    arguments: Sequence[str], profile: Profile
) -> list[GivenFile | UsageError]:
    """The files that *arguments* name, in order. An error is in the place of a file that
    can't be read, and of what is not a URL.
    """
    urls: dict[str, str] = {}
    read: dict[str, bytes] = {}
    errors: dict[str, UsageError] = {}
    for each in dict.fromkeys(arguments):
        try:
            if is_url(each):
                urls[each] = robotstxt_url(each)
            else:
                read[each] = read_file(each)
        except UsageError as error:
            errors[each] = error
    results = dict(zip(urls, _fetched(list(urls.values()), profile), strict=True))
    found: list[GivenFile | UsageError] = []
    for each in arguments:
        if each in urls:
            result = results[each]
            origin = asked_argument(each).origin
            found.append(GivenFile(urls[each], result.body, result, origin))
        elif each in read:
            found.append(GivenFile(each, read[each], None, None))
        else:
            found.append(errors[each])
    return found


def robotstxt_url(argument: str) -> str:
    """The URL in *argument*; of a URL without a path, that of the robots.txt of its host.

    Raises UsageError for what is not a URL.
    """
    url, origin = asked_argument(argument)
    parts = urlsplit(url)
    if parts.path in {"", "/"} and not parts.query:
        return origin.robotstxt_url
    return url


def _fetched(urls: list[str], profile: Profile) -> list[AccessResult]:
    if not urls:
        return []
    from scrapy_rep.commands.shared.web import Web, in_crawl  # noqa: PLC0415

    return in_crawl(
        profile.settings, lambda crawler: Web(crawler, profile.rep).robotstxts(urls)
    )
