"""Answers of the test hosts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


class Then(Enum):
    """An action of a host in the middle of an answer."""

    STOP = "it sends nothing more, and keeps the connection"
    RESET = "it breaks the connection"
    PAUSE = "it sends nothing for a moment"


@dataclass(frozen=True)
class Answer:
    """The answer of a host for one path.

    The host waits for ``delay`` seconds, and until ``after`` returns true, for at most a minute,
    so that the crawl ends in any case. Instead of a whole answer, it sends the parts of ``raw``
    one by one, byte for byte, and then closes the connection.
    """

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0
    after: Callable[[], object] | None = None
    raw: Callable[[], Iterable[bytes | Then]] | None = None


HANGS = Answer(raw=lambda: (Then.STOP,))
"""No answer."""


@dataclass(frozen=True)
class Busy(Answer):
    """An answer with 429 or 503. ``pause`` is the number of seconds for which it asks crawls to wait; None if it
    does not say.
    """

    pause: float | None = None


def busy(
    status: int,
    retry_after: str | None = None,
    pause: float | None = None,
    **kwargs: object,
) -> Busy:
    """Return an answer with *status* and a header ``Retry-After``, which asks for *pause*; by
    default it asks for as many seconds as it says.
    """
    headers = {
        **({"Retry-After": retry_after} if retry_after else {}),
        **kwargs.pop("headers", {}),
    }
    if pause is None and retry_after is not None and retry_after.isdigit():
        pause = float(retry_after)
    return Busy(status=status, headers=headers, pause=pause, **kwargs)


def robots(text: str, **kwargs: object) -> Answer:
    """Return an answer with a robots.txt as plain text."""
    headers = {"Content-Type": "text/plain", **kwargs.pop("headers", {})}
    return Answer(text.encode(), headers=headers, **kwargs)


def redirect(location: str, status: int = 302, **kwargs: object) -> Answer:
    return Answer(status=status, headers={"Location": location}, **kwargs)


IMAGE = Answer(
    bytes.fromhex(
        "47494638396101000100800000ffffff0000002c00000000010001000002024401003b"
    ),
    headers={"Content-Type": "image/gif"},
)
"""An image of one pixel."""


def image(**headers: str) -> Answer:
    """Return an image with more header fields, whose names have ``_`` in place of ``-``."""
    return replace(IMAGE, headers={**IMAGE.headers, **_fields(headers)})


def html(body: str = "", head: str = "", tag: str = "", **headers: str) -> Answer:
    """Return a page with header fields, as :func:`image` takes them, and *tag* as its X-Robots-Tag."""
    fields = {"Content-Type": "text/html; charset=utf-8", **_fields(headers)}
    if tag:
        fields["X-Robots-Tag"] = tag
    return Answer(f"<html><head>{head}</head>{body}".encode(), headers=fields)


def meta(content: str, name: str = "robots") -> str:
    return f'<META content="{content}" NAME="{name}">'


def _fields(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}
