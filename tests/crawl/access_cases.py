"""Hosts for every result that a fetch of robots.txt can have, with the
expected access in each dialect.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.crawl.answers import Answer, redirect, robots
from tests.crawl.server import Host

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.crawl.server import Site

RULES = ("/public",)
ALL = ("/private", "/public")
NONE = ()

GOOD = robots("User-agent: *\nDisallow: /private\n")
FORBIDS = "User-agent: *\nDisallow: /\n"
PERMITS = "User-agent: *\nAllow: /\n"


@dataclass(frozen=True)
class Case:
    """A host, its pages that may be fetched, and the expected result of the robots.txt fetch."""

    name: str
    host: Host
    pages: tuple[str, ...]
    access: str
    status: int | None = None

    @property
    def answered(self) -> bool:
        return self.status is not None


def cases(site: Site, dialect: str) -> list[Case]:
    return [
        *_answered(site),
        *_redirected(site),
        *_refused(site, dialect),
        *_failing(site),
        *_unanswered(site),
    ]


def _answered(site: Site) -> Iterator[Case]:
    yield Case("200", site.add(GOOD), RULES, "successful", 200)
    yield Case("204", site.add(Answer(status=204)), ALL, "successful", 204)
    missing = site.add(robots(FORBIDS, status=404))
    yield Case("404 that says Disallow: /", missing, ALL, "unavailable", 404)
    for status in (410, 418):
        host = site.add(robots(FORBIDS, status=status))
        yield Case(str(status), host, ALL, "unavailable", status)


def _redirected(site: Site) -> Iterator[Case]:
    for hops, pages, access in ((5, RULES, "successful"), (6, ALL, "unavailable")):
        host = site.add()
        host.chain(hops, GOOD if hops == 5 else robots(FORBIDS))
        status = 200 if hops == 5 else 301
        yield Case(f"a chain of {hops}", host, pages, access, status)
    host = site.add()
    host.answers["/robots.txt"] = redirect("/robots.txt", 301)
    yield Case("a loop", host, ALL, "unavailable", 301)
    other = site.add(GOOD, name="localhost")
    host = site.add(redirect(other.robotstxt, 301))
    yield Case("a redirect off-site", host, RULES, "successful", 200)
    host = site.add(redirect("/gone", 308))
    host.answers["/gone"] = robots(FORBIDS, status=404)
    yield Case("a redirect to a 404", host, ALL, "unavailable", 404)
    host = site.add(redirect("/broken", 307))
    host.answers["/broken"] = robots(PERMITS, status=500)
    yield Case("a redirect to a 500", host, NONE, "unreachable", 500)
    host = site.add(redirect(site.refusing().robotstxt))
    yield Case("a redirect to a refusing host", host, NONE, "unreachable")
    nowhere = (
        "file:///etc/hostname",
        "data:text/plain,User-agent:%20*%0ADisallow:%20/",
        "http://[::bad",
        "ftp:",
        "http://",
        "",
    )
    for location in nowhere:
        host = site.add(redirect(location, body=FORBIDS.encode()))
        yield Case(f"a redirect to {location!r}", host, ALL, "unavailable", 302)
    host = site.add(robots(FORBIDS, status=301))
    yield Case("a redirect without a Location", host, ALL, "unavailable", 301)


def _refused(site: Site, dialect: str) -> Iterator[Case]:
    pages = NONE if dialect == "classic" else ALL
    for status in (401, 403):
        host = site.add(robots(PERMITS, status=status))
        yield Case(str(status), host, pages, "unavailable", status)


def _failing(site: Site) -> Iterator[Case]:
    for status in (429, 500, 503):
        host = site.add(robots(PERMITS, status=status))
        yield Case(str(status), host, NONE, "unreachable", status)


def _unanswered(site: Site) -> Iterator[Case]:
    permits = robots(PERMITS).body
    hosts = {
        "no answer": site.add(Answer(hang=True)),
        "refused": site.refusing(),
        "reset in a body of known length": site.add(Answer(permits, reset="length")),
        "reset after a bad chunk": site.add(Answer(permits, reset="chunks")),
        "no TLS": site.plain_on_https(),
        "unknown host": Host(site, "nosuchhost.invalid", tls=False),
    }
    for name, host in hosts.items():
        yield Case(name, host, NONE, "unreachable")
