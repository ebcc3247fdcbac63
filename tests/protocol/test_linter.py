"""Tests of the linter for robots.txt. For each code of a finding, there are files that have the finding,
and the same files corrected.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from scrapy_rep.protocol import linter
from scrapy_rep.protocol.dialect import CLASSIC, DIALECTS, GOOGLE, RFC9309, Dialect
from scrapy_rep.protocol.linter import KINDS, MAX_OF_A_CODE, MAX_TEXT, Finding, explain
from scrapy_rep.protocol.robots import RobotsTxt
from tests.protocol.corpus import agents_for, read_corpus, urls_for

ANY = "User-agent: *\n"
FILE_URL = "https://www.example.com/robots.txt"
LINE_LIMIT = GOOGLE.line_limit or 0
# Codes of findings on lines with rules that never decide.
INEFFECTIVE = {"outside-group"}


class Case(NamedTuple):
    code: str
    body: str | bytes  # A file with the finding.
    line: int
    remedy: str  # A part of the message.
    corrected: str | bytes  # The file without the finding.
    dialect: Dialect = RFC9309


def lint(body: str | bytes, dialect: Dialect = RFC9309) -> tuple[Finding, ...]:
    return linter.lint(body, dialect, FILE_URL)


def codes(body: str | bytes, dialect: Dialect = RFC9309) -> list[str]:
    """Return the codes of the findings, except "everything-forbidden", which many test files have."""
    codes = [finding.code for finding in lint(body, dialect)]
    return [code for code in codes if code != "everything-forbidden"]


def rule(pattern: str, kind: str = "Disallow") -> str:
    return f"{ANY}{kind}: {pattern}\n"


TOO_LONG = "".join(
    f"{('Allow', 'Disallow')[n % 2]}: /*{'a*' * 100}zzzz*{n}\n" for n in range(99)
)
"""Opposite rules that take too long to compare with each other."""

USAGE = [
    Case("bad-value", ANY + "Content-Usage: Train-AI=n", 2, "labels (train-ai, ai-use or search) with y or n", ANY + "Content-Usage: train-ai=n"),
    Case("bad-value", ANY + "Content-Usage: train-ai = n", 2, "labels (train-ai, ai-use or search) with y or n", ANY + "Content-Usage: train-ai=n"),
    Case("bad-value", ANY + "Content-Signal: ai-train:no", 2, "as in Content-Signal: ai-train=no", ANY + "Content-Signal: ai-train=no"),
    Case("bad-value", ANY + "Content-Usage: /a", 2, "labels (train-ai, ai-use or search) with y or n", ANY + "Content-Usage: /a train-ai=n"),
    Case("bad-value", ANY + "Content-Signal:", 2, "as in Content-Signal: ai-train=no", ANY + "Content-Signal: ai-train=no"),
    Case("bad-value", ANY + "Content-Usage: blog/ train-ai=n", 2, "labels (train-ai, ai-use or search) with y or n", ANY + "Content-Usage: /blog/ train-ai=n"),
    Case("bad-value", ANY + "Content-Signal: *.pdf ai-train=no", 2, "as in Content-Signal: ai-train=no", ANY + "Content-Signal: /*.pdf ai-train=no"),
    Case("outside-group", "Content-Usage: train-ai=n\n" + rule("/"), 1, "user-agent line", rule("/") + "Content-Usage: train-ai=n"),
    Case("bad-value", ANY + "Content-Usage: ai-train=n", 2, "labels (train-ai, ai-use or search) with y or n", ANY + "Content-Usage: train-ai=n"),
    Case("bad-value", ANY + "Content-Signal: train-ai=no", 2, "as in Content-Signal: ai-train=no", ANY + "Content-Signal: ai-train=no"),
    Case("bad-value", ANY + "Content-Usage: trian-ai=n", 2, "labels (train-ai, ai-use or search) with y or n", ANY + "Content-Usage: train-ai=n"),
    Case("bad-value", ANY + "Content-Usage: bots=n", 2, "labels (train-ai, ai-use or search) with y or n", ANY + "Content-Usage: ai-use=n"),
    Case("bad-value", ANY + "Content-Usage: train-ai=yes", 2, "labels (train-ai, ai-use or search) with y or n", ANY + "Content-Usage: train-ai=y"),
    Case("bad-value", ANY + "Content-Usage: train-ai", 2, "labels (train-ai, ai-use or search) with y or n", ANY + "Content-Usage: train-ai=n"),
    Case("bad-value", ANY + "Content-Signal: ai-train=n", 2, "as in Content-Signal: ai-train=no", ANY + "Content-Signal: ai-train=no"),
    Case("bad-value", ANY + "Content-Usage: search=y, train-ai=x", 2, "labels (train-ai, ai-use or search) with y or n", ANY + "Content-Usage: search=y, train-ai=y"),
    Case("bad-value", ANY + "Content-Signal: ai-input=no, foo=yes", 2, "as in Content-Signal: ai-train=no", ANY + "Content-Signal: ai-input=no"),
    Case("bad-value", ANY + "Content-Signal: use=all", 2, "as in Content-Signal: ai-train=no", ANY + "Content-Signal: use=full"),
    Case("misspelt-field", ANY + "Content-Signals: ai-train=no", 2, "write Content-Signal", ANY + "Content-Signal: ai-train=no"),
    Case("misspelt-field", ANY + "Content-Useage: train-ai=n", 2, "write Content-Usage", ANY + "Content-Usage: train-ai=n"),
]  # fmt: skip

FILE = [
    Case("encoding", b"\xef\xbb\xbf" + rule("/a").encode(), 1, "UTF-8", rule("/a")),
    Case("encoding", b"\xef\xbb" + rule("/a").encode(), 1, "save the file as UTF-8", rule("/a")),
    Case("encoding", b"\xef" + rule("/a").encode(), 1, "save the file as UTF-8", rule("/a"), GOOGLE),
    Case("encoding", ANY + "\ufeffDisallow: /a", 2, "save the file as UTF-8", ANY + "Disallow: /a # \ufeff"),
    Case("encoding", b"\xff\xfe" + rule("/a").encode("utf-16-le"), 1, "save the file as UTF-8", rule("/a")),
    Case("encoding", rule("/a").encode("utf-16-le"), 1, "save the file as UTF-8", rule("/a")),
    Case("encoding", rule("/a\0b"), 2, "null bytes", rule("/ab")),
    Case("encoding", (ANY + "Disallow: /caf").encode() + b"\xe9", 2, "as UTF-8", rule("/café")),
    Case("encoding", ANY.encode() + b"Disallow: /\xc3", 2, "as UTF-8", ANY.encode() + b"Disallow: / # \xe9"),
    Case("too-large", rule("/" + "a" * LINE_LIMIT), 2, "Google reads only the first 16,663", rule("/a #" + "a" * LINE_LIMIT)),
    Case("too-large", rule("/a") + "Disallow: /b\n" * 40_000, 39_385, "important rules first", rule("/a")),
    Case("too-large", "#" + "a" * 512_000, 1, "at least 512,001 bytes", "#" + "a" * 511_999),
    Case("html", "\n <!DOCTYPE html>\n<p>Disallow: /", 2, "text/plain", rule("/<html>")),
    Case("html", "<html>", 1, "404", "# <html>"),
    Case("no-records", "# Tea\n\nA shop: https://shop.example/\n- tea\n", 3, "answer 404", "# Tea\n"),
    Case("no-records", '{"error": "not found"}', 1, "answer 404", "\n\n"),
    Case("no-records", "not found", 1, "answer 404", "Host: shop.example", GOOGLE),
]  # fmt: skip

FIELDS = [
    Case("misspelt-field", ANY + "Dissallow: /a", 2, "write Disallow", rule("/a")),
    Case("misspelt-field", "Useragent: *\nDisallow: /", 1, "write User-agent", rule("/")),
    Case("misspelt-field", ANY + "Alow: /a", 2, "write Allow", ANY + "Slow: /a"),
    Case("misspelt-field", ANY + "Diaslow: /a", 2, "write Disallow", ANY + "Dial: /a", GOOGLE),
    Case("misspelt-field", ANY + "Disalolw: /a", 2, "write Disallow", ANY + "Dis: /a"),
    Case("misspelt-field", ANY + "Crawl delay: 1\nAllow: /", 2, "write Crawl-delay", ANY + "Crawl-delay: 1\nAllow: /"),
    Case("misspelt-field", "Sitemaps: https://a.example/", 1, "write Sitemap", "Sitemap: https://a.example/"),
    Case("misspelt-field", ANY + "Dissallow: /a", 2, "write Disallow", rule("/a"), GOOGLE),
    Case("misspelt-field", ANY + "Disallow /a", 2, "write Disallow:", rule("/a"), GOOGLE),
    Case("misspelt-field", ANY + "Disallow /a", 2, "write Disallow:", rule("/a")),
    Case("ignored-field", ANY + "Noindex: /a", 2, "X-Robots-Tag", rule("/noindex")),
    Case("ignored-field", rule("/a") + "Visit-time: 0600-0845", 3, "429", rule("/a")),
    Case("misspelt-field", rule("/a") + "Clean-params: ref /a", 3, "write Clean-param", rule("/a") + "Clean-param: ref /a"),
    Case("ignored-field", rule("/a") + "Crawl-delay: 5", 3, "429", rule("/a"), GOOGLE),
]  # fmt: skip

TWO_CRAWLERS = "User-agent: A\nCrawl-delay: 10\n{}\nUser-agent: B\nDisallow: /\n"
MANY_CRAWLERS = "".join(
    f"User-agent: b{number}\nCrawl-delay: {number}\n" for number in range(1, 6)
)
SHARED = [
    Case("shared-rules", TWO_CRAWLERS.format(""), 4, "'a' and 'b' share line 5, 'Disallow: /', because there is no rule", TWO_CRAWLERS.format("Disallow:\n")),
    Case("shared-rules", TWO_CRAWLERS.format(""), 4, "write a rule, or an empty Disallow, after each Crawl-delay", "User-agent: B\nDisallow: /", GOOGLE),
    Case("shared-rules", TWO_CRAWLERS.format("# B"), 4, "an empty Disallow", TWO_CRAWLERS.format("Disallow:"), CLASSIC),
    Case("shared-rules", "User-agent: *\nHost: a.example\nRequest-rate: 1/5\nUser-agent: B\nDisallow: /a\nDisallow: /b", 4, "'*' and 'b' share the rules of lines 5 to 6, because there is no rule between their user-agent lines: write a rule, or an empty Disallow, after each record between them", "User-agent: B\nDisallow: /a\nDisallow: /b"),
    Case("shared-rules", "User-agent: a\nX\x07: 1\nUser-agent: b\nDisallow: /a", 3, "after each record between them", "User-agent: b\nDisallow: /a"),
    Case("shared-rules", "User-agent: a\nHost: a.example\nUser-agent: b\nDisallow: /a", 3, "after each Host", "User-agent: b\nDisallow: /a"),
    Case("shared-rules", MANY_CRAWLERS + "User-agent: *\nDisallow: /a", 11, "'b1', 'b2', 'b3', 'b4' and 2 more share line 12", MANY_CRAWLERS),
]  # fmt: skip

AGENTS = [
    Case("names-nobody", "User-agent: Google bot\nDisallow: /a", 1, "write Googlebot, if", "User-agent: Googlebot\nDisallow: /a"),
    Case("names-nobody", "User-agent: GPTbots\nDisallow: /a", 1, "GPTBot", "User-agent: gptbot\nDisallow: /a"),
    Case("names-nobody", "User-agent: oai_searchbot/1.0\nDisallow: /a", 1, "OAI-SearchBot", "User-agent: OAI-SearchBot\nDisallow: /a"),
    Case("names-nobody", "User-agent: GPT Bot\nDisallow: /a", 1, "GPTBot", "User-agent: GPTBot\nDisallow: /a"),
    Case("names-nobody", "User-agent: __usage_ai_training\nDisallow: /a", 1, "__usage_ai-training", "User-agent: __usage_ai-training\nDisallow: /a"),
    Case("names-nobody", "User-agent:\nDisallow: /", 1, "* for all", rule("/")),
    Case("names-nobody", "User-agent: *bot\nDisallow: /", 1, "product token", "User-agent: bot\nDisallow: /"),
    Case("agent-cut", "User-agent: Mozilla/5.0 (compatible; Foobot/2.1)\nDisallow: /", 1, "a user-agent line for each crawler", "User-agent: Foobot\nDisallow: /"),
    Case("agent-cut", "User-agent: Mozilla/4.0 (compatible; MSIE 5.5; Windows)\nDisallow: /", 1, "a user-agent line for each crawler", "User-agent: bot/1.0\nDisallow: /"),
    Case("agent-cut", "User-agent: my bot\nDisallow: /", 1, "a user-agent line for each crawler", "User-agent: mj12bot*\nDisallow: /", GOOGLE),
    Case("agent-cut", "User-agent: a, b\nDisallow: /", 1, "a user-agent line for each crawler", "User-agent: a\nUser-agent: b\nDisallow: /"),
    Case("agent-cut", "User-agent: one;two\nDisallow: /", 1, "a user-agent line for each crawler", "User-agent: one\nUser-agent: two\nDisallow: /"),
    Case("agent-cut", "User-agent: one|two\nDisallow: /", 1, "a user-agent line for each crawler", "User-agent: one\nUser-agent: two\nDisallow: /"),
    Case("agent-cut", "User-agent: one,two\nDisallow: /", 1, "a user-agent line for each crawler", "User-agent: one\nUser-agent: two\nDisallow: /", CLASSIC),
    Case("agent-cut", "User-agent: bot Disallow: /\nAllow: /", 1, "a user-agent line for each crawler", "User-agent: bot # Disallow: /\nAllow: /"),
    Case("agent-cut", "User-agent: * Disallow: /\nAllow: /", 1, "a user-agent line for each crawler", rule("/")),
    Case("cut-off", rule("/a") + "User-agent: b\nCrawl-delay: 1", 3, "repeat those rules", rule("/a") + "User-agent: b\nDisallow:"),
    Case("cut-off", rule("/a") + "User-agent: b\nDisallow: /b", 3, "repeats none of them", rule("/a") + "User-agent: b\nDisallow: /a\nDisallow: /b"),
    Case("cut-off", "User-agent: a\nUser-agent: b\nDisallow: /b\n" + rule("/a"), 2, "repeat those rules", "User-agent: b\nDisallow: /b\nUser-agent: b\nAllow: /\n" + rule("/a")),
    Case("cut-off", rule("/") + "User-agent: b\nCrawl-delay: 1", 3, "no rules", rule("/") + "User-agent: b\nDisallow: /b"),

    *SHARED,
    Case("outside-group", "Disallow: /a\n" + ANY + "Allow: /", 1, "move it below", rule("/a")),
    Case("outside-group", "Disallow: /a\n", 1, "User-agent: *", rule("/a")),
    Case("outside-group", ANY + "\nDisallow: /a", 3, "delete the blank line", rule("/a"), CLASSIC),
    Case("outside-group", "Crawl-delay: 1\n" + rule("/a"), 1, "user-agent line", rule("/a") + "Crawl-delay: 1"),
]  # fmt: skip

PATTERNS = [
    Case("missing-slash", rule("a"), 2, "write '/a'", rule("/a")),
    Case("missing-slash", rule("?a"), 2, "write '/?a'", rule("/?a")),
    Case("missing-slash", rule("a"), 2, "write '/a'", rule("/a"), GOOGLE),
    Case("missing-slash", rule("*a"), 2, "write '/a'", rule("/a"), CLASSIC),
    Case("absolute-url", rule("https://www.example.com/a"), 2, "write '/a'", rule("/a?u=https://b")),
    Case("absolute-url", rule("/http://b.example"), 2, "write '/'", rule("/http/b.example")),
    Case("absolute-url", rule("/WWW.example.org/a"), 2, "write '/a'", rule("/a")),
    Case("absolute-url", rule("/Example.com/a"), 2, "write '/a'", rule("/a")),
    Case("fragment", rule("/#/a"), 2, "%23", rule("/%23/a")),
    Case("white-space", rule("/a b"), 2, "%20", rule("/a%20b ")),
    Case("white-space", rule("/aAllow: /b"), 2, "one path on each line", rule("/aAllow:/b")),
]  # fmt: skip

RULES = [
    Case("never-wins", rule("/a") + "Allow: /a", 2, "line 3 allows the same URLs", rule("/a", "Allow")),
    Case("never-wins", rule("/a", "Allow") + "Disallow: /a", 3, "line 2 allows", rule("/a", "Allow")),
    Case("never-wins", rule("/a") + "Allow: /a", 3, "move this line above", rule("/a", "Allow"), CLASSIC),
    Case("never-wins", rule("/a") + "Allow: /a/b", 3, "move this line above", rule("/a/b", "Allow") + "Disallow: /a", CLASSIC),
    Case("never-wins", rule("/a") + "\n" + rule("/a", "Allow"), 2, "line 5", rule("/a", "Allow")),
    Case("never-wins", rule("/", "Allow") + "Disallow: /*", 2, "line 3 forbids the same URLs", rule("/", "Allow") + "Disallow: /a"),
    Case("never-wins", rule("/live*", "Disallow") + "Allow: /live", 3, "write a longer pattern", rule("/live*", "Disallow") + "Allow: /live/"),
    Case("not-compared", ANY + TOO_LONG, 2, "write fewer and shorter patterns", ANY + TOO_LONG[: len(TOO_LONG) // 30]),
    Case("never-wins", rule("/*.pdf") + "Allow: /**.pdf", 2, "line 3", rule("/*.pdf") + "Allow: /a*.pdf"),
    Case("everything-forbidden", rule("/"), 2, "no crawler", rule("/a")),
    Case("everything-forbidden", "User-agent: a\nDisallow: /*\n\n" + rule("/"), 5, "any page", "User-agent: a\nDisallow: /a\n\n" + rule("/a")),
    Case("everything-forbidden", rule("/a") + ANY + "Disallow: /", 4, "any page", rule("/a")),
    Case("everything-forbidden", rule("/"), 2, "any page", ANY + "Disallow: /a", CLASSIC),

]  # fmt: skip

RECORDS = [
    Case("bad-sitemap", "Sitemap: /s.xml", 1, "https://www.example.com/s.xml", "Sitemap: ftp://a.example/s"),
    Case("bad-sitemap", "Sitemap: http://[", 1, "https:// and the host", "Sitemap: http://[::1]/s"),
    Case("bad-sitemap", "Sitemap: https://https://a.example/s", 1, "the public host", "Sitemap: https://a.example/s"),
    Case("bad-sitemap", "Sitemap: http://localhost/s", 1, "not a host on the Internet", "Sitemap:"),
    Case("bad-value", rule("/") + "Crawl-delay: soon", 3, "Crawl-delay: 5", rule("/") + "Crawl-delay: 5"),
    Case("bad-value", rule("/") + "Request-rate: 10", 3, "Request-rate: 1/5", rule("/") + "Request-rate: 10/1m"),
]  # fmt: skip

CASES = [*FILE, *FIELDS, *AGENTS, *PATTERNS, *RULES, *RECORDS, *USAGE]


@pytest.mark.parametrize(
    "case", CASES, ids=[f"{i}-{case.code}" for i, case in enumerate(CASES)]
)
def test_each_mistake_has_a_finding_and_the_corrected_file_has_none(case: Case) -> None:
    """The finding names the line and a remedy. The corrected file has no finding of any code, except that
    it may forbid everything.
    """
    findings = [f for f in lint(case.body, case.dialect) if f.code == case.code]
    assert case.line in [finding.line for finding in findings]
    assert any(
        case.remedy in finding.message
        for finding in findings
        if finding.line == case.line
    )
    assert all(finding.severity == KINDS[case.code].severity for finding in findings)
    assert all(finding.message.isprintable() for finding in findings)
    assert codes(case.corrected, case.dialect) == []
    assert case.code not in {f.code for f in lint(case.corrected, case.dialect)}


NO_MISTAKES = [
    ("everything-forbidden", rule("/") + "Allow: /a"),
    ("everything-forbidden", rule("/") + "User-agent: a\nDisallow: /a"),
    ("everything-forbidden", rule("/") + "User-agent: a\nCrawl-delay: 1"),
    ("everything-forbidden", "User-agent: a\nDisallow: /"),
    ("everything-forbidden", "User-agent: *\nCrawl-delay: 9\n\nUser-agent: 008\nDisallow: /"),
    ("shared-rules", "User-agent: a\n\nUser-agent: b\nSitemap: https://a.example/s\nUser-agent: c\nDisallow: /"),
    ("shared-rules", "User-agent: a\nCrawl-delay: 1\nUser-agent: b\nAllow: /a\nDisallow:"),
    ("shared-rules", "User-agent: a\nCrawl-delay: 1\nUser-agent: a\nDisallow: /"),
    ("shared-rules", "User-agent: a\nCrawl-delay: 1\nUser-agent: b\nCrawl-delay: 2"),
    ("no-records", "# Nothing is forbidden."),
    ("no-records", "Disalow: /a"),
    ("no-records", "Disallow /a"),
    ("no-records", "<html>\nWelcome"),
    ("misspelt-field", ANY + "Slow: /a\nDial: /a\nDis: /a\nBe so kind\n" + rule("/")),
    ("missing-slash", rule("*a")),
    ("absolute-url", rule("/a?u=https://b") + "Disallow: /http/b.example\n"),
    ("absolute-url", rule("/wwwexample.org/a") + "Disallow: /example.org/a\n"),
    ("fragment", rule("/a# why") + "Disallow: /b #why\nDisallow: /c#\n"),
    ("outside-group", "Content-Signal: ai-train=no\n" + rule("/")),
    ("ignored-field", "Clean-param: ref /a\n" + rule("/a")),
    ("agent-cut", "User-agent: bot/1.0\nUser-agent: bot*\nUser-agent: mj12bot\nUser-agent: a.b/v2.x*\nDisallow: /a"),
    ("names-nobody", "User-agent: Googlebot-Image\nUser-agent: Yandex\nUser-agent: Slurp\nUser-agent: CBot\nUser-agent: AmazonAdBot\nDisallow: /a"),
    ("names-nobody", "User-agent: Googlebot/2.1\nUser-agent: *\nDisallow: /a"),
    ("cut-off", rule("/a") + "User-agent: __usage_ai-training\nDisallow: /b\n"),
    ("cut-off", rule("") + "User-agent: b\nCrawl-delay: 1"),
    ("cut-off", rule("/a") + "User-agent: b\nDisallow: /\n"),
    ("cut-off", rule("/a") + "User-agent: b\nAllow: /b\n"),
    ("cut-off", rule("/a") + "User-agent: b\nDisallow: /a\n\nUser-agent: b\nDisallow: /b"),
    ("never-wins", rule("/a/b", "Allow") + "Disallow: /a\nDisallow: /a/b$\nAllow: /a/b/c"),
    ("never-wins", rule("/a*b") + "Allow: /axb\nAllow: /ax*b"),
    ("never-wins", rule("/a") + "User-agent: b\nAllow: /a"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "body"), NO_MISTAKES)
def test_a_file_that_only_resembles_a_mistake_does_not_have_its_finding(
    code: str, body: str
) -> None:
    assert code not in {finding.code for finding in lint(body)}


@pytest.mark.parametrize("code", KINDS)
def test_the_example_of_each_code_has_its_finding(code: str) -> None:
    """The finding is reported in at least one dialect. :func:`explain` returns a complete message. Each
    code has a case in this file.
    """
    assert code in {case.code for case in CASES}
    kind = KINDS[code]
    example_codes = {
        f.code for dialect in DIALECTS.values() for f in lint(kind.example, dialect)
    }
    assert (code in example_codes) is bool(kind.example)
    explanation = explain(code)
    assert (explanation.code, explanation.severity) == (code, kind.severity)
    assert "{" not in explanation.message


CORRECT_FILE = """\
# A site with a correct robots.txt.
User-agent: *
Disallow: /search?q=
Allow: /public/  # all of it
Disallow: /pub
Crawl-delay: 2

