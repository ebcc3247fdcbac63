"""``scrapy rep lint``: what is wrong with robots.txt files."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import UsageError

from scrapy_rep.protocol.access.results import Access
from scrapy_rep.tools.findings import SEVERITIES, Finding
from scrapy_rep.tools.linter import ROW_OF
from scrapy_rep.tools.output import CLEAN, FOUND, WRONG_USAGE, Output, notify
from scrapy_rep.tools.profile import profile_of
from scrapy_rep.tools.sources import of_arguments
from scrapy_rep.tools.urls import is_url, parse_url
from scrapy_rep.tools.web import ask

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Iterator, Sequence

    from scrapy.settings import Settings

    from scrapy_rep.protocol.dialect import Dialect
    from scrapy_rep.tools.sources import LoadedRobotsTxt

_OF_FETCHES = (Access.UNAVAILABLE.value, Access.UNREACHABLE.value)
"""The codes of findings about a robots.txt that could not be fetched."""

_ROWS = (
    "{file:bold}: {errors:=error}, {warnings:=warning}, {notes:=note}",
    (
        "findings",
        (
            "{place:bold}: {severity:word} [{code}] {message}",
            "    {text}",
            "    and {more:some} more with this code, in line {lines}",
        ),
    ),
)
_EXPLANATION_ROWS = (
    "{code:bold}: {severity:word}",
    ("lines", ("  | {item}",)),
    "  line {line}: {message}",
)


def run(arguments: Namespace, settings: Settings) -> int:
    profile = profile_of(arguments, settings)
    output = Output(arguments)
    for code in arguments.explain:
        explained = _explanation(code)
        lines = explained["example"].splitlines()
        output.show(explained, _EXPLANATION_ROWS, lines=lines)
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
        findings = [
            each._asdict()
            for each in _findings(file, profile.dialect)
            if each.severity in shown and each.code not in ignored
        ]
        findings.sort(key=lambda each: SEVERITIES.index(each["severity"]))
        counts = Counter(each["severity"] for each in findings)
        record: dict[str, Any] = {
            "file": file.result.url,
            "dialect": profile.dialect.name,
            "clean": not counts["error"] + counts["warning"],
            **{f"{each}s": counts[each] for each in SEVERITIES},
            "findings": findings,
        }
        texts = list(_texts(record["file"], findings))
        output.show(record, _ROWS, findings=texts)
        if not record["clean"]:
            status = max(status, FOUND)
    return status


def _findings(file: LoadedRobotsTxt, dialect: Dialect) -> Sequence[Finding]:
    result = file.result
    if result.access is Access.SUCCESSFUL:
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


def _texts(file: str, findings: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the findings as the text has them. The notes of one code differ little, so the first
    one stands for all.
    """
    together: dict[object, list[dict[str, Any]]] = {}
    for number, each in enumerate(findings):
        key = each["code"] if each["severity"] == "note" else number
        together.setdefault(key, []).append(each)
    for first, *others in together.values():
        yield {
            **first,
            "place": f"{file}:{first['line']}" if first["line"] else file,
            "text": first["text"][:200],
            "more": len(others),
            "lines": [each["line"] for each in others],
        }


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


def _codes() -> str:
    return f"one of {', '.join(sorted(ROW_OF))}"
