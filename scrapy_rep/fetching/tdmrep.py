"""The cache of the tdmrep.json files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_rep import stats
from scrapy_rep.fetching.files import FileCache
from scrapy_rep.log import get_logger
from scrapy_rep.protocol.access.results import Access
from scrapy_rep.protocol.usage.tdmrep import PATH, TdmRep

if TYPE_CHECKING:
    from scrapy_rep.fetching.request import Causes
    from scrapy_rep.protocol.access.results import Entry
    from scrapy_rep.protocol.origins import Origin

logger = get_logger(__name__)


class TdmRepCache(FileCache[TdmRep]):
    """The tdmrep.json of each origin."""

    def cached(self, origin: Origin) -> TdmRep | None:
        """The file of *origin*, if it is in memory and fresh."""
        cached = self._cached(url_of(origin))
        return None if cached is None else cached.parsed

    async def known(self, origin: Origin, causes: Causes) -> TdmRep:
        """Return the file of *origin*, from memory, the store or its server. Raises
        SpiderClosing or a cancellation if the spider closes meanwhile.
        """
        found = self.cached(origin)
        if found is not None:
            return found
        url = url_of(origin)
        cached, is_new = await self._obtain(url, causes)
        if is_new:
            result = cached.entry.result
            self._crawler.stats.inc_value(stats.TDMREP.format(access=result.access))
            is_read = cached.parsed.is_valid or result.access is not Access.SUCCESSFUL
            logger.debug(
                "%(url)s is %(access)s (%(result)s)%(finding)s",
                {
                    "url": url,
                    "access": result.access,
                    "result": result,
                    "finding": "" if is_read else ", not an array of rules",
                },
                extra={"spider": self._crawler.spider},
            )
        return cached.parsed

    def _parse(self, entry: Entry) -> TdmRep:
        # A server without the file does not implement the protocol (TDMRep, "TDM File on
        # the Origin Server"). While a server is unreachable, the last good copy applies.
        result = entry.result
        if result.access is Access.UNREACHABLE and entry.copy is not None:
            result = entry.copy
        return TdmRep.parse(
            result.body if result.access is Access.SUCCESSFUL else b"[]"
        )


def url_of(origin: Origin) -> str:
    """The URL of the tdmrep.json of *origin*."""
    return origin.url(PATH)