User-agent: Googlebot
User-agent: bingbot
Disallow: /search?q=
Content-Signal: search=yes, ai-train=no

User-agent: GPTBot
Disallow: /

Sitemap: https://www.example.com/sitemap.xml
"""


@pytest.mark.parametrize("dialect", [RFC9309, CLASSIC], ids=lambda d: d.name)
def test_a_correct_file_and_an_empty_file_have_no_findings(dialect: Dialect) -> None:
    for end in ("\n", "\r\n", "\r"):
        assert lint(CORRECT_FILE.replace("\n", end), dialect) == ()
    assert lint("", dialect) == ()


def test_a_finding_has_a_printable_message() -> None:
    """The finding also has the line number, the code, the severity and the text of the line. The text of
    a long line is cut off.
    """
    (finding,) = lint("Disalow\u202e: /a\n")
    assert finding[:3] == (1, "misspelt-field", "error")
    assert finding.message.isprintable()
    assert finding.text == "Disalow\u202e: /a"
    (finding, *_) = lint(rule("é" * 100_000))
    assert finding.text == ("Disallow: " + "é" * MAX_TEXT)[:MAX_TEXT]
    assert len(finding.message) < 300


def test_an_unsupported_byte_order_mark_is_a_single_finding() -> None:
    """A byte order mark of UTF-16, which Google's dialect does not support, is reported once. No line has two findings
    with the same code.
    """
    body = b"\xff\xfe" + "User-agent: *\nDisallow: /a\n".encode("utf-16-le")
    findings = lint(body, GOOGLE)
    assert len({(finding.line, finding.code) for finding in findings}) == len(findings)


def test_the_findings_of_a_code_are_limited_and_counted() -> None:
    """Findings are sorted by line. After MAX_OF_A_CODE findings with the same code, a last finding says how many more
    findings there are, from its line on. Usage records are checked up to a total length of 50,000 octets. An
    HTML page is a single finding; of its lines, only those that are rules are checked.
    """
    findings = lint(ANY + "Noindex: /a\nDisallow: a\n" * 500)
    assert list(findings) == sorted(findings, key=lambda finding: finding.line)
    *ignored_fields, last = [
        finding for finding in findings if finding.code == "ignored-field"
    ]
    assert len(ignored_fields) == MAX_OF_A_CODE
    assert last.line == 2 + 2 * MAX_OF_A_CODE
    assert last.message == "400 more findings with this code from this line on"
    wrong = "Content-Usage: /{} train-ai=maybe\n"
    few = ANY + "".join(wrong.format(n) for n in range(10))
    assert codes(few).count("bad-value") == 10
    long = f"Content-Usage: /{'x' * 25_000} train-ai="
    rest = f"{long}n\n" * 2 + f"{long}y\n" + wrong.format(1)
    assert "bad-value" not in codes(ANY + rest)
    assert "bad-value" in codes(ANY + wrong.format(1) + rest)
    page = "<html>\n<p>Be: so kind\n<a b c\nDisallow: a\n" + "\ufeff" * 3
    assert codes(page) == ["html", "missing-slash", "outside-group"]


@pytest.mark.parametrize("piece", ["a*", "ab*", "?%2F*"])
def test_the_first_rule_that_takes_too_long_to_compare_is_a_finding(piece: str) -> None:
    """If there are too many long patterns, some rules are not compared with all others. One finding names
    the first of these rules. The other rules are compared.
    """
    wild = "".join(
        f"{('Allow', 'Disallow')[n % 2]}: /*{piece * 100}zzzz*{n}\n" for n in range(99)
    )
    findings = lint(ANY + "Allow: /*b\nDisallow: /*b\n" + wild)
    assert (findings[0].code, findings[0].line) == ("never-wins", 3)
    (finding,) = [f for f in findings if f.code == "not-compared"]
    assert finding.line > 3
    assert codes(ANY + wild[: len(wild) // 20]) == []


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (None, {"bad-sitemap"}), ("http://[", {"absolute-url"}), ("x", {"absolute-url"}),
        ("http://a.example/\ud800", {"absolute-url", "bad-sitemap"}),
        ("http://\udc80/", {"absolute-url", "bad-sitemap"}),
        ("\ud800", {"absolute-url"}),
    ],
)  # fmt: skip
def test_an_invalid_or_missing_url_of_the_file_does_not_stop_the_linter(
    url: str | None, expected: set[str]
) -> None:
    body = b"User-agent: *\nDisallow: http://b.example/x\nSitemap: /sitemap.xml\n"
    assert {finding.code for finding in linter.lint(body, url=url)} >= expected


@pytest.mark.parametrize("host", ["wiki", "10.0.0.1"])
def test_a_directory_with_the_name_of_a_host_without_a_domain_is_no_finding(
    host: str,
) -> None:
    """A path that begins with the host is only a mistake if the host has a top-level domain."""
    body = f"User-agent: *\nDisallow: /{host}/\n".encode()
    assert not linter.lint(body, url=f"http://{host}/robots.txt")


def check_findings(body: bytes, dialect: Dialect) -> None:
    """Assert what must be true of the findings of any file, such as a valid line number."""
    findings = lint(body, dialect)
    lines = body.count(b"\n") + body.count(b"\r") + 1
    lines += len(body.decode("utf-16", "replace").splitlines())
    for finding in findings:
        assert 0 <= finding.line <= lines
        assert finding.severity == KINDS[finding.code].severity
        assert finding.message.isprintable()
        assert 0 < len(finding.message) < 500
        assert len(finding.text) <= MAX_TEXT
        if "more findings with this code" not in finding.message:
            assert finding.message.count(": ") >= 1, "The message has no remedy"
    assert [f.line for f in findings] == sorted(f.line for f in findings)
    counts = [[f.code for f in findings].count(code) for code in KINDS]
    assert max(counts) <= MAX_OF_A_CODE + 1


@pytest.mark.unmeasured
@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=lambda d: d.name)
def test_a_rule_outside_a_group_or_that_never_wins_decides_nothing_in_real_files(
    dialect: Dialect,
) -> None:
    """No decision on a URL is based on a rule that the linter reports with the code ``outside-group`` or
    ``never-wins``.
    """
    for name, body in read_corpus()[::3]:
        check_findings(body, dialect)
        robots = RobotsTxt.parse(body, dialect)
        findings = lint(body, dialect)
        codes = {*INEFFECTIVE, "never-wins"}
        ineffective = {f.line for f in findings if f.code in codes}
        for url in urls_for(body, 40) if ineffective else ():
            for agents in agents_for(body):
                assert robots.decide(url, agents).line not in ineffective, (name, url)
