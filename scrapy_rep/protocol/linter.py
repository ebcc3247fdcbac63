"""Lints a robots.txt: finds lines whose effect is probably not what their author wants.

A finding is a message about a line that has no effect, or an unexpected effect, for some crawlers. A
finding can also be about the whole file. Each function in :data:`_CHECKS` checks the file for some kinds of
mistakes. For each mistake, the function yields a tuple of a code in :data:`KINDS`, a line number, and the
facts to insert into the message. The linter parses lines and patterns with the same functions as the parser.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from difflib import get_close_matches
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from urllib.parse import urlsplit

from scrapy_rep.protocol.agents import EVERYONE, agents_of_line
from scrapy_rep.protocol.crawlers import CRAWLERS
from scrapy_rep.protocol.dialect import DIALECTS, GOOGLE, RFC9309
from scrapy_rep.protocol.robotstxt import pace, paths
from scrapy_rep.protocol.robotstxt.groups import groups_of, sitemap_urls
from scrapy_rep.protocol.robotstxt.lines import Line, decoded_text, read_line
from scrapy_rep.protocol.robotstxt.pages import begins_page
from scrapy_rep.protocol.robotstxt.rules import TOO_LONG, RuleList
from scrapy_rep.protocol.text import PACE_FIELDS, RULES, SITEMAP, USER_AGENT
from scrapy_rep.protocol.usage.sites import expression_of
from scrapy_rep.protocol.usage.statements import LABELS, Signal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy_rep.protocol.dialect import Dialect
    from scrapy_rep.protocol.robotstxt.groups import Group
    from scrapy_rep.protocol.robotstxt.rules import Rule

    # The code of a finding, the line number, and the facts to insert into the message.
    Mistake = tuple[Any, ...]

Severity = Literal["error", "warning"]

SEVERITIES: tuple[Severity, ...] = ("error", "warning")
"""The severities, with the most severe first."""


class Finding(NamedTuple):
    """A mistake, or a possible mistake, that the linter found in a robots.txt."""

    line: int
    """The number of the line, from 1; 0 for the file as a whole."""

    code: str
    """The kind of finding, a key of :data:`KINDS`."""

    severity: Severity

    message: str
    """What is wrong, how crawlers read the line, and what to write instead."""

    text: str
    """The first 200 characters of the line as written; bytes that are not UTF-8 become U+FFFD."""


class FindingKind(NamedTuple):
    """A kind of finding: its severity, its message and an example. The message consists of :attr:`words` and
    :attr:`remedy`. In a finding, facts about the file replace each ``{}`` of the message.
    """

    severity: Severity
    """*error*: the line has no effect, or another effect than it seems to have. *warning*: crawlers differ in
    how they read the line, or its effect is seldom intended."""

    words: str
    """The first part of the message, which explains the mistake and how crawlers read the line."""

    example: bytes
    """A file in which the linter finds this mistake, in at least one dialect; empty if such a file would be
    too long."""

    remedy: str = "write {}"
    """The second part of the message, which explains how to correct the mistake."""

    def message(self, *facts: object) -> str:
        """Return the message, in which *facts* replace each ``{}``. Facts of the type bytes are text from
        the file; they are quoted.
        """
        shown = (quoted(fact) if isinstance(fact, bytes) else fact for fact in facts)
        return f"{self.words}: {self.remedy}".format(*shown)


KINDS = {
    "absolute-url": FindingKind("error",
        "crawlers compare the pattern with paths, so they read the host as part of the path",
        b"User-agent: *\nDisallow: https://example.com/a"),
    "agent-cut": FindingKind("warning",
        "most crawlers read only {} of this line",
        b"User-agent: Some Bot\nDisallow: /a",
        "write a user-agent line for each crawler, with its product token alone (letters, - and _)"),
    "bad-sitemap": FindingKind("warning",
        "crawlers can't reach this sitemap, because {}",
        b"Sitemap: /sitemap.xml"),
    "bad-value": FindingKind("error",
        "crawlers ignore the invalid value {}",
        b"User-agent: *\nCrawl-delay: soon"),
    "cut-off": FindingKind("warning",
        "the crawlers of this group do not follow the rules for *, and the group {}",
        b"User-agent: *\nDisallow: /admin/\n\nUser-agent: mybot\nCrawl-delay: 5",
        "repeat those rules here, or write an empty Disallow if everything is allowed"),
    "encoding": FindingKind("warning",
        "many crawlers misread text that is not plain UTF-8",
        b"User-agent: *\nDisallow: /caf\xe9",
        "save the file as UTF-8, without a byte order mark and null bytes"),
    "everything-forbidden": FindingKind("warning",
        "no crawler may fetch any page",
        b"User-agent: *\nDisallow: /",
        "delete this line if search engines should find the site"),
    "fragment": FindingKind("error",
        "the # begins a comment, so crawlers read only {}",
        b"User-agent: *\nDisallow: /#/a",
        "write %23 for a # in a path; crawlers never send the fragment of a URL"),
    "html": FindingKind("error",
        "this is an HTML page, not a robots.txt",
        b"<html>",
        "send the rules as text/plain, or answer 404 if there are none"),
    "ignored-field": FindingKind("warning",
        "crawlers of this dialect ignore the field {}",
        b"User-agent: *\nNoindex: /a",
        "{}"),
    "misspelt-field": FindingKind("error",
        "most crawlers ignore the field {}",
        b"User-agent: *\nDisalow: /a"),
    "missing-slash": FindingKind("error",
        "Google ignores a pattern without a leading /",
        b"User-agent: *\nDisallow: private/"),
    "names-nobody": FindingKind("warning",
        "no known crawler has the name {}",
        b"User-agent: Google bot\nDisallow: /a"),
    "never-wins": FindingKind("warning",
        "this rule has no effect, because line {} {} the same URLs",
        b"User-agent: *\nAllow: /\nDisallow: /*",
        "{}"),
    "no-records": FindingKind("error",
        "this is not a robots.txt, because no line has a field that crawlers know",
        b"Welcome to our site!",
        "write rules, such as Disallow: /private/ below User-agent: *, or answer 404 if there are none"),
    "not-compared": FindingKind("warning",
        "patterns with a * are too many or too long to find all rules without an effect",
        b"",
        "write fewer and shorter patterns"),
    "outside-group": FindingKind("error",
        "crawlers ignore this line, because {}",
        b"Disallow: /a",
        "{}"),
    "shared-rules": FindingKind("warning",
        "{} share {}, because there is no rule between their user-agent lines",
        b"User-agent: Bingbot\nCrawl-delay: 10\n\nUser-agent: BadBot\nDisallow: /",
        "write a rule, or an empty Disallow, after each {}"),
    "too-large": FindingKind("error",
        "{} has {} bytes, and {} only the first {}",
        b"",
        "put important rules first, and replace long lists by shorter patterns"),
    "white-space": FindingKind("warning",
        "the white space is part of the pattern, so the pattern matches hardly any URL",
        b"User-agent: *\nDisallow: /a b",
        "write one path on each line, and %20 for a space"),
}  # fmt: skip
"""All kinds of findings, by their codes."""


MAX_OF_A_CODE = 100
"""The maximum number of findings with the same code that :func:`lint` lists. If there are more, an additional
finding states how many are not listed."""

MAX_TEXT = 200
"""The maximum number of characters of a line that a finding shows."""

_MAX_QUOTED = 60

_KNOWN = frozenset({USER_AGENT, *RULES, SITEMAP, *PACE_FIELDS})


def lint(
    body: bytes | str, dialect: Dialect = RFC9309, url: str | None = None
) -> tuple[Finding, ...]:
    """Return the findings in a robots.txt, sorted by line. Raises no exception, whatever *body* contains.

    *body* is the content of the file. *url* is its URL, or None for a local file. The time is linear in
    the size of the part of *body* that crawlers read.
    """
    if isinstance(body, str):
        body = body.encode("utf-8", "surrogatepass")
    file = LintedFile(body, dialect, url)
    by_code: dict[str, dict[Mistake, None]] = {}
    for mistake in chain.from_iterable(check(file) for check in _CHECKS):
        by_code.setdefault(mistake[0], {})[mistake[1:]] = None
    findings = []
    for code, distinct in by_code.items():
        kind, more = KINDS[code], len(distinct) - MAX_OF_A_CODE
        for number, (line, *facts) in enumerate(islice(distinct, MAX_OF_A_CODE + 1)):
            message = f"{more} more findings with this code from this line on"
            if number < MAX_OF_A_CODE:
                message = kind.message(*facts)
            findings.append(
                Finding(line, code, kind.severity, message, file.text(line))
            )
    return tuple(sorted(findings))


def explain(code: str) -> Finding:
    """Return a sample finding of the kind *code* (a key of :data:`KINDS`). It is the finding that :func:`lint`
    returns for the example file of this kind. If the kind has no example file, the sample's message contains
    "…" in place of facts about a file.
    """
    kind = KINDS[code]
    for dialect in DIALECTS.values():
        for finding in lint(kind.example, dialect):
            if finding.code == code:
                return finding
    return Finding(0, code, kind.severity, kind.message(*"…" * 4), "")


class LintedLine(NamedTuple):
    """A non-empty line of a robots.txt, with its field and value."""

    number: int
    """The number of the line, from 1."""

    raw: bytes
    """The line as written."""

    field: str
    """The field of the line, such as ``disallow``, in lower case. Empty if crawlers find no field in the line, for
    example because it has no colon."""

    value: bytes
    """The value of the line, without the comment and the white space around it. Empty if ``field`` is empty."""

    @property
    def content(self) -> bytes:
        """The line without its comment."""
        return self.raw.partition(b"#")[0]


class LintedFile:
    """The robots.txt to lint, parsed as the crawlers of one dialect parse it."""

    def __init__(self, body: bytes, dialect: Dialect, url: str | None) -> None:
        self.body = body
        self.dialect = dialect

        self.host = _host_of(url or "")
        """The host of *url*, without "www."; empty for a local file."""

        self.url = url if self.host else None

        self.texts = decoded_text(body, dialect).split(b"\n")
        """All lines of the file as written, including empty lines."""

        first = next((n for n, raw in enumerate(self.texts) if raw.strip()), 0)
        self.page_line = first + 1 if begins_page(self.texts[first]) else 0
        """The number of the line on which an HTML page begins; 0 if the file is not an HTML page. In a page,
        only the lines with known fields are checked."""

        parsed = [
            read_line(number, raw, dialect) for number, raw in enumerate(self.texts, 1)
        ]
        self.groups = groups_of([line for line in parsed if line], dialect)
        self.lines = [
            LintedLine(number, raw, *(line[1:] if line else ("", b"")))
            for number, (raw, line) in enumerate(
                zip(self.texts, parsed, strict=True), 1
            )
            if raw and (not self.page_line or (line and line.field in _KNOWN))
        ]
        """The lines to check: all lines that are not empty; in an HTML page, only the lines with known fields."""

        self.whole = {"/", "/*", "*"} if dialect.wildcards else {"/"}
        """The patterns that match every path."""

        self._nearest: dict[tuple[str, float], str | None] = {}

    def lines_of(self, *fields: str) -> Iterator[LintedLine]:
        """Yield the lines whose field is one of *fields*."""
        return (line for line in self.lines if line.field in fields)

    def nearest(self, word: str, words: dict[str, str], likeness: float) -> str | None:
        """Return the known word that *word* probably misspells, or None if *word* is not similar to any.

        *words* are the known words: the keys are in lower case, and the values in their proper spelling.
        *likeness*, from 0 to 1, is the minimum similarity between *word* and the known word.

        The comparison is slow. So the result is also None for a *word* of more than ``_MAX_WORD`` characters,
        and for every new *word* after ``_MAX_WORDS`` different words have been compared.
        """
        if len(word) > _MAX_WORD:
            return None
        question = word, likeness
        if question not in self._nearest and len(self._nearest) < _MAX_WORDS:
            similar = get_close_matches(word, words, n=1, cutoff=likeness)
            self._nearest[question] = words[similar[0]] if similar else None
        return self._nearest.get(question)

    def text(self, line: int) -> str:
        """Return the first :data:`MAX_TEXT` characters of line number *line* as written. Return an empty
        string for line 0, which means the whole file.
        """
        return _shown(self.texts[line - 1], MAX_TEXT) if line else ""


def _host_of(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").removeprefix("www.")
    except ValueError:
        return ""


def _shown(octets: bytes, at_most: int) -> str:
    """Return the first *at_most* characters of the UTF-8 text *octets*."""
    # A character takes at most four octets.
    return octets[: 4 * at_most].decode("utf-8", "replace")[:at_most]


def quoted(octets: bytes) -> str:
    """Return *octets*, a text from the file, as a Python string literal of at most 60 characters."""
    text = _shown(octets, _MAX_QUOTED + 1)
    return repr(text if len(text) <= _MAX_QUOTED else text[: _MAX_QUOTED - 3] + "...")


# Checks of sizes and encodings.


def _bytes(file: LintedFile) -> Iterator[Mistake]:
    if file.page_line:
        yield "html", file.page_line
    size, limit = len(file.body), file.dialect.size_limit
    if size > limit:
        # A download stops after the limit, so the file on the server can be longer than the body.
        facts = "the file", f"at least {size:,}", "crawlers read", f"{limit:,}"
        yield "too-large", len(file.texts), *facts
    # For UTF-8, the first byte of the byte order mark is enough for a finding, because most crawlers misread an
    # incomplete mark.
    if file.body.startswith((BOM_UTF8[:1], BOM_UTF16_LE, BOM_UTF16_BE)):
        yield "encoding", 1
    for line in file.lines:
        yield from _bytes_of_line(line)


def _bytes_of_line(line: LintedLine) -> Iterator[Mistake]:
    size, limit = len(line.content), GOOGLE.line_limit
    if limit is not None and size > limit:
        facts = "the line", f"{size:,}", "Google reads", f"{limit:,}"
        yield "too-large", line.number, *facts
    is_plain = BOM_UTF8 not in line.content and b"\0" not in line.content
    try:
        line.content.decode()
    except UnicodeDecodeError:
        is_plain = False
    if not is_plain:
        yield "encoding", line.number


# Checks of fields.

_SPELLINGS = (
    "User-agent", "Allow", "Disallow", "Sitemap", "Crawl-delay", "Request-rate",
    "Content-Signal", "Content-Usage", "License", "Clean-param",
)  # fmt: skip
_SPELLING_OF = {spelling.lower(): spelling for spelling in _SPELLINGS}

# The maximum number of words of a file that are compared with the known words, and the maximum length of such a word
# in characters. The limits are needed because difflib.get_close_matches is slow.
_MAX_WORDS = 500
_MAX_WORD = 40

# The minimum similarity, from 0 to 1, between a word and the known word that it probably misspells. The first number is
# for fields, and the second number is for names of crawlers.
_FIELD_LIKENESS, _AGENT_LIKENESS = 0.8, 0.92

_ADVICE_ON_PAGES = "write it in a meta tag or an X-Robots-Tag header"
_ADVICE_ON_PACE = "answer 429 or 503 to slow crawlers down"
_IGNORED = {
    **dict.fromkeys(("noindex", "nofollow", "noarchive"), _ADVICE_ON_PAGES),
    "visit-time": _ADVICE_ON_PACE,
}
"""The fields that no crawler reads, each with advice for the owner of the site."""


_RECORDS = frozenset({*_SPELLING_OF, *_IGNORED, "host"})
"""The fields, in lower case, by which the linter recognizes a robots.txt."""


def _no_records(file: LintedFile) -> Iterator[Mistake]:
    """Yield a mistake if the file is not a robots.txt: no line has a known field or a misspelling of one. The mistake
    is reported for the first line that is neither empty nor a comment. Yield nothing if there is no such line, or
    if the file is an HTML page, for which ``_bytes`` yields the mistake ``html``.
    """
    lines = [line for line in file.lines if line.content.strip()]
    has_records = file.page_line or any(line.field in _RECORDS for line in lines)
    if lines and not has_records and not any(_fields(file)):
        yield "no-records", lines[0].number


def _fields(file: LintedFile) -> Iterator[Mistake]:
    ignored = _IGNORED
    if not file.dialect.crawl_delay:
        ignored = _IGNORED | dict.fromkeys(PACE_FIELDS, _ADVICE_ON_PACE)
    for line in file.lines:
        name, colon, _ = line.content.partition(b":")
        words = name.split()
        if not words or (not colon and len(words) > 2) or b"\0" in name:
            continue
        written = name.strip() if colon else words[0]
        lowered = written[: 2 * _MAX_WORD].decode("utf-8", "replace").lower()
        if colon and lowered in ignored:
            yield "ignored-field", line.number, written, ignored[lowered]
        elif not colon or lowered not in _SPELLING_OF:
            proper = _SPELLING_OF.get(line.field)
            if proper is None and len(lowered) > 3:
                proper = file.nearest(lowered, _SPELLING_OF, _FIELD_LIKENESS)
            if proper is not None and colon:
                yield "misspelt-field", line.number, written, proper
            elif proper is not None:
                shown = f"{quoted(written)} without a colon"
                yield "misspelt-field", line.number, shown, f"{proper}:"


# The check of user-agent lines.

_MAX_AGENT = 2000
# Matches the text after the product token of a user-agent line if that text needs no warning: a version, a "*", or
# digits and dots, which are a part of some crawlers' names.
_HARMLESS = re.compile(rb"[0-9.]*(?:/v?[0-9.x]*)?\*?", re.IGNORECASE).fullmatch

# The minimum length of a name that is compared with the known names. A shorter name is similar to too many names.
_MIN_NAME = 6
_PURPOSE_TOKENS = {
    label.name: label.name for label in LABELS if label.signal is Signal.USER_AGENT
}
_TOKEN_OF = _PURPOSE_TOKENS | {
    agent.lower(): agent for crawler in CRAWLERS.values() for agent in crawler.agents
}
"""The names that the linter knows in user-agent lines: names of crawlers, such as ``GPTBot``, and names of purposes,
such as ``__usage_ai-training``. Each key is a name in lower case, and its value is the name in the proper spelling:
``_TOKEN_OF["gptbot"]`` is ``"GPTBot"``."""


def _agents(file: LintedFile) -> Iterator[Mistake]:
    for line in file.lines_of(USER_AGENT):
        value = line.value[:_MAX_AGENT]
        # Some sites write several names in one line, as in "a, b" or "a; b". Most crawlers read only the first name.
        token = re.split("[,;|]", agents_of_line(value, file.dialect)[0])[0].encode()
        name = value.partition(b"/")[0].strip().decode("utf-8", "replace").lower()
        nearest = None
        if len(name) >= _MIN_NAME and name not in _TOKEN_OF:
            nearest = file.nearest(name, _TOKEN_OF, _AGENT_LIKENESS)
        if nearest is not None:
            remedy = f"{nearest}, if you mean that crawler"
            yield "names-nobody", line.number, value, remedy
        elif not token:
            remedy = "the crawler's product token, or * for all crawlers"
            yield "names-nobody", line.number, value, remedy
        elif not _HARMLESS(value[len(token) :]):
            yield "agent-cut", line.number, token


# Checks of groups.

_GROUPED = (*RULES, *PACE_FIELDS, "content-usage")


def _outside_groups(file: LintedFile) -> Iterator[Mistake]:
    inside = {rule.line for group in file.groups for rule in group.rules}
    inside |= {record.line for group in file.groups for record in group.records}
    first = file.groups[0].lines[0] if file.groups else 0
    for line in file.lines_of(*_GROUPED):
        reason = "there is no user-agent line above it"
        remedy = "write User-agent: * above it"
        if 0 < first < line.number:
            reason = "a blank line ends the group above it"
            remedy = "delete the blank line"
        elif first:
            remedy = "move it below a user-agent line"
        if line.number not in inside:
            yield "outside-group", line.number, reason, remedy


def _everything_forbidden(file: LintedFile) -> Iterator[Mistake]:
    """If the file disallows all URLs for every crawler, yield a mistake for the line that disallows them for ``*``.
    Yield nothing if any ``Allow`` line has a pattern.

    Yield nothing for a group like the following::

        User-agent: *
        Crawl-delay: 5
        User-agent: BadBot
        Disallow: /

    By RFC 9309, ``Disallow: /`` applies to ``*`` and to ``BadBot``, but the author probably meant only ``BadBot``.
    """
    is_first = file.dialect.rule_choice == "first"
    closed: dict[str, int] = {}
    open_agents: set[str] = set()
    meant_for_others: set[int] = set()
    for group in file.groups:
        rules = group.rules[:1] if is_first else group.rules
        line = next((rule.line for rule in rules if rule.pattern in file.whole), 0)
        if group.runs[-1] not in group.runs_of({EVERYONE}):
            # The user-agent lines directly above the rules of the group do not name "*". So the author probably meant
            # "Disallow: /" only for the crawlers in those user-agent lines, and should not be told to delete it.
            meant_for_others.add(line)
        if any(rule.kind == "allow" and rule.pattern for rule in group.rules):
            open_agents.update(group.agents)
        for agent in filter(None, group.agents):
            if file.dialect.merge_groups or agent not in closed:
                closed[agent] = closed.get(agent) or line
    line = closed.get(EVERYONE, 0)
    is_meant = line not in meant_for_others
    if line and is_meant and all(closed.values()) and not open_agents:
        yield "everything-forbidden", line


# The maximum number of agents of a group that a finding names; the others are only counted.
_MAX_NAMED = 4


def _shared_rules(file: LintedFile) -> Iterator[Mistake]:
    """Yield a mistake for each group that its author probably meant as several groups, such as::

        User-agent: Bingbot
        Crawl-delay: 10

        User-agent: BadBot
        Disallow: /

    The two user-agent lines begin a single group, because there is no rule between them. So ``Disallow: /`` applies to
    Bingbot and to BadBot.
    """
    for group in file.groups:
        last_run = group.runs[-1]
        last_agents = {
            agent
            for agent, run in zip(group.agents, group.runs, strict=True)
            if run == last_run
        }
        agents = list(dict.fromkeys(filter(None, group.agents)))
        if not _forbidden(group) or last_agents.issuperset(agents):
            continue
        more = len(agents) - _MAX_NAMED
        names = [quoted(agent.encode()) for agent in agents[:_MAX_NAMED]]
        if more > 0:
            names.append(f"{more} more")
        named = f"{', '.join(names[:-1])} and {names[-1]}"
        first, *others = group.rules
        rules = f"line {first.line}, {quoted(str(first).encode())}"
        if others:
            rules = f"the rules of lines {first.line} to {others[-1].line}"
        between = {record.field for record in group.records if record.line < last_run}
        field = min(between)
        separator = "record between them"
        if len(between) == 1 and field in _RECORDS:
            separator = _SPELLING_OF.get(field, field.capitalize())
        yield "shared-rules", last_run, named, rules, separator


def _cut_off(file: LintedFile) -> Iterator[Mistake]:
    """Yield a mistake for each group whose author probably forgot to repeat the rules for ``*``. An example is the
    second group of this file::

        User-agent: *
        Disallow: /admin/

        User-agent: mybot
        Disallow: /search

    A crawler with a group of its own does not follow the rules for ``*``, so mybot may fetch ``/admin/``.

    A group without rules is reported, unless its crawler has another group with rules. A group with rules is reported,
    unless the author seems to know that the group replaces the rules for ``*`` (see :func:`_is_intended`). If the
    rules for ``*`` forbid the whole site, no group with rules is reported.
    """
    for_all = {
        pattern
        for group in file.groups
        if EVERYONE in group.agents
        for pattern in _forbidden(group)
    }
    is_closed = not for_all.isdisjoint(file.whole)
    # A crawler follows all groups that name it. So a group without rules is not a mistake if the crawler has another
    # group with rules.
    with_rules = {
        agent for group in file.groups if group.rules for agent in group.agents
    }
    intended = {EVERYONE, "", *_PURPOSE_TOKENS}
    for group in file.groups:
        if is_closed or _is_intended(group, for_all, file.whole):
            intended.update(group.agents if group.rules else ())
    for group in file.groups if for_all else ():
        agents = set(group.agents) - intended
        if agents and not agents & with_rules:
            yield "cut-off", group.lines[-1], "has no rules"
        elif agents and group.rules:
            yield "cut-off", group.lines[-1], "repeats none of them"


def _forbidden(group: Group) -> set[str]:
    return {rule.pattern for rule in group.rules if rule.kind == "disallow"} - {""}


def _is_intended(group: Group, for_all: set[str], whole: set[str]) -> bool:
    """Whether the author of *group* seems to know that its agents do not follow the rules for ``*``. The author
    seems to know it in three cases:

    - the group disallows nothing
    - the group repeats a pattern that is disallowed for ``*`` (*for_all* contains these patterns)
    - the group has a rule about the whole site, such as ``Disallow: /`` or an empty ``Disallow`` (*whole*
      contains the patterns that match every path)
    """
    forbidden = _forbidden(group)
    is_whole = any(rule.pattern in whole or not rule.pattern for rule in group.rules)
    return is_whole or not forbidden or not forbidden.isdisjoint(for_all)


# The limits of _never_wins(), which compares each rule of a file with all patterns of the rule's group. Real files stay
# far below these limits.

# The maximum number of comparisons of a rule with a pattern that contains a "*", for the whole file.
_MAX_COMPARED = 2_000_000

# The maximum length, in octets, of the pattern of a rule that is checked.
_MAX_PATTERN = 1_000

# To check a rule, the linter builds URLs that match the pattern of the rule, and compares each URL with all patterns of
# the group. This is the maximum cost, in octets, of comparing one of these URLs with all patterns (see
# RuleList.winner()). A rule whose check would cost more is not checked.
_MAX_OCTETS = 100_000

# _winner() returns this number if it finds no rule that always takes precedence over the checked rule.
_NO_WINNER = -2


def _never_wins(file: LintedFile) -> Iterator[Mistake]:
    """Yield a mistake for each rule that has no effect because rules with the opposite effect always take precedence.

    Each rule is tested with a few URLs that match its pattern. The rule is a mistake if rules with the
    opposite effect decide on all these URLs. If rules are not tested because of ``_MAX_COMPARED`` or
    ``_MAX_OCTETS``, yield one more mistake, ``not-compared``, for the first of these rules in the file.
    """
    merged: dict[object, list[Rule]] = {}
    for position, group in enumerate(file.groups):
        # In most dialects, crawlers merge all groups for the same agents, so the rules of these groups are joined.
        key = frozenset(group.agents) if file.dialect.merge_groups else position
        merged.setdefault(key, []).extend(group.rules)
    budget = _MAX_COMPARED
    first_left_out = 0
    for rules in merged.values():
        if len({rule.kind for rule in rules}) < 2:
            continue
        rule_lines = [
            (rule.line, rule.kind, rule.pattern.encode().decode("latin-1"))
            for rule in rules
        ]
        cost = 1 + sum("*" in rule.pattern for rule in rules)
        ordered = RuleList(rule_lines, file.dialect)
        for line, kind, value in rule_lines:
            budget -= cost
            index = TOO_LONG
            if budget >= 0:
                allows = kind == "allow"
                index = _winner(value, ordered, file.dialect, allows=allows)
            if index == TOO_LONG:
                first_left_out = min(first_left_out or line, line)
            winner = ordered.rule(index)
            if winner is not None:
                effect = "allows" if winner[0] else "forbids"
                remedy = "delete one of the two lines, or write a longer pattern here"
                if file.dialect.rule_choice == "first":
                    remedy = "move this line above the other, or delete one of the two"
                yield "never-wins", line, winner[1].line, effect, remedy
    if first_left_out:
        yield "not-compared", first_left_out


def _winner(value: str, rules: RuleList, dialect: Dialect, *, allows: bool) -> int:
    """Check whether a rule has any effect. *value* is the pattern of the rule. *allows* is True for an ``Allow``, and
    False for a ``Disallow``.

    If rules with the opposite effect take precedence for all URLs that the checked rule matches, return the index of
    one of these opposite rules in *rules*. If the checked rule has an effect, return ``_NO_WINNER``. Return
    ``_NO_WINNER`` without a check if *value* is empty, is a pattern that the dialect ignores, or is longer than
    ``_MAX_PATTERN``. Return :data:`TOO_LONG` if the check would cost more than ``_MAX_OCTETS``.
    """
    pattern = paths.pattern(value, dialect) if value else None
    if pattern is None or pattern.octets > _MAX_PATTERN:
        return _NO_WINNER
    # A few URLs that match the pattern are tested. If rules with the opposite effect decide on all these URLs, the rule
    # that decides on the first URL is returned.
    first_winner = None
    for filler in ("x", "y/z"):
        target = filler.join(pattern.segments)
        target = target if target.startswith("/") else f"/{target}"
        for end in ("",) if pattern.anchored else ("", "x"):
            index = rules.winner(target + end, max_compared=_MAX_OCTETS)
            winner = rules.rule(index)
            if index == TOO_LONG:
                return TOO_LONG
            if winner is None or winner[0] is allows:
                return _NO_WINNER
            first_winner = index if first_winner is None else first_winner
    return _NO_WINNER if first_winner is None else first_winner


# The check of path patterns.

# Matches a pattern that contains a host, and captures the path after the host. The pattern begins with a URL, with the
# host from which the file was fetched, or with another text that looks like a host. Slashes may precede the host.
_WITH_HOST = (
    rb"(?:/?[a-z][a-z0-9+.-]{0,19}://[^/]*|/*(?:www\.)?%s(?::\d+)?(?=/|$)"
    rb"|(?:/*(?=www\.)|//+)(?:[a-z0-9-]{1,63}\.){1,9}[a-z]{2,24}(?::\d+)?(?=/|$))(.*)"
)


def _patterns(file: LintedFile) -> Iterator[Mistake]:
    begins = (b"/", b"*") if file.dialect.wildcards else (b"/",)
    name, _, top = file.host.rpartition(".")
    host = b"(?!)"
    if name and (top.isalpha() or top.startswith("xn--")):
        # Patterns are searched for the host only if it has a top-level domain. A host such as "wiki" or "10.0.0.1"
        # in a pattern could also be the name of a directory.
        host = re.escape(file.host.encode("utf-8", "replace"))
    with_host = re.compile(_WITH_HOST % host, re.IGNORECASE | re.DOTALL).match
    for line in file.lines_of(*RULES):
        number, value = line.number, line.value
        if match := with_host(value):
            yield "absolute-url", number, match[1] or b"/"
        elif value and not value.startswith(begins):
            yield "missing-slash", number, b"/" + value.lstrip(b"*")
        if b" " in value or b"\t" in value:
            yield "white-space", number
        content, _, comment = line.raw.partition(b"#")
        # In "Disallow: /a#b", the author probably meant "#b" as the fragment of a URL. In "/a #b", "/a# b" and
        # "/a#b c", the author probably meant a comment.
        is_one_word = comment.split() == [comment.rstrip()]
        if value and is_one_word and not content[-1:].isspace():
            yield "fragment", number, value


# Checks of records other than rules.

_MAX_VALUE = 65_536
_GOOD_VALUES = {
    "crawl-delay": "seconds, as in Crawl-delay: 5",
    "request-rate": "pages per seconds, as in Request-rate: 1/5",
    "content-usage": "labels (train-ai, ai-use or search) with y or n, optionally after a path with a "
    "leading /, as in Content-Usage: /blog/ train-ai=n",
    "content-signal": "labels (ai-train, ai-input or search) with yes or no, or use=immediate, "
    "reference or full, as in Content-Signal: ai-train=no",
}
"""A description of the valid values of each field."""

_VALUES_OF_LABEL = {
    (label.signal, label.name): {label.allows, label.disallows} for label in LABELS
}
"""The valid values of each usage label. For example, the valid values for the key
``(Signal.CONTENT_SIGNAL, "ai-train")`` are ``yes`` and ``no``."""
_VALUES_OF_LABEL[Signal.CONTENT_SIGNAL, "use"] = {"immediate", "reference", "full"}

# The maximum total length, in octets, of the usage records (Content-Signal and Content-Usage lines) that are checked
# in a file. The usage records of real files are far shorter.
_MAX_CHECKED = 50_000


def _values(file: LintedFile) -> Iterator[Mistake]:
    octets = 0
    for line in file.lines_of(*_GOOD_VALUES):
        if line.field in PACE_FIELDS:
            text = line.value[:_MAX_VALUE].decode("utf-8", "replace")
            is_valid = pace.READERS[line.field](text) is not None
            is_good = is_valid or not file.dialect.crawl_delay
        else:
            octets += len(line.value)
            is_good = octets > _MAX_CHECKED or _is_preference(line)
        if not is_good:
            yield "bad-value", line.number, line.value, _GOOD_VALUES[line.field]


def _is_preference(line: LintedLine) -> bool:
    """Whether each part of a usage record, such as ``Content-Signal: ai-train=no``, is a known label with a valid
    value.
    """
    text = line.value.decode("utf-8", "replace")
    signal, expression = expression_of(line.field, text)
    return (
        bool(expression.pairs)
        and not expression.mistake
        and all(
            value in _VALUES_OF_LABEL.get((signal, label), ())
            for label, value in expression.pairs
        )
    )


def _sitemaps(file: LintedFile) -> Iterator[Mistake]:
    for line in file.lines_of(SITEMAP):
        value = line.value[:_MAX_VALUE]
        record = Line(line.number, SITEMAP, value)
        url = next(sitemap_urls([record], None), "")
        if url and "." not in _host_of(url) and ":" not in _host_of(url):
            reason = f"{_host_of(url)!r} is not a host on the Internet"
            yield "bad-sitemap", line.number, reason, "the public host of the site"
        elif value and not url:
            absolute = next(sitemap_urls([record], file.url), "") if file.url else ""
            remedy = quoted(absolute.encode("utf-8", "replace")) if absolute else ""
            remedy = remedy or "https:// and the host first"
            yield "bad-sitemap", line.number, "its URL is not absolute", remedy


_CHECKS = (
    _bytes, _no_records, _fields, _agents, _outside_groups, _everything_forbidden, _shared_rules,
    _cut_off, _never_wins, _patterns, _values, _sitemaps,
)  # fmt: skip
