"""The page with proposals for Scrapy, its patches, and its table of private names."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import scrapy

from scrapy_rep.compat import internals
from tests.docs.pages import DOCS

pytestmark = pytest.mark.newest

PAGE = (DOCS / "explanation" / "scrapy.md").read_text(encoding="utf-8")
PATCHES = sorted((DOCS / "scrapy-patches").glob("*.patch"))

_FILE = re.compile(r"^diff --git a/(scrapy/\S+) ", re.MULTILINE)
_HUNK = re.compile(
    r"^@@ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@.*\n((?:[ +-].*\n)+)", re.MULTILINE
)


def hunks(patch: Path) -> list[tuple[str, int, list[str]]]:
    """The hunks of *patch* in the package ``scrapy``: file, first line, and the lines before
    the change.
    """
    found = []
    for section in re.split(r"^(?=diff --git )", patch.read_text(), flags=re.MULTILINE):
        file = _FILE.match(section)
        for hunk in _HUNK.finditer(section) if file else ():
            old = [line[1:] for line in hunk[2].splitlines() if line[0] != "+"]
            found.append((file[1], int(hunk[1]), old))
    return found


@pytest.mark.skipif(
    tuple(map(int, scrapy.__version__.split(".")[:2])) < (2, 19),
    reason="the patches are for Scrapy 2.19",
)
@pytest.mark.parametrize("patch", PATCHES, ids=lambda path: path.stem)
def test_patch_applies(patch: Path) -> None:
    """Each patch applies to the installed Scrapy, and has a test."""
    changes = hunks(patch)
    assert changes
    for file, first, old in changes:
        lines = (Path(scrapy.__file__).parents[1] / file).read_text().splitlines()
        assert lines[first - 1 : first - 1 + len(old)] == old, (file, first)
    assert re.search(r"^\+ *(async )?def test_", patch.read_text(), re.MULTILINE)


def test_page_names_each_patch() -> None:
    """The page links to each patch, and lists each in its table."""
    assert len(PATCHES) == 4
    for patch in PATCHES:
        assert f"(../scrapy-patches/{patch.name})" in PAGE
        assert f"| `{patch.name}` |" in PAGE


def test_page_lists_each_private_name() -> None:
    """The table of private names has each function of the module that reads them, with what it
    reads.
    """
    table = dict(re.findall(r"^\| `(\w+)` \| (.*)$", PAGE, re.MULTILINE))
    tree = ast.parse(Path(internals.__file__).read_text())
    functions = {
        node.name: node
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    }
    assert set(table) == {*functions, "PROXY_AUTH_META_KEY"}
    for name, function in functions.items():
        calls = [
            node
            for node in ast.walk(function)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        ]
        for call in calls:
            if call.func.id == "_find":
                path = ast.literal_eval(call.args[1])
                assert path in table[name], (name, path)
