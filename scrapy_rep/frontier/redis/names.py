"""The names of queues on the server: a host, a tab, and an origin."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy_rep.frontier.hostkeys import HostKey


def name_of(key: HostKey) -> str:
    """The name of the queue of requests with *key*.

    Delays are of a host; requests that no robots.txt has a say in have only the limit of
    their download slot.
    """
    if key.origin is None:
        return key.slot.replace("\t", " ") + "\t"
    return f"{key.host}\t{key.origin}"


def host_of(name: str) -> str:
    """The host, or download slot, that the requests of a queue are counted by."""
    return name.partition("\t")[0]
