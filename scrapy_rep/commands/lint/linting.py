"""Shows the findings of robots.txt files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy_rep.commands.shared.bodies import bodies
from scrapy_rep.commands.shared.output import BOLD, GREEN, RED, YELLOW, Output, Painted
from scrapy_rep.commands.shared.running import CLEAN, FOUND
from scrapy_rep.commands.shared.terms import terms_of
from scrapy_rep.protocol.access.results import Access
from scrapy_rep.protocol.robots import RobotsTxt

if TYPE_CHECKING:
    from argparse import Namespace

    from scrapy.settings import Settings

    from scrapy_rep.commands.shared.bodies import Body
    from scrapy_rep.protocol.access.results import AccessResult
    from scrapy_rep.protocol.dialect import Dialect

_COLOURS = {"error": RED, "warning": YELLOW, "note": GREEN}
_BAD = {"error", "warning"}


def lint(arguments: Namespace, settings: Settings) -> int:
    terms = terms_of(arguments, settings)
    output = Output.of(arguments)
    status = CLEAN
    for body in bodies(arguments.files, terms):
        findings = _findings(body, terms.dialect)
        if output.as_json:
            output.record(
                {
                    "file": body.where,
                    "dialect": terms.dialect.name,
                    "clean": _is_clean(findings),
                    "findings": findings,
                }
            )
        else:
            _show(output, body.where, findings)
        if not _is_clean(findings):
            status = FOUND
    return status


def _findings(body: Body, dialect: Dialect) -> list[dict[str, Any]]:
    result = body.result
    if result is not None and result.access is not Access.SUCCESSFUL:
        return [_no_file(result, dialect)]
    robots = RobotsTxt.parse(body.octets, dialect, body.url)
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
    """What is to be said where there is no robots.txt to read."""
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
