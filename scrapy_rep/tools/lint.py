"""The subcommand ``scrapy rep lint``, which shows mistakes in robots.txt files, and how to correct them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import UsageError

from scrapy_rep.protocol.access.results import Access
from scrapy_rep.protocol.linter import KINDS, SEVERITIES, Finding, explain, lint
from scrapy_rep.tools.inputs import is_url, parse_url, read_sources
from scrapy_rep.tools.output import CLEAN, Output, notify, status_of
from scrapy_rep.tools.profile import ask, profile_of

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from scrapy.settings import Settings

    from scrapy_rep.protocol.dialect import Dialect
    from scrapy_rep.tools.inputs import RulesSource

_FINDINGS = (
    "findings",
    ("{place:bold}: {severity:word} [{code}] {message}", "    {text}"),
)
_ROWS = ("{file:bold}: {errors:=error}, {warnings:=warning}", _FINDINGS)
_NO_FILE_ROWS = ("{file:bold}: {access[why]}", _FINDINGS)
_EXPLANATION_ROWS = (
    "{code:bold}: {severity:word}",
    ("lines", ("  | {item}",)),
    "  line {line}: {message}",
)

_CLOSED = "everything-forbidden"


def run(arguments: Namespace, settings: Settings) -> int:
    profile = profile_of(arguments, settings)
    output = Output(arguments)
    ignored = {name.strip() for codes in arguments.ignore for name in codes.split(",")}
    codes_by_option = {"--explain": arguments.explain, "--ignore": sorted(ignored)}
    for option, codes in codes_by_option.items():
        for code in codes:
            if code not in KINDS:
                code_names = ", ".join(KINDS)
                raise UsageError(
                    f"{option} is {code!r}, but it must be one of these codes: {code_names}"
                )
    for code in arguments.explain:
        explained = _explanation(code)
        lines = explained["example"].splitlines()
        output.show(explained, _EXPLANATION_ROWS, lines=lines)
    if not arguments.files:
        if not arguments.explain:
            raise UsageError(
                "nothing to do; give a file, a URL, or --explain with a code"
            )
        return CLEAN
    severities = SEVERITIES[: SEVERITIES.index(arguments.severity) + 1]
    offline = not any(is_url(name) and parse_url(name) for name in arguments.files)
    files = ask(
        profile, lambda web: read_sources(arguments.files, web), offline=offline
    )
    answers: set[bool | None] = set()
    has_invalid_input = False
    for file in files:
        if isinstance(file, UsageError):
            notify(str(file))
            has_invalid_input = True
            continue
        findings = [
            finding._asdict()
            for finding in _findings(file, profile.dialect)
            if finding.severity in severities and finding.code not in ignored
        ]
        findings.sort(key=lambda finding: SEVERITIES.index(finding["severity"]))
        counts = Counter(finding["severity"] for finding in findings)
        name = file.url
        record: dict[str, Any] = {
            "file": name,
            "dialect": profile.dialect.name,
            "access": file.access,
            "clean": not findings if file.is_known else None,
            **{f"{severity}s": counts[severity] for severity in SEVERITIES},
            "findings": findings,
        }
        places = [
            {
                **finding,
                "place": f"{name}:{finding['line']}" if finding["line"] else name,
            }
            for finding in findings
        ]
        rows = _ROWS if file.result.access is Access.SUCCESSFUL else _NO_FILE_ROWS
        output.show(record, rows, findings=places)
        answers.add(record["clean"])
    return status_of(answers, has_invalid_input=has_invalid_input)


def _findings(file: RulesSource, dialect: Dialect) -> Sequence[Finding]:
    """Return the findings in a robots.txt.

    If the fetch failed, there is no robots.txt to check. In this case, the result is a single finding if the status of
    the response forbids the whole site in *dialect*, as 403 does in the classic dialect. For any other failure, the
    result is empty.
    """
    result = file.result
    if result.access is Access.SUCCESSFUL:
        return lint(result.body, dialect, result.url)
    if result.status not in dialect.denying_statuses:
        return ()
    kind = KINDS[_CLOSED]
    remedy = "answer with status 404 if search engines should find the site"
    return (Finding(0, _CLOSED, kind.severity, f"{kind.words}: {remedy}", str(result)),)


def _explanation(code: str) -> dict[str, Any]:
    """Return a JSON object that explains the finding *code* by an example. ``example`` is the text of a robots.txt with
    this mistake. The other keys, ``code``, ``severity``, ``line`` and ``message``, are those of the finding.
    """
    finding = explain(code)
    return {
        "code": code,
        "severity": finding.severity,
        "example": KINDS[code].example.decode("utf-8", "backslashreplace"),
        "line": finding.line,
        "message": finding.message,
    }
