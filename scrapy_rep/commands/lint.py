"""``scrapy rep lint``: what is wrong with robots.txt files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy.exceptions import UsageError

from scrapy_rep.commands.output import (
    CLEAN,
    FOUND,
    WRONG_USAGE,
    Output,
    counted,
    notify,
    shortened,
)
from scrapy_rep.commands.profile import profile_of
from scrapy_rep.commands.sources import of_arguments
from scrapy_rep.commands.urls import is_url, parse_url
from scrapy_rep.commands.web import ask
from scrapy_rep.protocol.access.results import Access
from scrapy_rep.protocol.lint.findings import SEVERITIES, Finding
from scrapy_rep.protocol.lint.linter import ROW_OF

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from scrapy.settings import Settings

    from scrapy_rep.commands.output import Line
    from scrapy_rep.commands.sources import LoadedRobotsTxt
    from scrapy_rep.protocol.dialect import Dialect

_OF_FETCHES = (Access.UNAVAILABLE.value, Access.UNREACHABLE.value)
"""The codes of findings about a robots.txt that could not be fetched."""

_LINES_SHOWN = 5


def run(arguments: Namespace, settings: Settings) -> int:
    profile = profile_of(arguments, settings)
    output = Output(arguments)
    for code in arguments.explain:
        output.show(_explanation(code), _explanation_text)
    if not arguments.files:
        if not arguments.explain:
            raise UsageError("name a file or a URL, or a code with --explain")
        return CLEAN
    ignored = {name.strip() for each in arguments.ignore for name in each.split(",")}
    for code in sorted(ignored - ROW_OF.keys() - set(_OF_FETCHES)):
        raise UsageError(f"--ignore is {code!r}, but it must be {_codes()}")
    shown = SEVERITIES[: SEVERITIES.index(arguments.severity) + 1]
    status = CLEAN
    offline = not any(is_url(each) and parse_url(each) for each in arguments.files)
    files = ask(
        profile, lambda web: of_arguments(arguments.files, web), offline=offline
    )
    for file in files:
        if isinstance(file, UsageError):
            notify(str(file))
            status = WRONG_USAGE
            continue
        findings = sorted(
            (
                each
                for each in _findings(file, profile.dialect)
                if each.severity in shown and each.code not in ignored
            ),
            key=lambda each: SEVERITIES.index(each.severity),
        )
        severities = [each.severity for each in findings]
        record = {
            "file": file.where,
            "dialect": profile.dialect.name,
            "clean": not {"error", "warning"} & set(severities),
            **{f"{each}s": severities.count(each) for each in SEVERITIES},
            "findings": [each._asdict() for each in findings],
        }
        output.show(record, _text)
        if not record["clean"]:
            status = max(status, FOUND)
    return status


def _findings(file: LoadedRobotsTxt, dialect: Dialect) -> Sequence[Finding]:
    result = file.result
    if result is None or result.access is Access.SUCCESSFUL:
        return file.read_as(dialect).lint()
    code, text = str(result.access), str(result)
    if file.is_unreachable or result.status in dialect.denying_statuses:
        message = (
            "crawlers can't read robots.txt, and treat all URLs as forbidden: answer "
            "with status 200, or with 404 if everything is allowed"
        )
        return [Finding(0, code, "error", message, text)]
    message = "there is no robots.txt, so everything is allowed"
    return [Finding(0, code, "note", message, text)]


def _text(line: Line, record: dict[str, Any]) -> None:
    where = record["file"]
    counts = [
        counted(record[f"{each}s"], each) for each in SEVERITIES if record[f"{each}s"]
    ]
    if not counts:
        line("{:bold}{:word}", f"{where}: ", "clean")
        return
    line("{:bold}{}", f"{where}: ", ", ".join(counts))
    together: dict[object, list[dict[str, Any]]] = {}
    for number, each in enumerate(record["findings"]):
        # The notes of one code differ little, so the first one stands for all.
        key = each["code"] if each["severity"] == "note" else number
        together.setdefault(key, []).append(each)
    for each, *others in together.values():
        place = f"{where}:{each['line']}: " if each["line"] else f"{where}: "
        code, message = each["code"], each["message"]
        line("{:bold}{:word} [{}] {}", place, each["severity"], code, message)
        if each["text"]:
            line("    {}", each["text"][:200])
        if others:
            numbers = shortened([str(other["line"]) for other in others], _LINES_SHOWN)
            line(f"    and {len(others)} more with this code, on lines {numbers}")


def _explanation(code: str) -> dict[str, Any]:
    if code not in ROW_OF:
        raise UsageError(f"--explain is {code!r}, but it must be {_codes()}")
    row = ROW_OF[code]
    found = row.explain()
    return {
        "code": code,
        "severity": row.severity,
        "example": row.example.decode("utf-8", "backslashreplace"),
        "line": found.line,
        "message": found.message,
    }


def _explanation_text(line: Line, record: dict[str, Any]) -> None:
    line("{:bold}: {:word}", record["code"], record["severity"])
    for number, text in enumerate(record["example"].splitlines(), 1):
        line("{:blue}{}", f"  {number} | ", text)
    place = f"line {record['line']}: " if record["example"] else ""
    line("  {}{}", place, record["message"])


def _codes() -> str:
    return f"one of {', '.join(sorted(ROW_OF))}"
