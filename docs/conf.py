"""How Sphinx builds these pages: ``sphinx-build -W docs docs/_build``."""

from __future__ import annotations

import re
import sys
from configparser import ConfigParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "docs" / "_ext")]

from scrapy_rep.base import __version__

_setup = ConfigParser(interpolation=None)
_setup.read(ROOT / "setup.cfg", encoding="utf-8")

project = "scrapy-rep"
author = project_copyright = _setup["metadata"]["author"]
release = version = __version__

# Nothing is loaded from the network in a build.
extensions = [
    "logmessages",
    "myst_parser",
    "settinglinks",
    "sphinx.ext.autodoc",
    "sphinx.ext.intersphinx",
]

# The inventory of Scrapy 2.19's documentation: each object, with its page and anchor.
intersphinx_mapping = {"scrapy": ("https://docs.scrapy.org/en/latest/", "scrapy.inv")}

# A theme that is light or dark as the reader's system is, with enough contrast in both.
html_theme = "furo"
html_title = f"{project} {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]

exclude_patterns = ["_build"]
myst_heading_anchors = 4
smartquotes = False

autodoc_member_order = "bysource"
autodoc_preserve_defaults = True

INCLUDED = {
    "../CHANGELOG.md": "changelog.md",
    "../SECURITY.md": "security.md",
    "../benchmarks/README.md": "benchmarks.md",
    "../conformance/README.md": "conformance-cases.md",
    "../example_project/README.md": "example.md",
}
"""Pages of the repository, and the pages of the site that include them."""


def show_readme(app: Sphinx, name: str, source: list[str]) -> None:
    """Put README.md on the first page, without links to files that the site does not have."""
    if name == "index":
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        readme = readme.replace("](docs/", "](")
        readme = re.sub(r"\]\(([A-Z]+\.md)\)", r"](../\1)", readme)
        readme = re.sub(
            r"\[([^\]]*)\]\((LICENSE|\.\./CONTRIBUTING\.md)\)", r"\1", readme
        )
        source[0] = readme + "\n" + source[0]


def link_to_included(app: Sphinx, name: str, source: list[str]) -> None:
    """Replace links to pages of the repository by links to pages of the site."""
    up = "../" * name.count("/")
    for path, page in INCLUDED.items():
        source[0] = source[0].replace(f"]({up}{path}", f"]({up}{page}")


def drop_alias(app: Sphinx, *object_and_options: Any) -> None:
    """Remove what Python says of the field of a tuple that has no docstring."""
    lines: list[str] = object_and_options[-1]
    if lines and lines[0].startswith("Alias for field number"):
        lines.clear()


def setup(app: Sphinx) -> None:
    app.connect("source-read", show_readme)
    app.connect("source-read", link_to_included)
    app.connect("autodoc-process-docstring", drop_alias)
