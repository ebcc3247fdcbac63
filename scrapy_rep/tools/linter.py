"""Lints a robots.txt: one table of what can be wrong with it.

Each row of :data:`TABLE`, at the end, has a code, its severity, a check, and what the finding
says. A check yields the number of a line, and the facts that fill the ``{}`` of the words and
the remedy; bytes are quoted. A check of single lines is a small function of a line, or a
lambda, that returns these facts, or True if there are none (:func:`_lines`).

What has a finding can change a verdict, a delay or a preference, some crawlers read it
differently, or it is seldom meant. The linter reads lines and patterns with the functions of the
parser.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from difflib import get_close_matches
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_rep.protocol.agents import (
    EVERYONE,
    agents_of_line,
    is_rfc_token,
    product_tokens,
)
from scrapy_rep.protocol.dialect import DIALECTS, GOOGLE
from scrapy_rep.protocol.grammar import PACE_FIELDS, RULES, SITEMAP, USER_AGENT
from scrapy_rep.protocol.robots import RobotsTxt
from scrapy_rep.protocol.robotstxt import pace, paths
from scrapy_rep.protocol.usage.sites import expression_of, statements_of, usage_groups
from scrapy_rep.protocol.usage.statements import ROWS, split_path
from scrapy_rep.tools.comparisons import ORIGIN, differences
from scrapy_rep.tools.crawlers import CRAWLERS, Crawler
from scrapy_rep.tools.findings import KNOWN_FIELDS, MAX_OF_A_CODE, File, Finding, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from scrapy_rep.protocol.dialect import Dialect
    from scrapy_rep.protocol.robotstxt.lines import Line
    from scrapy_rep.protocol.robotstxt.rules import Rule
    from scrapy_rep.tools.findings import Severity, Written

    Facts = bool | tuple[object, ...]
    Found = tuple[Any, ...]
    Check = Callable[[File], Iterable[Found]]


class Row(NamedTuple):
    """A code of the linter."""

    code: str

    severity: Severity
    """*error*: the line has no effect, or not the effect that it seems to have; *warning*: some
    crawlers read it differently, or it is seldom meant; *note*: it is harmless."""

    check: Check
    words: str
    remedy: str

    example: bytes
    """The lines of a file that has the finding, in some dialects; empty if they are too long."""

    def explain(self) -> Finding:
        """Return the finding in the example."""
        for dialect in DIALECTS.values():
            for finding in lint(self.example, dialect):
                if finding.code == self.code:
                    return finding
        message = f"{self.words}: {self.remedy}".format("…", "…")
        return Finding(0, self.code, self.severity, message, "")


def lint(body: bytes, dialect: Dialect, url: str | None = None) -> tuple[Finding, ...]:
    """Return the findings of a robots.txt, in the order of lines. No content makes this raise.

    *url* is the URL that *body* was fetched from, or None for a local file. The time is
    bounded, and grows with the part of *body* that crawlers read.
    """
    file = File(body, dialect, url)
    found = []
    for code, severity, check, words, remedy, _ in TABLE:
        checked = iter(check(file))
        for line, *facts in islice(checked, MAX_OF_A_CODE):
            shown = (quoted(f) if isinstance(f, bytes) else f for f in facts)
            message = f"{words}: {remedy}".format(*shown)
            found.append(Finding(line, code, severity, message, file.text(line)))
        rest = list(checked)
        if rest:
            line = rest[0][0]
            message = f"{len(rest)} more findings with this code from this line on"
            found.append(Finding(line, code, severity, message, file.text(line)))
    return tuple(sorted(found))


def _lines(check: Callable[[Written, File], Facts], *fields: str) -> Check:
    """Return the check of each line, or of each line with one of *fields*."""

    def check_file(file: File) -> Iterator[Found]:
        for line in file.lines_of(*fields) if fields else file.lines:
            facts = check(line, file)
            if facts:
                yield line.number, *(facts if isinstance(facts, tuple) else ())

    return check_file


# Bytes.


def _byte_order_marks(file: File) -> Iterator[Found]:
    if file.body.startswith(BOM_UTF8[:1]):
        yield (1,)  # For most crawlers, a part of a mark is none.
    for line in file.lines:
        if BOM_UTF8 in line.content:
            yield (line.number,)


def _not_utf_8(file: File) -> Iterator[Found]:
    if file.body.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        yield 0, "a file in UTF-16"
    for line in file.lines:
        if b"\0" in line.content:
            yield line.number, "a line with null bytes"
            continue
        try:
            line.content.decode()
        except UnicodeDecodeError as error:
            octet = f"{line.content[error.start]:02X}"
            yield line.number, f"the byte 0x{octet}, which counts as %{octet} in a path"


def _too_large(file: File) -> Iterator[Found]:
    size, limit = len(file.body), file.dialect.size_limit
    if size > limit:
        yield file.last_line, f"{size:,}", f"{limit:,}"


def _line_too_long(line: Written, file: File) -> Facts:
    size, limit = len(line.content), GOOGLE.line_limit
    return limit is not None and size > limit and (size, limit)


# Fields.

_SPELLINGS = (
    "User-agent", "Allow", "Disallow", "Sitemap", "Crawl-delay", "Request-rate",
    "Content-Signal", "Content-Usage", "License",
)  # fmt: skip
_SPELLING_OF = {spelling.lower(): spelling for spelling in _SPELLINGS}
_NO_LETTER = re.compile("[^a-z]")
_BY_LETTERS = {_NO_LETTER.sub("", name): each for name, each in _SPELLING_OF.items()}

# The number and length of words that are compared with the fields, and the least likeness of
# a misspelling (see difflib.get_close_matches, which is slow).
_MAX_WORDS = 300
_MAX_WORD = 20
_MIN_LIKENESS = 0.8

_OF_PAGES = (
    "search engines ignore",
    "write it in a meta tag or an X-Robots-Tag header",
)
_SLOW_DOWN = "answer 429 or 503 to slow crawlers down"
_IGNORED = {
    "noindex": _OF_PAGES,
    "nofollow": _OF_PAGES,
    "noarchive": _OF_PAGES,
    "visit-time": ("this crawler does not keep", _SLOW_DOWN),
}
"""Who ignores a field, and what to do instead."""

_ANOTHER_FIELD = re.compile(
    rb"(?:user-agent|allow|sitemap)[ \t]*:[ \t]*(?:[/*]|https?:)", re.IGNORECASE
).search


def _misspelt_field(line: Written, file: File) -> Facts:
    name, colon, _ = line.content.partition(b":")
    words = name.split()
    if not words or (not colon and len(words) > 2) or b"\0" in name:
        return False
    written = name.strip() if colon else words[0]
    lowered = written[: 2 * _MAX_WORD].decode("utf-8", "replace").lower()
    if colon and lowered in _SPELLING_OF:
        return False
    meant = _SPELLING_OF.get(line.field) or _field_meant(lowered, file)
    if colon:
        return meant is not None and (written, meant)
    return meant is not None and (f"{quoted(written)} without a colon", f"{meant}:")


def _field_meant(name: str, file: File) -> str | None:
    """Return the field that *name* probably stands for, or None."""
    if len(name) > _MAX_WORD or name in _IGNORED:
        return None
    if name not in file.meant and len(file.meant) < _MAX_WORDS:
        letters = _NO_LETTER.sub("", name)
        words = _BY_LETTERS if len(name) > 3 else ()
        near = get_close_matches(letters, words, n=1, cutoff=_MIN_LIKENESS)
        file.meant[name] = _BY_LETTERS[near[0]] if near else None
    return file.meant.get(name)


def _fields_in_value(line: Written, _file: File) -> Facts:
    return bool(_ANOTHER_FIELD(line.value)) and (line.value,)


def _ignored_field(line: Written, file: File) -> Facts:
    written = line.content.partition(b":")[0].strip()
    if line.field in _IGNORED:
        who, instead = _IGNORED[line.field]
        return who, written, instead
    if line.field.startswith("acap-"):
        return "search engines ignore", written, "write Allow and Disallow lines"
    if line.field in PACE_FIELDS and not file.dialect.crawl_delay:
        who = f"the {file.dialect.name} dialect ignores"
        return who, written, _SLOW_DOWN
    return False


# User-agent lines and groups.

_MAX_AGENT = 2000
_HEADER = re.compile(
    rb"mozilla/\d|.{0,200}\((?:compatible|windows|x11|macintosh)\b",
    re.IGNORECASE | re.DOTALL,
).match
_LIST = re.compile(rb"[a-z0-9_*-]+\s*[,;|]\s*[a-z*]", re.IGNORECASE).match
_VERSION = re.compile(rb"(?:/v?[0-9.x]*)?\*?", re.IGNORECASE).fullmatch
_GROUPED = (*RULES, *PACE_FIELDS, "content-usage")


def _agent(line: Written, file: File) -> tuple[bytes, str, bool]:
    """Return the value of a user-agent line, the token that crawlers read in it, and whether
    it is a list of names.
    """
    value = line.value[:_MAX_AGENT]
    tokens = agents_of_line(value, file.dialect)
    token = tokens[0]
    if file.dialect.agent_match == "letters" and token != EVERYONE:
        # Google's parser reads only the letters, "-" and "_" at the beginning.
        token = next(filter(is_rfc_token, tokens), "")
    is_list = file.dialect.comma_separated_agents and len(tokens) > 1
    return value, token, is_list or bool(_LIST(value))


def _no_agent(line: Written, file: File) -> Facts:
    value, token, is_list = _agent(line, file)
    return not (token or is_list or _HEADER(value)) and (value,)


def _agent_list(line: Written, file: File) -> Facts:
    value, _, is_list = _agent(line, file)
    return is_list and not _HEADER(value)


def _agent_cut(line: Written, file: File) -> Facts:
    value, token, is_list = _agent(line, file)
    rest = value[len(token.encode()) :]
    meant: bytes | str = "the crawler's product token, of letters, - and _"
    if _HEADER(value):
        meant = next(iter(product_tokens(value.decode("utf-8", "replace"))), meant)
    elif is_list or not token or not rest:
        return False
    elif token == EVERYONE:
        meant = "only *, or a product token"
    elif _VERSION(rest):
        meant = token.encode()
    return token.encode(), meant


# Shorter names are near to too many others.
_MIN_NAME = 6
_BY_NAME = {_NO_LETTER.sub("", name): each for name, each in CRAWLERS.items()}
_KNOWN_AGENTS = {agent.lower() for each in CRAWLERS.values() for agent in each.agents}
_OF_LENGTH: dict[int, list[str]] = {}
for _name in CRAWLERS:
    if len(_name) >= _MIN_NAME:
        _OF_LENGTH.setdefault(len(_name), []).append(_name)


def _misspelt_agent(line: Written, _file: File) -> Facts:
    value = line.value[:_MAX_AGENT].partition(b"/")[0].strip()
    meant = _crawler_meant(value.decode("utf-8", "replace").lower())
    return meant is not None and (value, meant.operator, meant.token)


def _crawler_meant(name: str) -> Crawler | None:
    """Return the known crawler whose name differs from *name* in one letter, or in nothing but
    white space, ``-`` and ``_``; None if *name* is itself a known one.
    """
    if name in _KNOWN_AGENTS or len(name) > 2 * _MAX_WORD:
        return None
    spaced = _BY_NAME.get(_NO_LETTER.sub("", name))
    if spaced and not set(name) - set(spaced.token.lower()) - set(" -_"):
        return spaced
    lengths = range(len(name) - 1, len(name) + 2)
    near = (each for length in lengths for each in _OF_LENGTH.get(length, ()))
    return next((CRAWLERS[each] for each in near if _is_near(each, name)), None)


def _is_near(name: str, other: str) -> bool:
    """Whether *other* is *name* with one letter more, less, changed, or swapped with the next."""
    pairs = enumerate(zip(name, other, strict=False))
    at = next((place for place, (one, two) in pairs if one != two), None)
    if at is None:
        return True
    rest, others = name[at:], other[at:]
    swapped = rest[1::-1] + rest[2:]
    return rest[1:] in {others, others[1:]} or others[1:] == rest or swapped == others


def _everything_forbidden(file: File) -> Iterator[Found]:
    """Yield the line that forbids everything to everyone, if each agent has one and no rule that
    allows anything.
    """
    is_first = file.dialect.rule_choice == "first"
    whole = {"/", "/*", "*"} if file.dialect.wildcards else {"/"}
    closed: dict[str, int] = {}
    open_agents: set[str] = set()
    for group in file.groups:
        rules = group.rules[:1] if is_first else group.rules
        line = next((each.line for each in rules if each.pattern in whole), 0)
        if any(rule.kind == "allow" and rule.pattern for rule in group.rules):
            open_agents.update(group.agents)
        for agent in filter(None, group.agents):
            if file.dialect.merge_groups or agent not in closed:
                closed[agent] = closed.get(agent) or line
    if closed.get(EVERYONE) and all(closed.values()) and not open_agents:
        yield (closed[EVERYONE],)


def _outside_groups(file: File) -> Iterator[Found]:
    inside = {rule.line for group in file.groups for rule in group.rules}
    inside |= {record.line for group in file.groups for record in group.records}
    first = file.groups[0].lines[0] if file.groups else 0
    for line in file.lines_of(*_GROUPED):
        why, meant = "no user-agent line stands above", "write User-agent: * above it"
        if 0 < first < line.number:
            why, meant = "a blank line ends the group above", "delete the blank line"
        elif first:
            meant = "move it below one"
        if line.number not in inside:
            yield line.number, why, meant


def _groups_without_rules(file: File) -> Iterator[Found]:
    restricted = any(
        rule.kind == "disallow" and rule.pattern
        for group in file.groups
        if EVERYONE in group.agents
        for rule in group.rules
    )
    for group in file.groups:
        if group.rules or not any(group.agents) or (group.records and not restricted):
            continue
        if restricted and EVERYONE not in group.agents:
            meant = "repeat those rules here"
            yield group.lines[-1], ", even what the * group forbids", meant
        else:
            meant = "write Disallow: / to forbid everything, or an empty Disallow:"
            yield group.lines[-1], "", meant


# Patterns.

_URL = re.compile(
    rb"/?[a-z][a-z0-9+.-]{0,19}://[^/]*(.*)", re.IGNORECASE | re.DOTALL
).match
_HOST = re.compile(
    rb"/*((?:[a-z0-9-]{1,63}\.){1,9}[a-z]{2,24})(?::\d+)?(/.*|$)",
    re.IGNORECASE | re.DOTALL,
).match
_WWW = re.compile(rb"(?:/*www\.|//)", re.IGNORECASE).match
_BAD_PERCENT = re.compile(rb"%(?![0-9A-Fa-f]{2})").search


def _absolute_url(line: Written, file: File) -> Facts:
    url, host = _URL(line.value), _HOST(line.value)
    if url:
        return (url[1] or b"/",)
    ours = (file.url or "").lower().split("/")[2:3]
    if host and (
        _WWW(line.value) or _without_www(host[1].decode()) in map(_without_www, ours)
    ):
        return (host[2] or b"/",)
    return False


def _without_www(host: str) -> str:
    return host.lower().removeprefix("www.")


def _missing_slash(line: Written, file: File) -> Facts:
    begins = (b"/", b"*") if file.dialect.wildcards else (b"/",)
    if not line.value or line.value.startswith(begins) or _absolute_url(line, file):
        return False
    return (b"/" + line.value.lstrip(b"*"),)


def _fragment(line: Written, _file: File) -> Facts:
    content, _, comment = line.raw.partition(b"#")
    # A comment has white space before it or in it.
    is_one_word = comment.split() == [comment.rstrip()]
    if not line.value or not is_one_word or content[-1:].isspace():
        return False
    return (line.value,)


# Other records.

_MAX_URL = 65_536
_GOOD_VALUES = {
    "crawl-delay": "seconds, as in Crawl-delay: 5",
    "request-rate": "pages per seconds, as in Request-rate: 1/5",
}


def _bad_value(line: Written, file: File) -> Facts:
    text = line.value[:_MAX_URL].decode("utf-8", "replace")
    is_bad = file.dialect.crawl_delay and pace.READERS[line.field](text) is None
    return is_bad and (line.value, _GOOD_VALUES[line.field])


def _several_delays(file: File) -> Iterator[Found]:
    delays: dict[str, tuple[float, int]] = {}
    for group in file.groups if file.dialect.crawl_delay else ():
        if not file.dialect.merge_groups:
            delays = {}
        agents: dict[int, list[str]] = {}
        for agent, run in zip(group.agents, group.runs, strict=True):
            agents.setdefault(run, []).append(agent)
        for record in group.records:
            delay = pace.crawl_delay(record.value)
            if record.field != "crawl-delay" or delay is None:
                continue
            first = [
                delays.setdefault(agent, (delay, record.line))
                for agent in filter(None, agents[record.run])
            ]
            for other, line in first:
                if other != delay:
                    yield record.line, line, f"{other:g}"
                    break


def _shadowed_rules(file: File) -> Iterator[Found]:
    """Yield the rules with the pattern of an opposite rule that decides instead."""
    is_first = file.dialect.rule_choice == "first"
    together: dict[object, dict[str, Rule]] = {}
    for place, group in enumerate(file.groups):
        # Crawlers merge groups with the same names.
        names = frozenset(group.agents) if file.dialect.merge_groups else place
        rules = together.setdefault(names, {})
        for rule in filter(lambda rule: rule.pattern, group.rules):
            other = rules.setdefault(rule.pattern, rule)
            if other.kind == rule.kind:
                continue
            # A tie goes to allow.
            has_won = rule.kind == "allow" and not is_first
            winner, loser = (rule, other) if has_won else (other, rule)
            rules[rule.pattern] = winner
            yield (
                loser.line,
                winner.line,
                f"{winner.kind}s".replace("disallows", "forbids"),
            )


def _relative_sitemap(line: Written, file: File) -> Facts:
    text = b"Sitemap:" + line.value[:_MAX_URL]
    base = file.url or f"{ORIGIN}/robots.txt"
    resolved = RobotsTxt.parse(text, file.dialect, base).sitemaps
    if not resolved or RobotsTxt.parse(text, file.dialect).sitemaps:
        return False
    if file.url is None:
        return ("https:// and the host first",)
    return (resolved[0].encode("utf-8", "replace"),)


# Usage preferences.

_PREFERENCES = ("content-usage", "content-signal")

# The octets of usage records that are checked. Real files have far fewer.
_MAX_CHECKED = 50_000


def _bad_preferences(file: File) -> Iterator[Found]:
    octets = 0
    for line in file.lines_of(*_PREFERENCES):
        octets += len(line.value)
        if octets > _MAX_CHECKED:
            return
        wrong = _wrong_preference(line)
        if wrong:
            yield line.number, *wrong


def _wrong_preference(line: Written) -> tuple[str, str] | None:
    """Return what is wrong with a usage record, and the remedy; None for a good one."""
    first, _, rest = line.value.partition(b" ")
    is_label = b"=" in first or rest.lstrip().startswith((b"=", b","))
    if b"=" in rest and not is_label and not first.startswith(b"/"):
        return f"{quoted(first)} is no path", f"write {quoted(b'/' + first)}"
    signal, expression = expression_of(line.field, line.value)
    rows = [row for row in ROWS if row.signal is signal]
    labels = [row.label for row in rows]
    # All labels but one have the values of the first.
    values = [each for each in (rows[0].allows, rows[0].disallows) if each]
    how = f"the labels are {', '.join(labels)}, the values {' or '.join(values)}"
    if expression.mistake:
        return expression.mistake, how
    for label, value in expression.pairs:
        if label not in labels:
            return f"{quoted(label.encode())} is no label of {signal}", how
        if label == "use":
            values = ["immediate", "reference", "full"]
        if value not in values:
            return f"{label} has another value", f"write {label}={' or '.join(values)}"
    return None


def _contradictions(file: File) -> Iterator[Found]:
    dialect = file.dialect
    if not file.lines_of(*_PREFERENCES):
        return
    for_all, groups = usage_groups(file.read, dialect)
    together: dict[object, list[Line]] = {None: for_all}
    for place, (_, addressed) in enumerate(groups):
        for names, line in addressed:
            # Crawlers merge groups with the same names.
            group = None if dialect.merge_groups else place
            together.setdefault((group, frozenset(names)), []).append(line)
    first_wins = dialect.rule_choice == "first"
    for records in together.values():
        said: dict[object, tuple[bool, Line]] = {}
        octets = 0
        for line in records:
            octets += len(line.value)
            if octets > _MAX_CHECKED:
                break
            path = split_path(line.value)[0].decode("latin-1")
            pattern = path and paths.pattern(path, dialect)
            for each in statements_of(line, None):
                if each.value is None:
                    continue
                key = pattern, each.category
                value, other = said.setdefault(key, (each.value, line))
                if value is not each.value:
                    is_first = first_wins and other.field == line.field
                    followed = "first line" if is_first else "line that forbids"
                    yield line.number, other.number, each.category, followed


TABLE = (
    Row("html", "error", lambda file: [(file.page_line,)] if file.page_line else (),
        "this is an HTML page, not a robots.txt",
        "send the rules as text/plain, or answer 404 if there are none",
        b"<html>"),
    Row("byte-order-mark", "warning", _byte_order_marks,
        "some crawlers read a byte order mark as part of the line, and ignore the line",
        "save the file as UTF-8 without it",
        b"\xef\xbb\xbfUser-agent: *"),
    Row("not-utf-8", "warning", _not_utf_8,
        "many crawlers misread {}",
        "save the file as UTF-8, without null bytes",
        b"Disallow: /caf\xe9"),
    Row("too-large", "error", _too_large,
        "the file has at least {} bytes, and crawlers read only the first {}, up to here",
        "put the important rules first, and replace long lists by shorter patterns",
        b""),
    Row("line-too-long", "warning", _lines(_line_too_long),
        "the line has {} bytes, and Google reads only {}",
        "shorten it",
        b""),
    Row("misspelt-field", "error", _lines(_misspelt_field),
        "most crawlers ignore the field {}",
        "write {}",
        b"Disalow: /a"),
    Row("fields-in-value", "error", _lines(_fields_in_value, *KNOWN_FIELDS),
        "crawlers read {} as one value",
        "write each field on a line of its own",
        b"Disallow: /a Allow: /b"),
    Row("ignored-field", "warning", _lines(_ignored_field),
        "{} {}",
        "{}",
        b"Noindex: /a"),
    Row("no-agent", "error", _lines(_no_agent, USER_AGENT),
        "{} names no crawler",
        "write a product token, which has only letters, - and _, or * for all crawlers",
        b"User-agent:"),
    Row("agent-list", "error", _lines(_agent_list, USER_AGENT),
        "Google reads only the first of several names in one line, and few crawlers split them",
        "write a user-agent line for each",
        b"User-agent: mybot, otherbot"),
    Row("agent-cut", "warning", _lines(_agent_cut, USER_AGENT),
        "some crawlers read only {} of this name, and others find no crawler of this name",
        "write {}",
        b"User-agent: mybot/1.0"),
    Row("misspelt-agent", "warning", _lines(_misspelt_agent, USER_AGENT),
        "no known crawler has the name {}, and {} has one of nearly this name",
        "write {}, if that is meant",
        b"User-agent: Google bot"),
    Row("outside-group", "error", _outside_groups,
        "{}, so crawlers ignore this line",
        "{}",
        b"Disallow: /a"),
    Row("group-without-rules", "warning", _groups_without_rules,
        "the group has no rules, so it allows everything{}",
        "{}",
        b"User-agent: mybot"),
    Row("everything-forbidden", "warning", _everything_forbidden,
        "everything is forbidden to everyone: no crawler may fetch any page",
        "delete this line, if the site is to be found",
        b"User-agent: *\nDisallow: /"),
    Row("absolute-url", "error", _lines(_absolute_url, *RULES),
        "crawlers compare patterns with paths, and read the host as part of the path",
        "write {}",
        b"Disallow: https://example.com/a"),
    Row("missing-slash", "error", _lines(_missing_slash, *RULES),
        "Google ignores a rule whose pattern has no leading /, and only some crawlers assume it",
        "write {}",
        b"Disallow: private/"),
    Row("fragment-in-pattern", "error", _lines(_fragment, *RULES),
        "the # begins a comment, so crawlers read {}",
        "write %23 for a # in a path; clients never send the fragment of a URL",
        b"Disallow: /#/a"),
    Row("white-space-in-pattern", "warning", _lines(lambda line, _: b" " in line.value or b"\t" in line.value, *RULES),
        "white space counts as part of the pattern, which matches no URL in Google's parser",
        "write one path per line, and %20 for a space",
        b"Disallow: /a b"),
    Row("bad-percent", "warning", _lines(lambda line, _: bool(_BAD_PERCENT(line.value)), *RULES),
        "crawlers differ on a % without two hexadecimal digits after it",
        "write %25 for a percent sign",
        b"Disallow: /100%"),
    Row("bad-value", "error", _lines(_bad_value, *PACE_FIELDS),
        "crawlers cannot read {}, and ignore the line",
        "write {}",
        b"Crawl-delay: soon"),
    Row("several-delays", "warning", _several_delays,
        "line {} asks for {} s, and the larger delay counts",
        "keep one of the two lines",
        b"User-agent: *\nCrawl-delay: 1\nCrawl-delay: 2"),
    Row("shadowed-rule", "warning", _shadowed_rules,
        "line {} has the same pattern, and always decides: it {} the URL",
        "delete one of them",
        b"User-agent: *\nDisallow: /a\nAllow: /a"),
    Row("relative-sitemap", "warning", _lines(_relative_sitemap, SITEMAP),
        "most crawlers ignore a sitemap whose URL is not absolute",
        "write {}",
        b"Sitemap: /sitemap.xml"),
    Row("bad-preference", "error", _bad_preferences,
        "crawlers cannot follow this preference ({})",
        "{}",
        b"Content-Usage: train-ai=never"),
    Row("contradicting-preferences", "warning", _contradictions,
        "line {} says the opposite about {} for the same path, and crawlers follow the {}",
        "delete one of them",
        b"User-agent: *\nContent-Usage: search=y\nContent-Usage: search=n"),
    Row("dialects-differ", "note", differences,
        "for {}, {} is {} and {}, as the dialects differ in {}",
        "{}",
        b"User-agent: *\nDisallow: /*.pdf"),
)  # fmt: skip
"""Everything that has a finding."""

CODES: dict[str, Severity] = {row.code: row.severity for row in TABLE}

ROW_OF = {row.code: row for row in TABLE}
"""Each row of the table, by its code."""
