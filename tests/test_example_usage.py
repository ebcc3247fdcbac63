"""The gallery of the example project: with each purpose, another set of items is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.example import copy_project, crawl

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.newest

GALLERY = "http://gallery.example"
PAGES = {
    f"{GALLERY}/{path}"
    for path in (
        *("", "archive/1901.html", "archive/open.html", "essay.html", "press/kit.html"),
        *("press/portrait.html", "rooms/blue.html"),
    )
}
FILE = f"{GALLERY}/.well-known/tdmrep.json"


@pytest.mark.parametrize(
    ("purpose", "dropped"),
    [
        pytest.param("", set(), marks=pytest.mark.newest),
        pytest.param(
            "search", {"essay.html", "rooms/blue.html"}, marks=pytest.mark.newest
        ),
        (
            "train-ai",
            {
                "", "archive/1901.html", "archive/open.html", "essay.html",
                "press/portrait.html", "rooms/blue.html",
            },
        ),
        pytest.param("tdm", {"archive/1901.html"}, marks=pytest.mark.newest),
    ],
)  # fmt: skip
def test_gallery(tmp_path: Path, purpose: str, dropped: set[str]) -> None:
    """For each purpose, the crawl keeps the items that may be used for it. It fetches
    tdmrep.json only for purposes that need it.
    """
    project = copy_project(tmp_path)
    arguments = ("demo", "-a", "host=gallery", "-s", f"REP_PURPOSES={purpose}")
    result = crawl(*arguments, project=project)
    assert result.kept == PAGES - {f"{GALLERY}/{path}" for path in dropped}
    needs_file = purpose in {"train-ai", "tdm"}
    assert result.fetched == PAGES | ({FILE} if needs_file else set())
    said = {row.page: row for row in result.rows if row.item == "dropped"}
    assert all(row.said_by and row.statement for row in said.values())
    if purpose == "tdm":
        row = said[f"{GALLERY}/archive/1901.html"]
        assert row.said_by == "tdmrep.json"
        assert row.statement == "/archive/: tdm-reservation 1"
