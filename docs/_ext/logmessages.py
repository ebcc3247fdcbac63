"""The directive ``log-messages``: every message that the package logs, read in its source."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from docutils import nodes
from docutils.parsers.rst import Directive

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sphinx.application import Sphinx

PACKAGE = Path(__file__).resolve().parents[2] / "scrapy_rep"
LEVELS = ("error", "warning", "info", "debug")
IS_LOGGER = re.compile("logger|CrawlLog").search
LOGS = {*LEVELS, "at_end", "exception", "log", "_log_file", "_warn"}
"""The methods that log their arguments. The level is their name or their first argument."""


class Message(NamedTuple):
    level: str
    text: str
    logger: str


def messages() -> list[Message]:
    """Each message once, by level, logger and text."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        if not IS_LOGGER(source):  # Parsing is slow, and most modules log nothing.
            continue
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        for function in ast.walk(ast.parse(source)):
            if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                found |= {
                    Message(level, text, ".".join(parts))
                    for call in calls(function)
                    for level in _levels(call, function)
                    for text in _texts(call, function)
                }
    return sorted(
        found, key=lambda each: (LEVELS.index(each.level), each.logger, each.text)
    )


def calls(function: ast.AST) -> Iterator[ast.Call]:
    """The calls that log, in a function."""
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner, name = ast.unparse(node.func.value), node.func.attr
            if name in LOGS and (
                IS_LOGGER(owner) or name.startswith("_") or name == "log"
            ):
                yield node


def _levels(call: ast.Call, function: ast.AST) -> set[str]:
    """The levels that a call logs at."""
    assert isinstance(call.func, ast.Attribute)
    name = call.func.attr.lstrip("_").replace("exception", "error")
    name = "warning" if name == "warn" else name
    if name in LEVELS:
        return {name}
    written = [*call.args[:1]]
    if isinstance(written[0], ast.Name):
        written += _assigned(written[0].id, function)
    text = " ".join(map(ast.unparse, written)).lower()
    return {level for level in LEVELS if f"logging.{level}" in text}


def _texts(call: ast.Call, function: ast.AST) -> set[str]:
    """The texts that are the message: of the call, or of the variable that it names, with
    what ``+=`` adds to the variable.
    """
    for argument in call.args:
        texts = _constants(argument)
        if not texts and isinstance(argument, ast.Name):
            for value in _assigned(argument.id, function):
                texts |= _constants(value)
            for more in _added(argument.id, function):
                texts = {text + end for text in texts for end in _constants(more)}
        if texts:
            return texts
    return set()


def _assigned(name: str, function: ast.AST) -> list[ast.expr]:
    """The values that a variable of a function gets."""
    return [
        node.value
        for node in ast.walk(function)
        if isinstance(node, ast.Assign)
        and any(isinstance(to, ast.Name) and to.id == name for to in node.targets)
    ]


def _added(name: str, function: ast.AST) -> list[ast.expr]:
    """The values that a function adds to a variable."""
    return [
        node.value
        for node in ast.walk(function)
        if isinstance(node, ast.AugAssign) and ast.unparse(node.target) == name
    ]


def _constants(node: ast.AST) -> set[str]:
    """The texts with a space in them that a value can be."""
    if isinstance(node, ast.IfExp):
        return _constants(node.body) | _constants(node.orelse)
    is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return {node.value} if is_text and " " in node.value else set()


class LogMessages(Directive):
    """A section for each level, with a list of its messages."""

    def run(self) -> list[nodes.Node]:
        shown: list[nodes.Node] = []
        found = messages()
        for level in LEVELS:
            items = nodes.bullet_list()
            for message in found:
                if message.level == level:
                    items += _item(message)
            section = nodes.section(ids=[level])
            section += nodes.title(text=level.upper())
            section += items
            shown.append(section)
        return shown


def _item(message: Message) -> nodes.list_item:
    paragraph = nodes.paragraph()
    paragraph += nodes.Text(f"{message.text} ")
    paragraph += nodes.literal(text=message.logger)
    return nodes.list_item("", paragraph)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("log-messages", LogMessages)
    return {"parallel_read_safe": True}
