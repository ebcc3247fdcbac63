"""The hosts of the bundled site.

A host is a folder in ``site/``: its files are its pages, ``robots.txt`` among them, and a
path without a file has status 404. This module has only what files cannot express. The
host NAME is ``http://NAME.example``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Answer:
    """The response for a path, if it is not "200 with the file"."""

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()  # Pairs, since a header may occur twice
    body: bytes | None = None  # Replaces the file


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
    """Return a robots.txt with a visit window that opens in three hours."""
    now = datetime.now(timezone.utc)
    window = [f"{now + timedelta(hours=hours):%H%M}" for hours in (3, 9)]
    return Answer(body=f"User-agent: *\nVisit-time: {'-'.join(window)}\n".encode())


def robots_tag(*values: str) -> Answer:
    return Answer(headers=tuple(("X-Robots-Tag", value) for value in values))


HOSTS = (
    # Allows everything, but one of its pages links to a forbidden folder of the shop.
    Host("open", {"/offer": redirect("http://shop.example/basket/offer.html")}),
    # Has a group of rules for demobot, and another for all others.
    Host("shop"),
    # Has rules with wildcards, and a longer rule that allows part of a shorter one.
    Host("docs"),
    # Redirects to the robots.txt of docs, whose rules apply to this host too.
    Host("moved", {"/robots.txt": redirect("http://docs.example/robots.txt")}),
    # Has no robots.txt, so everything is allowed.
    Host("bare"),
    # Its robots.txt is unreachable, so nothing may be fetched.
    Host("down", {"/robots.txt": Answer(503)}),
    # Asks for a delay between requests.
    Host("slow"),
    # Asks for a delay so long that the crawl skips the host.
    Host("glacial"),
    # Asks for visits at certain hours, and the crawl is always outside of them.
    Host("night", {"/robots.txt": closed_now()}),
    # Has mistakes in its robots.txt.
    Host("typo"),
    # Allows every fetch, but restricts indexing of its pages: here, and in the <meta>
    # tags of the pages.
    Host(
        "press",
        {
            "/fair.html": robots_tag("unavailable_after: 31 Dec 2099 23:59:59 GMT"),
            "/paper.pdf": robots_tag("noindex, nofollow"),
            "/print.html": robots_tag("noindex"),
            "/rivals.html": robots_tag("otherbot: noindex"),
        },
    ),
    # Allows every fetch, but not every purpose. No other host links to it.
    Host(
        "gallery",
        {"/essay.html": Answer(headers=(("Content-Usage", "search=n, ai-use=n"),))},
    ),
)
