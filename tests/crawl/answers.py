"""What a host can be told to answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


class Then(Enum):
    """What a host does in the middle of what it sends."""

    STOP = "it sends nothing more, and keeps the connection"
    RESET = "it breaks the connection"
    PAUSE = "it sends nothing for a moment"


@dataclass(frozen=True)
class Answer:
    """What a host answers on one path.

    ``announced`` is the Content-Length sent in place of the true one; ``reset`` breaks the
    connection in the body, after a part of what was announced (``"length"``) or after a bad
    chunk (``"chunks"``); ``hang`` never answers; ``endless`` goes on after the body until the
    client has had enough; ``pace`` is the seconds between one byte of the body and the next;
    ``after`` is waited for, but not for more than a minute, so that what does not come about
    ends the crawl all the same. ``raw`` is sent octet for octet in the place of all that, each
    part by itself, and then the connection is closed.
    """

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0
    after: Callable[[], object] | None = None
    pace: float = 0
    announced: int | None = None
    reset: str | None = None
    hang: bool = False
    endless: bool = False
    raw: Callable[[], Iterable[bytes | Then]] | None = None


def robots(text: str, **kwargs: object) -> Answer:
    """Return a robots.txt served as text."""
    headers = {"Content-Type": "text/plain", **kwargs.pop("headers", {})}
    return Answer(text.encode(), headers=headers, **kwargs)


def redirect(location: str, status: int = 302, **kwargs: object) -> Answer:
    return Answer(status=status, headers={"Location": location}, **kwargs)
