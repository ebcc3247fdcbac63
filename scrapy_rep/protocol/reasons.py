"""The reasons of decisions in words, each with the setting that changes such decisions.

The log, the report and the commands take their words from here. A reason is a value of
:class:`~scrapy_rep.protocol.robotstxt.rules.Reason`, the name of an indexing rule, a purpose (a
category of use), or the setting or meta key by which the user of the crawler decided.
"""

from typing import NamedTuple

from scrapy_rep.protocol.usage.statements import CATEGORIES


class Words(NamedTuple):
    """A reason in words."""

    text: str
    """The reason as the end of a sentence, without a full stop."""

    setting: str = ""
    """The setting or meta key that changes decisions with this reason; empty if there is none."""

    hint: str = ""
    """What the user can do, if the name of the setting is not enough to know; empty otherwise."""

    @property
    def advice(self) -> str:
        """What the user can do about the decision, as a part of a sentence; empty if nothing."""
        return self.hint or (self.setting and f"{self.setting} changes this")


_NOT_INDEXED = "the page must not be in an index"

_PERMISSION = "only with the owner's permission: REP_OVERRIDES"

REASONS = {
    "rule": Words("a rule matches", "REP_OVERRIDES"),
    "disallowed": Words("robots.txt disallows", "REP_OVERRIDES", _PERMISSION),
    "no-rule": Words("no rule matches"),
    "no-group": Words("there is no group for this agent or for everyone"),
    "robots-txt": Words("robots.txt itself is always allowed"),
    "unavailable": Words(
        "robots.txt does not exist, or access to it is denied",
        "REP_OVERRIDES",
        _PERMISSION,
    ),
    "unreachable": Words(
        "robots.txt is unreachable",
        "REP_WAIT_TIMEOUT",
        "crawl later, or raise REP_WAIT_TIMEOUT",
    ),
    "override": Words("REP_OVERRIDES decides", "REP_OVERRIDES"),
    "bad-url": Words(
        "the host or port of the URL, or of the Host header, can't be read"
    ),
    "too-long": Words("the URL is too long to compare with all rules that have a *"),
    "crawl-delay": Words(
        "the host asks for a longer delay than the crawl accepts", "REP_SKIP_DELAY_OVER"
    ),
    "back-off": Words(
        "the host has asked for a pause, with status 429 or 503", "REP_WAIT_TIMEOUT"
    ),
    "budget": Words(
        "the crawl has fetched as many pages of the host as it may",
        "REP_PAGES_PER_HOST",
    ),
    "pause": Words(
        "the host has asked for a pause, with status 429 or 503",
        "REP_BACKOFF_MAX",
        "crawl it more slowly: DOWNLOAD_DELAY",
    ),
    "delay": Words(
        "robots.txt has a Crawl-delay or Request-rate", "REP_CRAWL_DELAY_OBEY"
    ),
    "noindex": Words(_NOT_INDEXED, "REP_NOINDEX"),
    "none": Words(_NOT_INDEXED, "REP_NOINDEX"),
    "unavailable_after": Words("the page must no longer be in an index", "REP_NOINDEX"),
    "noimageindex": Words("the images must not be in an index", "REP_NOINDEX"),
    "nofollow": Words("the links must not be followed", "REP_NOFOLLOW"),
    "rel": Words("links with this rel must not be followed", "REP_REL"),
    "data": Words("an indexing rule on data, not on a document, has no effect"),
    "no-page": Words(
        "an indexing rule on a response without a 2xx status has no effect"
    ),
    "dont_obey_robotstxt": Words(
        "the request ignores robots.txt", "dont_obey_robotstxt"
    ),
    "dont_obey_noindex": Words("the request ignores noindex", "dont_obey_noindex"),
    "ROBOTSTXT_OBEY": Words("the crawl ignores robots.txt", "ROBOTSTXT_OBEY"),
    "REP_NOINDEX": Words("the crawl ignores noindex", "REP_NOINDEX"),
    "REP_NOFOLLOW": Words("the crawl ignores nofollow", "REP_NOFOLLOW"),
    **{
        purpose: Words(f"the content must not be used for {purpose}", "REP_PURPOSES")
        for purpose in CATEGORIES
    },
}
"""The words for each reason of a decision. Three keys are special cases, chosen by :func:`words_of`:
``rel`` for the reason ``nofollow`` in the layer ``rel``, ``pause`` for the reason ``back-off`` if the
crawl keeps to the pause, and ``disallowed`` for the reason ``rule`` if the request is refused."""


def words_of(reason: str, layer: str = "", verdict: str = "") -> Words:
    """The words for the *reason* of a decision with this *layer* and *verdict*."""
    if layer == "rel":
        reason = layer
    elif (reason, verdict) == ("back-off", "noted"):
        reason = "pause"
    elif reason == "rule" and verdict in {"refused", "would-refuse"}:
        reason = "disallowed"
    return REASONS.get(reason, Words(reason))


def evidence(
    words: str, statement: str | None, line: int | None, form: str | None
) -> str:
    """Return why a decision was made, on one line.

    The result has the reason in *words*, the *statement* that decided, the number of its *line* in
    robots.txt, and the *form* of the URL that was judged. *words* may be empty if there are a
    statement and a line.
    """
    if statement and line:
        text = f"line {line}, {statement}".rstrip() + (f" ({words})" if words else "")
    else:
        text = f"{words}: {statement}" if statement else words
    return f"{text} (as {form})" if form else text


def outcome(access: str) -> str:
    """Return the result of a fetch of robots.txt in words for an operator. In RFC 9309, *unavailable*
    means that everything is allowed, and *unreachable* that everything is forbidden.
    """
    return "no robots.txt" if access == "unavailable" else access
