"""The texts that explain the reasons of decisions, with the setting that changes each decision.

The log, the report and the commands show these texts. A reason is a value of
:class:`~scrapy_rep.protocol.robotstxt.rules.Reason`, the name of an indexing rule, a category of
use (also called a purpose), or the name of the setting or request meta key that the decision is based on.
"""

from typing import NamedTuple

from scrapy_rep.protocol.usage.statements import CATEGORIES


class Words(NamedTuple):
    """The text that explains the reason for a decision to users, and advice on how to change the decision."""

    text: str
    """The reason as a clause without a full stop, such as ``a rule matches``."""

    setting: str = ""
    """The name of the setting or request meta key that changes decisions with this reason; empty if no
    setting does."""

    hint: str = ""
    """Advice that replaces the default ``<setting> changes this``; empty if the default is enough."""

    @property
    def advice(self) -> str:
        """Advice on how to change the decision, as a clause without a full stop; empty if no setting
        changes it.
        """
        return self.hint or (self.setting and f"{self.setting} changes this")


_NOT_INDEXED = "the page must not be in an index"

_PERMISSION = "with the owner's permission, REP_OVERRIDES changes this"

REASONS = {
    "rule": Words("a rule matches", "REP_OVERRIDES"),
    "disallowed": Words("robots.txt disallows", "REP_OVERRIDES", _PERMISSION),
    "no-rule": Words("no rule matches"),
    "no-group": Words("robots.txt has no group for this crawler or for *"),
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
    "bad-url": Words("the URL or the Host header has an invalid host or port"),
    "too-long": Words("the URL is too long to compare with all rules that contain a *"),
    "crawl-delay": Words(
        "robots.txt sets a longer delay than the crawl accepts",
        "REP_SKIP_DELAY_OVER",
    ),
    "back-off": Words(
        "the host requested a pause with status 429 or 503", "REP_WAIT_TIMEOUT"
    ),
    "budget": Words(
        "the crawl has fetched the maximum number of pages from the host",
        "REP_PAGES_PER_HOST",
    ),
    "pause": Words(
        "the host requested a pause with status 429 or 503",
        "REP_BACKOFF_MAX",
        "raise DOWNLOAD_DELAY to crawl the host more slowly",
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
    "data": Words("indexing rules have no effect on data, only on documents"),
    "no-page": Words(
        "indexing rules have no effect on a response whose status is not 2xx"
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
"""The text for each reason of a decision.

Three keys are not reasons. In some decisions, :func:`words_of` uses one of them in place of the reason, because these
decisions need another text:

- ``rel`` in place of ``nofollow`` if the decision is based on the ``rel`` attribute of a link
- ``pause`` in place of ``back-off`` if the crawl waits for the end of the pause
- ``disallowed`` in place of ``rule`` if the request is refused
"""


def words_of(reason: str, layer: str = "", verdict: str = "") -> Words:
    """Return the text that explains the *reason* of a decision to users, and advice on how to change the decision. For
    example, the text for the reason ``noindex`` is ``the page must not be in an index``. An unknown *reason* is itself
    the text, without advice.

    The result for a few reasons depends on *layer* or *verdict*. *layer* is the source of the decision, such as
    ``header``, ``meta`` or ``rel``. *verdict* is the result of the decision, such as ``refused``.
    """
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
    """Return the evidence for a decision as one line of text.

    An example is ``line 3, Disallow: /b (robots.txt disallows) (as https://example.com/b)``. Arguments that are None
    or empty are left out.

    - *words* are the reason for the decision: ``robots.txt disallows``.
    - *statement* is the rule or statement that the decision is based on: ``Disallow: /b``.
    - *line* is the line number of the rule in robots.txt: ``3``.
    - *form* is the form of the URL that robots.txt disallows, if robots.txt allows the URL as written:
      ``https://example.com/b`` for the URL ``https://example.com/%62``.
    """
    if statement and line:
        text = f"line {line}, {statement}".rstrip() + (f" ({words})" if words else "")
    else:
        text = f"{words}: {statement}" if statement else words
    return f"{text} (as {form})" if form else text


def outcome(access: str) -> str:
    """Return the words that users see for *access*, which is the result of fetching a robots.txt, such as
    *unreachable*.

    For *unavailable*, the words are ``no robots.txt``, because users who do not know RFC 9309 could confuse
    *unavailable* (everything is allowed) with *unreachable* (everything is forbidden). For all other
    results, return *access* itself.
    """
    return "no robots.txt" if access == "unavailable" else access
