"""The records of a ledger: bounded in size, and without credentials."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_rep.protocol.access.results import Access, State
from scrapy_rep.protocol.display import without_credentials

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scrapy_rep.ledger.terms import Layer, Verdict
    from scrapy_rep.protocol.access.results import Entry
    from scrapy_rep.protocol.dialect import Dialect

MAX_URL = 4096
"""The most characters of a URL to keep; a longer one is cut and ends with an ellipsis."""

MAX_TEXT = 1024
"""The most characters of a rule, a statement, a header value or an error to keep."""

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
    def weight(self) -> int:
        copy = self.entry.copy
        return _RECORD + len(self.entry.result.body) + (len(copy.body) if copy else 0)

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


class Decided(NamedTuple):
    """A decision; each field is the column of that name."""

    time: float
    origin: str
    url: str
    page: str | None
    agent: str | None
    layer: Layer
    verdict: Verdict
    reason: str

    fetched: float | None
    """When the robots.txt that decided was fetched; None if no robots.txt decided."""

    line: int | None
    statement: str | None

    form: str | None = None
    """The form of *url* that was refused; None if that is *url* as written."""

    source: str | None = None
    """Where a usage statement was found, such as ``tdmrep.json``."""

    via: str | None = None
    """How a browser came to *url*, and from which page; None if a spider requested it."""

    @property
    def weight(self) -> int:
        texts = self.url, self.page, self.statement, self.form, self.via
        return _RECORD + sum(map(len, filter(None, texts)))


def url_text(url: str) -> str:
    """Return a URL as a ledger stores it: without user and password."""
    return storable(without_credentials(url), MAX_URL)


def storable(written: str, at_most: int = MAX_TEXT) -> str:
    """Return *written* as SQLite can store it, cut at *at_most* characters."""
    if len(written) > at_most:
        written = written[: at_most - 1] + "…"
    if written.isascii():
        return written
    # SQLite stores no lone surrogates.
    return written.encode("utf-8", "replace").decode("utf-8")


def _json(value: Any) -> str:
    return json.dumps(value, default=str, sort_keys=isinstance(value, dict))
