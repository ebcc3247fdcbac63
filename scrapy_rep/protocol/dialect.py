"""The points on which RFC 9309, Google and the classic texts differ, as fields of a dialect.

Code reads these fields and never compares names of dialects, so users can make their own:
``dataclasses.replace(RFC9309, index_html_quirk=True)``.

Sources, as the field comments cite them:

- *RFC*: RFC 9309, Robots Exclusion Protocol (2022).
- *Google*: "How Google interprets the robots.txt specification", Google Search Central,
  and the parser that Google published (github.com/google/robotstxt).
- *1994*: "A Standard for Robot Exclusion", robotstxt.org/orig.html.
- *1996*: "A Method for Web Robots Control", robotstxt.org/norobots-rfc.txt.
- *HTML 4.01*, B.4.1: "Notes on helping search engines index your Web site".
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal


@dataclass(frozen=True)
class Dialect:
    """A way to read robots.txt, and to act on the result of fetching it."""

    name: str

    # Rules.

    rule_choice: Literal["most-octets", "first"] = "most-octets"
    """Which rule wins if several rules match: the rule with the most octets in its normalized
    pattern, and an allow rule if two are equal (RFC 2.2.2; Google, "Order of precedence for
    rules"), or the first rule in file order (1996, 3.2.2)."""

    wildcards: bool = True
    """Whether ``*`` and a final ``$`` are special (RFC 2.2.3; Google, "URL matching
    based on path values") or ordinary characters (1994)."""

    path_encoding: Literal["rfc3986", "high-octets", "decoded"] = "rfc3986"
    """How percent-encoding is normalized before octets are compared. With ``"rfc3986"`` and
    ``"decoded"``, a pattern matches a URL if the two match as written or normalized; with
    ``"high-octets"``, only if they match normalized.

    ``"rfc3986"`` normalizes patterns and URLs. It encodes characters that may not stand raw
    in a path or query. It decodes unreserved octets, and the reserved ones that delimit
    nothing there (``: @ ! ' ( ) , ;`` and brackets). It writes hex digits in upper case.
    ``/ ? & = + * $`` and their encoded forms stay different. But after the first raw ``?`` of a
    pattern, raw and encoded ``/`` and ``?`` match each other: in a query, they delimit nothing
    (RFC 3986, 3.4). In the table of RFC 2.2.2, which encodes reserved octets before they are
    compared, the rule ``/foo/bar?baz=https://foo.bar`` matches
    ``/foo/bar?baz=https%3A%2F%2Ffoo.bar``. If all reserved octets were encoded, ``/a?b`` and
    ``/a%3Fb`` would be the same path; RFC 3986, 2.2, says that they are different. A ``%``
    without two hex digits is ``%25``.

    ``"high-octets"`` encodes octets over 0x7F in patterns, writes their hex digits in upper
    case, and compares everything else as written (Google's parser), including a ``%`` without
    two hex digits. As an exception, brackets, ``'`` and characters that may not stand raw in a
    path or query equal their encoded forms. URL libraries differ in which of these characters
    they encode; without the exception, the library would decide which rules match.

    ``"decoded"`` decodes everything but ``%2F`` in patterns and URLs (1996, 3.2.2)."""

    leading_slash_assumed: bool = True
    """Whether a pattern that starts with neither ``/`` nor ``*`` is read as if it started with
    ``/``. Otherwise the pattern matches nothing (Google: such a rule is ignored)."""

    index_html_quirk: bool = False
    """Whether ``Allow: /dir/index.htm*`` also allows ``/dir/`` itself (Google's parser)."""

    robotstxt_allowed: bool = True
    """Whether ``/robots.txt`` is allowed whatever the rules say (RFC 2.2.2)."""

    empty_disallow: Literal["no-rule", "allow-all"] = "no-rule"
    """Whether an empty ``Disallow`` has no effect (RFC 2.2.2), or allows everything from
    that line on (1994)."""

    # Groups.

    agent_match: Literal["token", "letters", "prefix"] = "token"
    """How a user-agent line names a crawler, ignoring case.

    ``"token"``: the line's product token, up to white space, ``/`` or ``*``, equals the
    crawler's (RFC 2.2.1). ``"letters"``: the letters, ``-`` and ``_`` that the line starts
    with equal the crawler's token (Google's parser), or the line's whole token does, with
    digits and dots; otherwise no line could name a crawler called ``MJ12bot``.
    ``"prefix"``: the crawler's token starts with the line's (1996, 3.2.1)."""

    comma_separated_agents: bool = True
    """Whether commas in a user-agent line separate the names of crawlers (RFC, erratum 8895,
    reported but not verified; Google's parser reads only the first name)."""

    merge_groups: bool = True
    """Whether a crawler follows all groups that name it (RFC 2.2.1), or only the first
    (1996, 3.2.1)."""

    blank_line_ends_group: bool = False
    """Whether a blank line ends a group (a "record" in 1994). Otherwise the first
    user-agent line after a rule begins the next group (RFC 2.1)."""

    misspelt_fields: bool = False
    """Whether lines with mistakes have an effect: with a field that only begins with a known
    field or a common misspelling, or with white space in place of the colon (Google's parser)."""

    crawl_delay: bool = True
    """Whether ``Crawl-delay`` and ``Request-rate`` have an effect (Google: not supported)."""

    # Pages.

    untrusted_rel: frozenset[str] = frozenset()
    """The values of ``rel`` because of which links are not followed by default (Google, "Qualify
    your outbound links to Google")."""

    indexing_vocabulary: frozenset[str] | None = None
    """The names, in lower case, of the indexing rules that have an effect in robots meta tags
    and X-Robots-Tag headers; None for all rules that this package knows. Other rules are kept
    as unknown. (Google, "Robots meta tag, data-nosnippet, and X-Robots-Tag specifications",
    without the rules that Google no longer uses: noarchive, nocache, nositelinkssearchbox;
    classic: HTML 4.01.)"""

    indexing_separators: bool = True
    """Whether ``;``, ``/``, ``|`` and white space may separate indexing rules, if all parts are
    known rules: ``noindex; nofollow``. Google documents only the comma, and reads a single
    unknown rule there."""

    # Bytes.

    utf_16: bool = True
    """Whether to decode a robots.txt in UTF-16: a file with a byte order mark, and with null
    bytes where UTF-16 has them (RFC 2.2.2 leaves this to the crawler; Google's parser reads
    bytes)."""

    nul_ends_line: bool = False
    """Whether a null byte ends its line, so that the rest of the line is ignored (Google's
    parser, which keeps lines as C strings)."""

    size_limit: int = 512_000
    """How many bytes of a robots.txt are read; if the limit cuts a line, that line is ignored
    (RFC 2.5; Google, "File format")."""

    line_limit: int | None = None
    """How many bytes of a line are read (Google's parser); None for all."""

    partial_bom: bool = False
    """Whether an incomplete UTF-8 byte order mark is skipped too (Google's parser)."""

    # The result of a fetch, and how long it is fresh.

    max_redirects: int = 5
    """How many redirects are followed, to any host; after one more, robots.txt counts as
    unavailable (RFC 2.3.1.2; Google, "Handling of errors and HTTP status codes")."""

    denying_statuses: frozenset[int] = frozenset()
    """The 4xx statuses that forbid everything; all other 4xx allow everything (1996, 3.1)."""

    unreachable_denies: timedelta | None = timedelta(0)
    """How long an unreachable robots.txt forbids everything, before the last good copy is
    followed instead; None if the copy is never followed (RFC 2.3.1.4; Google: 12 hours)."""

    unreachable_limit: timedelta | None = timedelta(days=30)
    """How long robots.txt may be unreachable before everything is allowed, if there is a good
    cached copy; None for no limit (RFC 2.3.1.4; Google: 30 days)."""

    unreachable_without_copy: timedelta | None = timedelta(days=30)
    """How long robots.txt may be unreachable before everything is allowed, if there is no
    good cached copy; None for no limit (Google: 12 hours)."""

    freshness: Literal["cache-control", "max-age", "expires"] = "cache-control"
    """Which header fields set how long a robots.txt is fresh: all fields of RFC 9111, up to
    24 hours (RFC 2.4); only ``max-age``, which shortens or lengthens it (Google,
    "Caching"); or only ``Expires`` (1996, 3.4)."""

    ttl: timedelta = timedelta(hours=24)
    """How long the result of a fetch is fresh if no header field says so (RFC 2.4; Google,
    "Caching"; 1996, 3.4: seven days)."""


_HTML4_VOCABULARY = frozenset({"all", "none", "index", "noindex", "follow", "nofollow"})

RFC9309 = Dialect("rfc9309")

GOOGLE = Dialect(
    "google",
    path_encoding="high-octets",
    leading_slash_assumed=False,
    index_html_quirk=True,
    robotstxt_allowed=False,
    agent_match="letters",
    comma_separated_agents=False,
    misspelt_fields=True,
    crawl_delay=False,
    untrusted_rel=frozenset({"nofollow", "ugc", "sponsored"}),
    indexing_vocabulary=_HTML4_VOCABULARY
    | {
        "indexifembedded",
        "max-image-preview",
        "max-snippet",
        "max-video-preview",
        "noimageindex",
        "nosnippet",
        "notranslate",
        "unavailable_after",
    },
    indexing_separators=False,
    utf_16=False,
    nul_ends_line=True,
    line_limit=2083 * 8 - 1,
    partial_bom=True,
    freshness="max-age",
    unreachable_denies=timedelta(hours=12),
    unreachable_without_copy=timedelta(hours=12),
)

CLASSIC = Dialect(
    "classic",
    rule_choice="first",
    wildcards=False,
    path_encoding="decoded",
    leading_slash_assumed=False,
    empty_disallow="allow-all",
    agent_match="prefix",
    comma_separated_agents=False,
    merge_groups=False,
    blank_line_ends_group=True,
    indexing_vocabulary=_HTML4_VOCABULARY,
    indexing_separators=False,
    denying_statuses=frozenset({401, 403}),
    freshness="expires",
    unreachable_denies=None,
    unreachable_limit=None,
    unreachable_without_copy=None,
    ttl=timedelta(days=7),
)

DIALECTS = {dialect.name: dialect for dialect in (RFC9309, GOOGLE, CLASSIC)}
