"""What the linter can find in a robots.txt: each kind of finding, with its words and an example."""

from __future__ import annotations

from typing import Literal, NamedTuple

Severity = Literal["error", "warning"]

SEVERITIES: tuple[Severity, ...] = ("error", "warning")
"""The severities, the graver one first."""


class Finding(NamedTuple):
    """A mistake, or a possible mistake, in a robots.txt."""

    line: int
    """The number of the line, from 1; 0 for the file as a whole."""

    code: str
    """One of :data:`KINDS`."""

    severity: Severity

    message: str
    """What is wrong, what crawlers make of it, and what to write instead."""

    text: str
    """The line as written, or its beginning; bytes that are not UTF-8 are U+FFFD."""


class Kind(NamedTuple):
    """A kind of finding. Facts of a file fill the ``{}`` of the words and the remedy."""

    severity: Severity
    """*error*: the line has no effect, or not the effect that it seems to have; *warning*: some
    crawlers read it differently, or it is seldom meant."""

    words: str
    remedy: str

    example: bytes
    """The lines of a file that has the finding in some dialect; empty if they are too long."""

    def message(self, *facts: object) -> str:
        return f"{self.words}: {self.remedy}".format(*facts)


KINDS = {
    "absolute-url": Kind("error",
        "crawlers compare the pattern with paths, so they take the host for a part of the path",
        "write {}",
        b"User-agent: *\nDisallow: https://example.com/a"),
    "agent-cut": Kind("warning",
        "most crawlers read only {} of this name",
        "write {}",
        b"User-agent: Some Bot\nDisallow: /a"),
    "bad-sitemap": Kind("warning",
        "crawlers can't reach this sitemap, because {}",
        "write {}",
        b"Sitemap: /sitemap.xml"),
    "bad-value": Kind("error",
        "crawlers can't read {}, and ignore it",
        "write {}",
        b"User-agent: *\nCrawl-delay: soon"),
    "cut-off": Kind("warning",
        "the crawlers of this group do not follow the rules for *, and the group {}",
        "repeat those rules here, or write an empty Disallow if everything is allowed",
        b"User-agent: *\nDisallow: /admin/\n\nUser-agent: mybot\nCrawl-delay: 5"),
    "encoding": Kind("warning",
        "many crawlers misread {}",
        "save the file as UTF-8, without a byte order mark and null bytes",
        b"User-agent: *\nDisallow: /caf\xe9"),
    "everything-forbidden": Kind("warning",
        "no crawler may fetch any page",
        "delete this line, if the site is to be found",
        b"User-agent: *\nDisallow: /"),
    "fragment": Kind("error",
        "the # begins a comment, so crawlers read only {}",
        "write %23 for a # in a path; crawlers never send the fragment of a URL",
        b"User-agent: *\nDisallow: /#/a"),
    "html": Kind("error",
        "this is an HTML page, not a robots.txt",
        "send the rules as text/plain, or answer 404 if there are none",
        b"<html>"),
    "ignored-field": Kind("warning",
        "{} {}",
        "{}",
        b"User-agent: *\nNoindex: /a"),
    "misspelt-field": Kind("error",
        "most crawlers ignore the field {}",
        "write {}",
        b"User-agent: *\nDisalow: /a"),
    "missing-slash": Kind("error",
        "Google ignores a rule whose pattern has no leading /",
        "write {}",
        b"User-agent: *\nDisallow: private/"),
    "names-nobody": Kind("warning",
        "no known crawler has the name {}",
        "write {}",
        b"User-agent: Google bot\nDisallow: /a"),
    "never-wins": Kind("warning",
        "this rule never decides: line {} {} the same URLs",
        "{}",
        b"User-agent: *\nAllow: /\nDisallow: /*"),
    "outside-group": Kind("error",
        "crawlers ignore this line, because {}",
        "{}",
        b"Disallow: /a"),
    "too-large": Kind("error",
        "{} has {} bytes, and {} only the first {}",
        "put important rules first, and replace long lists by shorter patterns",
        b""),
    "white-space": Kind("warning",
        "the white space counts as a part of the pattern, so it matches hardly any URL",
        "write one path on each line, and %20 for a space",
        b"User-agent: *\nDisallow: /a b"),
}  # fmt: skip
"""Everything that has a finding, by its code."""
