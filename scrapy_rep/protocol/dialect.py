"""Every point on which RFC 9309, Google and the classic texts differ.

Code reads a field of the dialect, and never asks which dialect it is. So a user can make
one: ``dataclasses.replace(RFC9309, index_html_quirk=True)``.

Sources, as the field comments cite them:

- *RFC*: RFC 9309, Robots Exclusion Protocol (2022).
- *Google*: "How Google interprets the robots.txt specification", Google Search Central,
  and the parser that Google published (github.com/google/robotstxt).
- *1994*: "A Standard for Robot Exclusion", robotstxt.org/orig.html.
- *1996*: "A Method for Web Robots Control", robotstxt.org/norobots-rfc.txt.
- *HTML 4.01*, B.4.1: "Notes on helping search engines index your Web site".
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal


@dataclass(frozen=True)
class Dialect:
    """A way to read robots.txt, and to act on the result of fetching it."""

    name: str

    # Rules.

    rule_choice: Literal["most-octets", "first"] = "most-octets"
    """Which of the rules that match wins: the one with the most octets in its
    normalised pattern, a tie going to allow (RFC 2.2.2; Google, "Order of precedence
    for rules"), or the first in file order (1996, 3.2.2)."""

    wildcards: bool = True
    """Whether ``*`` and a final ``$`` are special (RFC 2.2.3; Google, "URL matching
    based on path values") or stand for themselves (1994)."""

    path_encoding: Literal["rfc3986", "high-octets", "decoded"] = "rfc3986"
    """How percent-encoding is normalized before octets are compared.

    ``"rfc3986"``, on both sides: characters that may not stand raw in a path or query
    are encoded; encoded unreserved octets are decoded, and so are the reserved ones that
    delimit nothing there (``: @ ! ' ( ) , ;`` and brackets); ``/ ? & = + * $`` and their
    encoded forms stay apart, but for a ``/`` or ``%2F`` behind the first raw ``?`` of a
    pattern, which matches both; hex is in upper case. RFC 2.2.2 says that reserved
    octets are encoded before they are compared, and the table there has the rule
    ``/foo/bar?baz=https://foo.bar`` match ``/foo/bar?baz=https%3A%2F%2Ffoo.bar``; to do
    so to all of them would make ``/a?b`` and ``/a%3Fb`` one path, which RFC 3986, 2.2,
    says they are not.

    ``"high-octets"``: in patterns, octets over 0x7F are encoded and hex is put in upper
    case; otherwise both sides are taken as they are (Google's parser), apart from
    characters that one URL library encodes and another does not: those that may not
    stand raw in a path or query, brackets and ``'`` are the same raw and encoded, as
    otherwise the library would decide which rules hold.

    ``"decoded"``: all but ``%2F`` is decoded, on both sides (1996, 3.2.2)."""

    leading_slash_assumed: bool = True
    """Whether a pattern that starts with neither ``/`` nor ``*`` gets a ``/``, rather
    than match nothing (Google: such a rule is ignored)."""

    index_html_quirk: bool = False
    """Whether ``Allow: /dir/index.htm*`` also allows ``/dir/`` itself (Google's
    parser)."""

    robotstxt_allowed: bool = True
    """Whether ``/robots.txt`` is allowed whatever the rules say (RFC 2.2.2)."""

    empty_disallow: Literal["no-rule", "allow-all"] = "no-rule"
    """Whether an empty ``Disallow`` is no rule (RFC 2.2.2), or allows everything from
    there on (1994)."""

    # Groups.

    agent_match: Literal["token", "letters", "prefix"] = "token"
    """How a user-agent line names a crawler, ignoring case.

    ``"token"``: the line's product token, up to white space, ``/`` or ``*``, equals the
    crawler's (RFC 2.2.1). ``"letters"``: the same, but the token is the letters, ``-``
    and ``_`` that the line starts with (Google's parser); a line whose token has digits
    or dots too names the crawler of that whole token as well, as a crawler called
    ``MJ12bot`` could not be named otherwise. ``"prefix"``: the crawler's token starts
    with the line's (1996, 3.2.1)."""

    comma_separated_agents: bool = True
    """Whether a user-agent line names several crawlers, with commas between them (RFC,
    erratum 8895, reported and not decided on; Google's parser reads the first)."""

    merge_groups: bool = True
    """Whether all groups of an agent count as one (RFC 2.2.1), or the first alone
    (1996, 3.2.1)."""

    blank_line_ends_group: bool = False
    """Whether a blank line ends a group (a "record" in 1994). Otherwise the first
    user-agent line after a rule begins the next group (RFC 2.1)."""

    misspelt_fields: bool = False
    """Whether fields match by prefix, in the spellings that Google's published parser
    takes, and white space may stand for a forgotten colon."""

    crawl_delay: bool = True
    """Whether ``Crawl-delay``, ``Request-rate`` and ``Visit-time`` are kept to (Google:
    not supported)."""

    # Pages.

    untrusted_rel: frozenset[str] = frozenset()
    """The values of ``rel`` whose links are not followed, unless the user says which
    (Google, "Qualify your outbound links to Google")."""

    indexing_vocabulary: frozenset[str] | None = None
    """The names that are understood in robots meta tags and X-Robots-Tag headers, in
    lower case; any other is kept as unknown and has no effect. None for every name that
    this package understands. (Google, "Robots meta tag, data-nosnippet, and
    X-Robots-Tag specifications", without the rules that it lists as no longer used:
    noarchive, nocache, nositelinkssearchbox; HTML 4.01 for the classic ones.)"""

    # Bytes.

    utf_16: bool = True
    """Whether a robots.txt in UTF-16 is decoded (RFC 2.2.2 leaves it to the crawler):
    one with a byte order mark and null bytes where UTF-16 has them. Google's parser
    reads bytes."""

    nul_ends_line: bool = False
    """Whether a null byte ends what is read of its line (Google's parser, which keeps
    lines as C strings)."""

    size_limit: int = 512_000
    """How many bytes of a robots.txt are read; what follows the last whole line in them
    is ignored (RFC 2.5; Google, "File format")."""

    line_limit: int | None = None
    """How many bytes of a line are read (Google's parser); None for all."""

    partial_bom: bool = False
    """Whether the beginning of a UTF-8 byte order mark is skipped like a whole one
    (Google's parser)."""

    # The result of a fetch, and how long it is fresh.

    max_redirects: int = 5
    """How many redirects are followed, to any host; after that robots.txt counts as
    unavailable (RFC 2.3.1.2; Google, "Handling of errors and HTTP status codes")."""

    denying_statuses: frozenset[int] = frozenset()
    """The statuses of "unavailable" (4xx) that forbid everything rather than allow it
    (1996, 3.1)."""

    unreachable_denies: timedelta | None = timedelta(0)
    """How long an unreachable robots.txt forbids everything although there is a good
    copy from before; None for always (RFC 2.3.1.4; Google: 12 hours)."""

    unreachable_limit: timedelta | None = timedelta(days=30)
    """How long an unreachable robots.txt may forbid, or live on in a copy, before
    everything is allowed; None for no limit (RFC 2.3.1.4; Google: 30 days)."""

    unreachable_without_copy: timedelta | None = timedelta(days=30)
    """How long an unreachable robots.txt may forbid everything where there never was a good
    copy (Google: 12 hours)."""

    freshness: Literal["cache-control", "max-age", "expires"] = "cache-control"
    """Which fields of a server's answer set how long its robots.txt is fresh: all of RFC
    9111, up to a ceiling of 24 hours (RFC 2.4); ``max-age`` alone, which shortens or
    lengthens it (Google, "Caching"); or ``Expires`` alone (1996, 3.4)."""

    holds: timedelta = timedelta(hours=24)
    """How long the result of a fetch is fresh where the server does not say (RFC 2.4;
    Google, "Caching"; 1996, 3.4: seven days)."""


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
    denying_statuses=frozenset({401, 403}),
    freshness="expires",
    unreachable_denies=None,
    unreachable_limit=None,
    unreachable_without_copy=None,
    holds=timedelta(days=7),
)

DIALECTS = {dialect.name: dialect for dialect in (RFC9309, GOOGLE, CLASSIC)}
