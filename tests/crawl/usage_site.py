"""A site with all kinds of usage preferences, and the pages that may
be used for each purpose.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.crawl.answers import Answer, redirect

if TYPE_CHECKING:
    from tests.crawl.server import Host, Site

ROBOTS = """\
Content-Signal: /for-all/ ai-train=no
License: https://license.example/all.xml

User-agent: other
Disallow: /
Content-Usage: search=n, train-ai=n, ai-use=n

User-agent: *
Disallow: /private/
Content-Usage: /no-training/ train-ai=n
Content-Usage: /no-training/but/ train-ai=y
Content-Usage: /search-only/ train-ai=n, ai-use=n, search=y
Content-Usage: /broken/ Train-AI=n
Content-Signal: /signals/ search=no, ai-input=yes, ai-train=no
"""

TDMREP = b"""[
    {"location": "/mining/free/", "tdm-reservation": 0},
    {"location": "/mining/", "tdm-reservation": 1, "tdm-policy": "https://p.example/"},
    {"location": "/mining-unset/", "tdm-reservation": 2}
]"""


def page(head: str = "", **headers: str) -> Answer:
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(
        f"<html><head>{head}</head></html>".encode(),
        headers={"Content-Type": "text/html", **fields},
    )


def meta(name: str, content: str) -> str:
    return f'<meta name="{name}" content="{content}">'


PAGES = {
    "/silent": page(),
    "/no-training/a": page(),
    "/no-training/but/a": page(),
    "/search-only/a": page(),
    "/broken/a": page(),
    "/signals/a": page(),
    "/for-all/a": page(),
    "/header": page(Content_Usage="train-ai=n, search=n, ai-use=y"),
    "/header-broken": page(Content_Usage="train-ai = n"),
    "/header-and-robots/a": page(Content_Usage="search=n"),
    "/noai": page(meta("robots", "noai")),
    "/noai-header": page(X_Robots_Tag="testbot: noai"),
    "/noai-others": page(X_Robots_Tag="otherbot: noai"),
    "/tdm-header": page(tdm_reservation="1"),
    "/tdm-meta": page(meta("TDM-Reservation", "1")),
    "/tdm-freed": page(meta("tdm-reservation", "0"), tdm_reservation="1"),
    "/mining/a": page(),
    "/mining/free/a": page(),
    "/mining/header": page(tdm_reservation="0"),
    "/mining-unset/a": page(),
    "/moved": redirect("/no-training/moved"),
    "/no-training/moved": page(),
    "/licensed": page(
        '<link rel="license" type="application/rsl+xml" href="https://license.example/p">'
    ),
}
"""All are linked from the front page, except for the target of the redirect."""

DENIED = {
    "search": {"/signals/a", "/header", "/header-and-robots/a"},
    "train-ai": {
        "/no-training/a", "/search-only/a", "/signals/a", "/for-all/a", "/header",
        "/noai", "/noai-header", "/tdm-header", "/tdm-meta", "/mining/a",
        "/no-training/moved",
    },
    "ai-use": {"/search-only/a"},
    "tdm": {"/tdm-header", "/tdm-meta", "/mining/a"},
}  # fmt: skip
"""The pages that must not be used for each purpose."""


def build(site: Site) -> Host:
    host = site.add(ROBOTS)
    links = [f'<a href="{path}">' for path in PAGES if path != "/no-training/moved"]
    body = f"<html>{''.join(links)}<a href='/private/a'></html>".encode()
    host.answers |= {
        "/": Answer(body, headers={"Content-Type": "text/html"}),
        "/.well-known/tdmrep.json": Answer(
            TDMREP, headers={"Content-Type": "application/json"}
        ),
        **PAGES,
    }
    return host


def items_for(*purposes: str) -> set[str]:
    """Return the pages whose items may pass."""
    pages = {"/", *PAGES} - {"/moved"}
    return pages.difference(*(DENIED[purpose] for purpose in purposes))
