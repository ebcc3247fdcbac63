"""Shows the findings of robots.txt files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy.exceptions import UsageError

from scrapy_rep.commands.shared.exit_status import CLEAN, FOUND, WRONG_USAGE
from scrapy_rep.commands.shared.output import (
    BOLD,
    GREEN,
    RED,
    YELLOW,
    Output,
    Painted,
    complain,
)
from scrapy_rep.commands.shared.profile import profile_of
from scrapy_rep.commands.shared.robotstxt_files import given_files
from scrapy_rep.protocol.access.results import Access
from scrapy_rep.protocol.robots import RobotsTxt

if TYPE_CHECKING:
    from argparse import Namespace

    from scrapy.settings import Settings

    from scrapy_rep.commands.shared.robotstxt_files import GivenFile
    from scrapy_rep.protocol.access.results import AccessResult
    from scrapy_rep.protocol.dialect import Dialect

_COLOURS = {"error": RED, "warning": YELLOW, "note": GREEN}
_BAD = {"error", "warning"}


def lint(arguments: Namespace, settings: Settings) -> int:
    profile = profile_of(arguments, settings)
    output = Output.of(arguments)
    status = CLEAN
    for file in given_files(arguments.files, profile):
        if isinstance(file, UsageError):
            complain(str(file))
            status = WRONG_USAGE
            continue
        findings = _findings(file, profile.dialect)
        if output.as_json:
            output.record(
                {
                    "file": file.where,
                    "dialect": profile.dialect.name,
                    "clean": _is_clean(findings),
                    "findings": findings,
                }
            )
        else:
            _show(output, file.where, findings)
        if not _is_clean(findings):
            status = max(status, FOUND)
    return status


def _findings(file: GivenFile, dialect: Dialect) -> list[dict[str, Any]]:
    result = file.result
    if result is not None and result.access is not Access.SUCCESSFUL:
        return [_no_file(result, dialect)]
    robots = RobotsTxt.parse(file.octets, dialect, file.url)
    return [
        {
            "line": finding.line,
            "code": finding.code,
            "severity": str(finding.severity),
            "message": finding.message,
            "text": finding.text,
        }
        for finding in robots.lint()
    ]


def _no_file(result: AccessResult, dialect: Dialect) -> dict[str, Any]:
    """The finding where there is no robots.txt to read."""
    denies = (
        result.access is Access.UNREACHABLE or result.status in dialect.denying_statuses
    )
    message = (
        "there is no robots.txt to read, and crawlers take that for a prohibition: answer "
        "with status 200, or with 404 if everything is allowed"
        if denies
        else "there is no robots.txt, so everything is allowed"
    )
    return {
        "line": 0,
        "code": str(result.access),
        "severity": "error" if denies else "note",
        "message": message,
        "text": str(result),
    }


def _is_clean(findings: list[dict[str, Any]]) -> bool:
    return all(finding["severity"] not in _BAD for finding in findings)


def _show(output: Output, where: str, findings: list[dict[str, Any]]) -> None:
    for finding in findings:
        severity = Painted(finding["severity"], _COLOURS.get(finding["severity"], ""))
        place = f"{where}:{finding['line']}: " if finding["line"] else f"{where}: "
        output.line(
            Painted(place, BOLD), severity, f" [{finding['code']}] ", finding["message"]
        )
        if finding["text"]:
            output.line("    ", finding["text"][:200])
    if not findings:
        output.line(Painted(f"{where}: ", BOLD), Painted("clean", GREEN))
