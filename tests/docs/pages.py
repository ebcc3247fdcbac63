"""The pages of the documentation, their code samples, and the environment in which samples run."""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PROJECT = ROOT / "example_project"
PAGES = [
    ROOT / "README.md",
    *sorted(path for path in DOCS.rglob("*.md") if "_build" not in path.parts),
]

_FENCE = re.compile(
    r"(?:^<!-- (?P<mark>[^\n]*) -->\n)?"
    r"^(?P<indent> *)```(?P<language>[^\n`]*)\n(?P<code>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)


class Sample(NamedTuple):
    """A fenced code block of a page. *mark* is the HTML comment directly above it."""

    page: str
    line: int
    language: str
    code: str
    mark: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def kind(self) -> str:
        """The kind of a Python sample: "settings", "spider" or "code"."""
        statements = ast.parse(self.code).body
        if all(map(_is_setting, statements)):
            return "settings"
        classes = [
            statement for statement in statements if isinstance(statement, ast.ClassDef)
        ]
        bases = [ast.unparse(base) for statement in classes for base in statement.bases]
        is_spider = any(base.endswith("Spider") for base in bases)
        return "spider" if is_spider else "code"


def samples(*languages: str) -> list[Sample]:
    """Return the code samples of all pages, for example ``samples("sh", "console")`` for those in two languages.
    Without *languages*, return the samples in all languages.
    """
    return [
        Sample(
            str(path.relative_to(ROOT)),
            text.count("\n", 0, fence.start("language")) + 1,
            fence["language"],
            dedent(fence["code"]),
            fence["mark"] or "",
        )
        for path in PAGES
        for text in [path.read_text(encoding="utf-8")]
        for fence in _FENCE.finditer(text)
        if not languages or fence["language"] in languages
    ]


def python_samples(kind: str) -> list[Sample]:
    """Return the Python samples of all pages whose :attr:`Sample.kind` is *kind*: "settings", "spider" or "code"."""
    return [sample for sample in samples("python") if sample.kind == kind]


def environment() -> dict[str, str]:
    """Return the environment variables for a subprocess: those of this process, with the package on the Python path.
    Variables that select another Scrapy project or measure coverage are left out.
    """
    # Other tests measure the coverage of the same code.
    excluded_words = ("SCRAPY", "COVERAGE")
    variables = {
        name: value
        for name, value in os.environ.items()
        if not any(word in name for word in excluded_words)
    }
    paths = [str(ROOT), *filter(None, [variables.get("PYTHONPATH")])]
    return variables | {"PYTHONPATH": os.pathsep.join(paths)}


def _is_setting(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Assign)
        and isinstance(statement.targets[0], ast.Name)
        and statement.targets[0].id.isupper()
        and not any(isinstance(node, ast.Call) for node in ast.walk(statement))
    )
