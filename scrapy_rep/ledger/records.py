"""The rows of a ledger: bounded in size, and without credentials."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_rep.protocol.access.results import Access, State
from scrapy_rep.protocol.display import without_credentials
from scrapy_rep.record import storable, url_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scrapy_rep.protocol.access.results import Entry
    from scrapy_rep.protocol.dialect import Dialect
    from scrapy_rep.record import Record

# The approximate memory of a record without its texts, in bytes.
_RECORD = 600


class StartedCrawl(NamedTuple):
    """A crawl that has started."""

    spider: str
    user_agent: str
    agents: Sequence[str]
    dialect: str
    settings: Mapping[str, object]
    versions: Mapping[str, str]
    started: float

    @property
    def row(self) -> tuple[object, ...]:
        return (
            self.spider,
            storable(self.user_agent),
            _json(self.agents),
            self.dialect,
            _json(self.settings),
            _json(self.versions),
            self.started,
        )


class EndedCrawl(NamedTuple):
    """The end of a crawl."""

    ended: float
    finish_reason: str
    counts: Mapping[str, object]

    @property
    def row(self) -> tuple[object, ...]:
        numbers = {
            name: value
            for name, value in self.counts.items()
            if isinstance(value, (int, float)) and not isinstance(value, bool)
        }
        return (self.ended, self.finish_reason, _json(numbers))


class Snapshot(NamedTuple):
    """A robots.txt that was fetched or loaded from the store."""

    origin: str
    entry: Entry

    dialect: Dialect
    """Decides whether an older copy is followed, and how much of a body is read."""

    @property
    def row(self) -> tuple[object, ...]:
        """The values of all columns except ``id``, ``crawl`` and ``sha256``."""
        entry, result = self.entry, self.entry.result
        is_stale = entry.state(self.dialect) is State.STALE
        headers = [(storable(name), storable(value)) for name, value in result.headers]
        return (
            self.origin,
            url_text(result.url),
            _json([url_text(url) for url in result.redirects]),
            str(result.access),
            result.status,
            storable(without_credentials(result.error)) or None,
            _json(headers),
            entry.fetched,
            entry.expires,
            entry.copy_fetched if is_stale else None,
        )

    @property
    def body(self) -> bytes | None:
        """The bytes of the file that is followed, as far as they are read; None without one."""
        answer = self.entry.answer(self.dialect)
        if answer is None or answer.access is not Access.SUCCESSFUL:
            return None
        # One byte more tells a reader that the file was cut.
        return answer.body[: self.dialect.size_limit + 1]


def weight(record: Record | Snapshot) -> int:
    """Return the approximate memory of *record* in bytes."""
    if isinstance(record, Snapshot):
        entry = record.entry
        copy = entry.copy
        return _RECORD + len(entry.result.body) + (len(copy.body) if copy else 0)
    texts = record.url, record.page, record.statement, record.form, record.via
    return _RECORD + sum(map(len, filter(None, texts)))


def _json(value: Any) -> str:
    return json.dumps(value, default=str, sort_keys=isinstance(value, dict))
