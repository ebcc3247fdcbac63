"""The hosts of the bundled site.

A host is a folder in ``site/``: its files are its pages, ``robots.txt`` among them, and a
path without a file is answered with 404. Here stands only what files cannot say. The host
of that name is ``http://NAME.example``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Answer:
    """How a path is answered, where "200 with the file" would not do."""

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()  # pairs: a header may come twice
    body: bytes | None = None  # in place of the file


@dataclass(frozen=True)
class Host:
    name: str
    answers: Mapping[str, Answer] = field(default_factory=dict)

    @property
    def origin(self) -> str:
        return f"http://{self.name}.example"


def redirect(to: str) -> Answer:
    return Answer(301, (("Location", to),))


def closed_now() -> Answer:
    """A robots.txt with a window for visits that opens in three hours."""
    now = datetime.now(timezone.utc)
    window = [f"{now + timedelta(hours=hours):%H%M}" for hours in (3, 9)]
    return Answer(body=f"User-agent: *\nVisit-time: {'-'.join(window)}\n".encode())


def robots_tag(*values: str) -> Answer:
    return Answer(headers=tuple(("X-Robots-Tag", value) for value in values))


HOSTS = (
    # Allows everything, but one of its pages leads into a forbidden folder of the shop.
    Host("open", {"/offer": redirect("http://shop.example/basket/offer.html")}),
    # Has a group of rules for demobot, and another for all the rest.
    Host("shop"),
    # Has rules with wildcards, and a longer one that takes part of a shorter one back.
    Host("docs"),
    # Keeps to the rules of docs: they hold for the host that was asked for them.
    Host("moved", {"/robots.txt": redirect("http://docs.example/robots.txt")}),
    # Has no robots.txt, so it forbids nothing.
    Host("bare"),
    # Cannot say what it forbids, so nothing of it may be fetched.
    Host("down", {"/robots.txt": Answer(503)}),
    # Wants to be asked slowly, one request after the other.
    Host("slow"),
    # Wants to be asked so slowly that it is not asked at all.
    Host("glacial"),
    # Wants to be asked at certain hours, and this is none of them.
    Host("night", {"/robots.txt": closed_now()}),
    # Has mistakes in its robots.txt.
    Host("typo"),
    # May be fetched, all of it, but says of its pages what may become of them: here, and
    # in the <meta> tags of the pages.
    Host(
        "press",
        {
            "/fair.html": robots_tag("unavailable_after: 31 Dec 2099 23:59:59 GMT"),
            "/paper.pdf": robots_tag("noindex, nofollow"),
            "/print.html": robots_tag("noindex"),
            "/rivals.html": robots_tag("otherbot: noindex"),
        },
    ),
    # May be fetched, all of it, but not for all purposes. No other host links to it.
    Host(
        "gallery",
        {"/essay.html": Answer(headers=(("Content-Usage", "search=n, ai-use=n"),))},
    ),
)
