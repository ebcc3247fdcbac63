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
WRAPPERS = {"_log": "info", "_warn": "warning", "log": ""}
"""Methods that log their arguments, and their level if it is not an argument."""

# Parsing a module is slow, and most modules log nothing.
MAY_LOG = re.compile(r"\blogger\b|(?:_log|_warn|\blog)\(")


class Message(NamedTuple):
    level: str
    text: str
    logger: str


def messages() -> list[Message]:
    """Each message once, by level, logger and text."""
    found = {
        message
        for path in PACKAGE.rglob("*.py")
        for source in [path.read_text(encoding="utf-8")]
        if MAY_LOG.search(source)
        for message in _of_module(path, ast.parse(source))
    }
    return sorted(
        found, key=lambda each: (LEVELS.index(each.level), each.logger, each.text)
    )


def _of_module(path: Path, tree: ast.Module) -> Iterator[Message]:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    logger = ".".join(parts).removesuffix(".__init__")
    for function in ast.walk(tree):
        if not isinstance(
            function, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Module)
        ):
            continue
        for call in calls(function):
            for level in _levels(call, function):
                for text in _texts(call, function):
                    yield Message(level, text, logger)


def calls(function: ast.AST) -> Iterator[ast.Call]:
    """The calls that log, in a function or at the top of a module."""
    for node in (
        ast.walk(function) if not isinstance(function, ast.Module) else _top(function)
    ):
        if isinstance(node, ast.Call) and isinstance(
            node.func, (ast.Attribute, ast.Name)
        ):
            name = (
                node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
            )
            is_logger = "logger" in ast.unparse(node.func)
            if (
                (is_logger and name in (*LEVELS, "exception"))
                or name in WRAPPERS
                or _is_partial(node)
            ):
                yield node


def _top(module: ast.Module) -> Iterator[ast.AST]:
    for statement in module.body:
        if not isinstance(
            statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        ):
            yield from ast.walk(statement)


def _is_partial(call: ast.Call) -> bool:
    return bool(call.args) and ast.unparse(call.args[0]).startswith("logger.")


def _levels(call: ast.Call, function: ast.AST) -> set[str]:
    """The levels that a call logs at: by its name, its first two arguments, or a variable."""
    written = [call.func, *call.args[:2]]
    if isinstance(call.func, ast.Name):
        written += _assigned(call.func.id, function)
    if call.args and isinstance(call.args[0], ast.Name):
        written += _assigned(call.args[0].id, function)
    text = " ".join(map(ast.unparse, written)).replace("logging.", "logger.").lower()
    text = text.replace("logger.exception", "logger.error")
    found = {level for level in LEVELS if f"logger.{level}" in text}
    return found or {WRAPPERS[text.split()[0].rpartition(".")[2]]}


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
