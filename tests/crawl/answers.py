"""The HTTP answers that test hosts give: robots.txt files, pages, redirects, images and broken answers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


class Then(Enum):
    """What a host does in the middle of an answer, in place of sending the next bytes."""

    STOP = "send nothing more, and keep the connection open"
    RESET = "reset the connection"
    PAUSE = "send nothing for a moment"


@dataclass(frozen=True)
class Answer:
    """The answer of a host for one path.

    Before the host answers, it waits for ``delay`` seconds, and then until ``after`` returns true. The second wait
    takes at most a minute, so that the crawl ends in any case.

    If ``raw`` is set, the host sends the parts that ``raw`` returns, byte for byte, in place of a status line,
    headers and ``body``. Then it closes the connection.
    """

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0
    after: Callable[[], object] | None = None
    raw: Callable[[], Iterable[bytes | Then]] | None = None


HANGS = Answer(raw=lambda: (Then.STOP,))
"""The host accepts the request, and never answers."""


@dataclass(frozen=True)
class Busy(Answer):
    """An answer with status 429 or 503.

    ``pause`` is the number of seconds for which the answer asks crawlers to wait, or None if it names no time.
    """

    pause: float | None = None


def busy(
    status: int,
    retry_after: str | None = None,
    pause: float | None = None,
    **kwargs: object,
) -> Busy:
    """Return an answer with *status*, and with the header ``Retry-After`` if *retry_after* is given.

    *pause* is the number of seconds that *retry_after* stands for. It may be omitted if *retry_after* is a number.
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
"""A GIF image of one pixel."""


def image(**headers: str) -> Answer:
    """Return a GIF image with additional *headers*. Their names have ``_`` in place of ``-``: ``X_Robots_Tag``."""
    return replace(IMAGE, headers={**IMAGE.headers, **_fields(headers)})


def html(body: str = "", head: str = "", tag: str = "", **headers: str) -> Answer:
    """Return an HTML page with the X-Robots-Tag *tag*, and with additional *headers*, such as ``Content_Usage``."""
    fields = {"Content-Type": "text/html; charset=utf-8", **_fields(headers)}
    if tag:
        fields["X-Robots-Tag"] = tag
    return Answer(f"<html><head>{head}</head>{body}".encode(), headers=fields)


def meta(content: str, name: str = "robots") -> str:
    """Return a meta tag such as ``<META content="noindex" NAME="robots">``. The upper case and the order of the
    attributes are unusual, but valid HTML.
    """
    return f'<META content="{content}" NAME="{name}">'


def _fields(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}
