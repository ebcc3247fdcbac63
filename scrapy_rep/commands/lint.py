"""``scrapy rep lint``: what is wrong with robots.txt files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.exceptions import UsageError

from scrapy_rep.commands.shared.exit_status import CLEAN, FOUND, WRONG_USAGE
from scrapy_rep.commands.shared.output import Output, Painted, notify
from scrapy_rep.commands.shared.profile import profile_of
from scrapy_rep.commands.shared.sources import given_files
from scrapy_rep.protocol.access.results import Access
from scrapy_rep.protocol.lint.findings import Finding

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from scrapy.settings import Settings

    from scrapy_rep.commands.shared.output import Style
    from scrapy_rep.commands.shared.robotstxt import LoadedRobotsTxt
    from scrapy_rep.protocol.access.results import AccessResult
    from scrapy_rep.protocol.dialect import Dialect

_STYLES: dict[str, Style] = {"error": "red", "warning": "yellow", "note": "green"}


def run(arguments: Namespace, settings: Settings) -> int:
    profile = profile_of(arguments, settings)
    output = Output(arguments)
    status = CLEAN
    for file in given_files(arguments.files, profile):
        if isinstance(file, UsageError):
            notify(str(file))
            status = WRONG_USAGE
            continue
        findings = _findings(file)
        is_clean = all(each.severity == "note" for each in findings)
        if output.as_json:
            output.record(
                {
                    "file": file.where,
                    "dialect": profile.dialect.name,
                    "clean": is_clean,
                    "findings": [each._asdict() for each in findings],
                }
            )
        else:
            _show(output, file.where, findings)
        if not is_clean:
            status = max(status, FOUND)
    return status


def _findings(file: LoadedRobotsTxt) -> Sequence[Finding]:
    result = file.result
    if result is not None and result.access is not Access.SUCCESSFUL:
        return [_no_file(result, file.dialect)]
    return file.robots.lint()


def _no_file(result: AccessResult, dialect: Dialect) -> Finding:
    """Return the finding on a robots.txt that could not be fetched."""
    code, text = str(result.access), str(result)
    if result.access is Access.UNREACHABLE or result.status in dialect.denying_statuses:
        message = (
            "crawlers can't read robots.txt, and treat all URLs as forbidden: answer "
            "with status 200, or with 404 if everything is allowed"
        )
        return Finding(0, code, "error", message, text)
    message = "there is no robots.txt, so everything is allowed"
    return Finding(0, code, "note", message, text)


def _show(output: Output, where: str, findings: Sequence[Finding]) -> None:
    for line, code, severity, message, text in findings:
        place = f"{where}:{line}: " if line else f"{where}: "
        painted = Painted(severity, _STYLES[severity])
        output.line(Painted(place, "bold"), painted, f" [{code}] ", message)
        if text:
            output.line("    ", text[:200])
    if not findings:
        output.line(Painted(f"{where}: ", "bold"), Painted("clean", "green"))
