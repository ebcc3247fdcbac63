"""The rules of the house that no linter knows."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.newest

PACKAGE = Path(__file__).parents[1] / "scrapy_rep"
MODULES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_one_subject_a_file(path: Path) -> None:
    """No file passes 300 lines besides its imports, and no function 40."""
    source = path.read_text()
    lines = source.count("\n")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            lines -= node.end_lineno - node.lineno + 1
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            assert node.end_lineno - node.lineno < 40, node.name
    assert lines <= 300


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_nothing_inside_imports_the_root(path: Path) -> None:
    """Modules import each other, never the package itself, which imports them."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            assert all(alias.name != "scrapy_rep" for alias in node.names)
        if isinstance(node, ast.ImportFrom) and node.module == "scrapy_rep":
            for alias in node.names:
                found = PACKAGE / alias.name
                assert found.is_dir() or found.with_suffix(".py").exists(), alias.name


def test_what_is_logged_is_visible() -> None:
    """Each logger is one whose messages are made visible: nobody else gets one."""
    for path in MODULES:
        if path.name != "log.py" and "getLogger(" in path.read_text():
            # Of others' loggers, the traceback of a wrong setting is taken away.
            assert path.relative_to(PACKAGE).as_posix() == "settings/sentence.py"


def test_the_protocol_needs_no_scrapy() -> None:
    """What a user of the protocol alone imports loads neither Scrapy nor Twisted."""
    code = (
        "import sys; import scrapy_rep; from scrapy_rep import RobotsTxt;"
        "from scrapy_rep.protocol import access, origins;"
        "print([name for name in ('scrapy', 'twisted') if name in sys.modules])"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
    assert found.stdout.strip() == "[]"


def test_public_names() -> None:
    """Each name in ``__all__`` can be imported, and no other is made up."""
    import scrapy_rep  # noqa: PLC0415

    for name in scrapy_rep.__all__:
        assert hasattr(scrapy_rep, name)
    with pytest.raises(AttributeError, match="no attribute 'Parser'"):
        scrapy_rep.Parser
