"""Rules of this repository that no linter checks."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.newest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "scrapy_rep"
MODULES = sorted(PACKAGE.rglob("*.py"))


def test_nothing_inside_imports_the_root() -> None:
    """Modules of the package do not import names from ``scrapy_rep``
    itself, which imports them.
    """
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                assert all(alias.name != "scrapy_rep" for alias in node.names), path
            if isinstance(node, ast.ImportFrom) and node.module == "scrapy_rep":
                for alias in node.names:
                    found = PACKAGE / alias.name
                    is_module = found.is_dir() or found.with_suffix(".py").exists()
                    assert is_module, (path, alias.name)


def test_files_that_contributors_are_sent_to() -> None:
    """Each file and folder that CONTRIBUTING.md names exists."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    named = re.findall(r"`((?:\w+/)*\w+\.(?:py|md|txt|cfg)|\w+/[\w/]*)`", text)
    places = (ROOT, PACKAGE)
    assert len(named) > 30
    assert [
        name for name in named if not any((p / name).exists() for p in places)
    ] == []


def test_what_is_logged_is_visible() -> None:
    """All loggers come from ``scrapy_rep.log``, which escapes control characters in messages."""
    for path in MODULES:
        assert path.name == "log.py" or "getLogger(" not in path.read_text(), path


def test_the_protocol_needs_no_scrapy() -> None:
    """The protocol can be imported without Scrapy and Twisted."""
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
    """Each name in ``__all__`` can be imported, and other names raise AttributeError."""
    import scrapy_rep  # noqa: PLC0415

    for name in scrapy_rep.__all__:
        assert hasattr(scrapy_rep, name)
    with pytest.raises(AttributeError, match="no attribute 'Parser'"):
        scrapy_rep.Parser
