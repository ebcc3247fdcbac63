"""The shortest time between two requests to a host, as it was kept."""

from __future__ import annotations

import heapq
from itertools import groupby, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator

# What an override let through did not have to keep to a delay.
_TIMES = """
SELECT origin, time FROM decision
WHERE verdict = 'allowed' AND layer = 'robots.txt' AND page IS NULL
ORDER BY origin, time
"""


def shortest_gaps(
    ledgers: Iterable[sqlite3.Connection],
) -> Iterator[tuple[str, float]]:
    """The origins with two requests or more, and the shortest time between two of them.

    The requests of several ledgers are taken together: their crawls may have been workers
    that shared a delay. A decision that lets a request go is made when its turn has come.
    """
    rows = heapq.merge(*(map(tuple, ledger.execute(_TIMES)) for ledger in ledgers))
    for origin, requests in groupby(rows, key=itemgetter(0)):
        times = (time for _, time in requests)
        gap = min((after - before for before, after in pairwise(times)), default=None)
        if gap is not None:
            yield origin, gap
