"""``scrapy rep lint``: what is wrong with robots.txt files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy.exceptions import UsageError

from scrapy_rep.commands.output import CLEAN, FOUND, WRONG_USAGE, Output, notify
from scrapy_rep.commands.profile import profile_of
from scrapy_rep.commands.sources import of_arguments
from scrapy_rep.commands.urls import is_url, parse_url
from scrapy_rep.commands.web import ask
from scrapy_rep.protocol.access.results import Access
from scrapy_rep.protocol.lint.findings import Finding

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from scrapy.settings import Settings

    from scrapy_rep.commands.output import Line
    from scrapy_rep.commands.sources import LoadedRobotsTxt
    from scrapy_rep.protocol.dialect import Dialect


def run(arguments: Namespace, settings: Settings) -> int:
    profile = profile_of(arguments, settings)
    output = Output(arguments)
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
        findings = _findings(file, profile.dialect)
        record = {
            "file": file.where,
            "dialect": profile.dialect.name,
            "clean": all(each.severity == "note" for each in findings),
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
    for each in record["findings"]:
        place = f"{where}:{each['line']}: " if each["line"] else f"{where}: "
        code, message = each["code"], each["message"]
        line("{:bold}{:word} [{}] {}", place, each["severity"], code, message)
        if each["text"]:
            line("    {}", each["text"][:200])
    if not record["findings"]:
        line("{:bold}{:word}", f"{where}: ", "clean")
