"""Dialects: the ways to read robots.txt that RFC 9309, Google and the classic texts (1994, 1996) define.

A dialect has a field for each point on which these texts differ. Code reads the fields and never
compares dialects by name, so users can define their own dialects:
``dataclasses.replace(RFC9309, index_html_quirk=True)``.

The descriptions of the fields cite these sources:

- *RFC 9309*: Robots Exclusion Protocol (2022).
- *Google*: "How Google interprets the robots.txt specification", Google Search Central,
  and the parser that Google published (github.com/google/robotstxt).
- *1994 standard*: "A Standard for Robot Exclusion", robotstxt.org/orig.html.
- *1996 draft*: "A Method for Web Robots Control", robotstxt.org/norobots-rfc.txt.
- *HTML 4.01*, B.4.1: "Notes on helping search engines index your Web site".
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal


@dataclass(frozen=True)
class Dialect:
    """The choices that determine how robots.txt is read, what the result of fetching robots.txt means, and how the
    indexing rules and links of pages are read.
    """

    name: str

    # How rules are read.

    rule_choice: Literal["most-octets", "first"] = "most-octets"
    """Which rule decides if several rules match a URL.

    ``"most-octets"``: the rule with the most octets in its normalized pattern; if an allow rule and a
    disallow rule have the same number of octets, the allow rule (RFC 9309, 2.2.2; Google, "Order of
    precedence for rules"). ``"first"``: the first rule in file order (1996 draft, 3.2.2)."""

    wildcards: bool = True
    """Whether ``*`` and a final ``$`` in a pattern are wildcards (RFC 9309, 2.2.3; Google, "URL matching
    based on path values"). If False, they are ordinary characters (1994 standard)."""

    path_encoding: Literal["rfc3986", "high-octets", "decoded"] = "rfc3986"
    """How the percent-encoding of patterns and URLs is normalized before they are compared. With
    ``"rfc3986"`` and ``"decoded"``, a pattern matches a URL if the two match either as written or
    after normalization. With ``"high-octets"``, they must match after normalization.

    ``"rfc3986"`` encodes characters that must not appear raw in a path or query. It decodes
    unreserved octets, and those reserved octets that delimit nothing in a path or query
    (``: @ ! ' ( ) , ;`` and brackets). It writes hex digits in upper case. A ``%`` without two
    hex digits becomes ``%25``.

    ``/ ? & = + * $`` and their encoded forms remain different, with one exception. After the
    first raw ``?`` of a pattern, ``/`` and ``?`` match their encoded forms and vice versa, because
    these two characters delimit nothing in a query (RFC 3986, 3.4). So the rule
    ``/foo/bar?baz=https://foo.bar`` matches ``/foo/bar?baz=https%3A%2F%2Ffoo.bar``, as in the
    table of RFC 9309, 2.2.2. In that table, all reserved octets are encoded before the comparison. This
    package does not encode them, because ``/a?b`` and ``/a%3Fb`` would then be the same path, but
    RFC 3986, 2.2, says that they are different.

    ``"high-octets"`` encodes octets above 0x7F in patterns, and writes hex digits in upper case. It
    compares everything else as written, including a ``%`` without two hex digits (Google's
    parser). There is one exception: brackets, ``'`` and characters that must not appear raw in
    a path or query match their encoded forms. URL libraries differ in which of these characters
    they encode. Without the exception, the URL library would determine which rules match.

    ``"decoded"`` decodes all octets except ``%2F`` in patterns and URLs (1996 draft, 3.2.2)."""

    leading_slash_assumed: bool = True
    """Whether a pattern that starts with neither ``/`` nor a wildcard ``*`` is read as if it started with
    ``/``. If False, the pattern matches nothing (Google ignores the rule)."""

    index_html_quirk: bool = False
    """Whether an ``Allow`` for an index page also allows the page's directory (Google's parser). For example,
    ``Allow: /dir/index.html`` then allows ``/dir/`` too."""

    robotstxt_allowed: bool = True
    """Whether ``/robots.txt`` is always allowed, even if a rule disallows it (RFC 9309, 2.2.2)."""

    empty_disallow: Literal["no-rule", "allow-all"] = "no-rule"
    """The effect of an empty ``Disallow``. ``"no-rule"``: the line has no effect (RFC 9309, 2.2.2).
    ``"allow-all"``: the line is a rule that allows every URL (1994 standard)."""

    # How groups are read, and which groups a crawler follows.

    agent_match: Literal["token", "letters", "prefix"] = "token"
    """The condition under which a user-agent line names a crawler. All comparisons ignore case.

    ``"token"``: the line's product token, which ends at white space, ``/`` or ``*``, equals the
    crawler's token (RFC 9309, 2.2.1).

    ``"letters"``: the letters, ``-`` and ``_`` at the start of the line's value equal the crawler's
    token (Google's parser), or the line's whole token, which may contain digits and dots, equals the
    crawler's token. Without the second condition, no line could name a crawler called ``MJ12bot``.

    ``"prefix"``: the crawler's token starts with the line's token (1996 draft, 3.2.1)."""

    comma_separated_agents: bool = True
    """Whether a user-agent line may name several crawlers, separated by commas (RFC 9309, erratum 8895,
    reported but not verified; Google's parser reads only the first name)."""

    merge_groups: bool = True
    """Whether a crawler follows all groups that name it (RFC 9309, 2.2.1). If False, it follows only the
    first of these groups (1996 draft, 3.2.1)."""

    blank_line_ends_group: bool = False
    """Whether a blank line ends a group (a "record" in the 1994 standard). If False, the first user-agent line
    after a rule ends the group and begins the next group (RFC 9309, 2.1)."""

    misspelt_fields: bool = False
    """Whether two kinds of malformed lines have an effect, as in Google's parser. In the first kind, the
    field only begins with a known field, or with a common misspelling of one, as in ``Disallows: /a``
    and ``Dissallow: /a``. In the second kind, white space replaces the colon, as in ``Disallow /a``."""

    crawl_delay: bool = True
    """Whether ``Crawl-delay`` and ``Request-rate`` have an effect (Google does not support them)."""

    # How the tags, headers and links of pages are read.

    untrusted_rel: frozenset[str] = frozenset()
    """The default value of the setting ``REP_REL``: a crawl does not follow links with one of these
    values in their ``rel`` attribute (Google, "Qualify your outbound links to Google")."""

    indexing_vocabulary: frozenset[str] | None = None
    """The names, in lower case, of the indexing rules that have an effect in robots meta tags and
    X-Robots-Tag headers; None for all rules that this package knows. Rules with other names are
    recorded as unknown, and have no effect.

    Sources: Google, "Robots meta tag, data-nosnippet, and X-Robots-Tag specifications", without
    the rules that Google no longer uses (noarchive, nocache, nositelinkssearchbox); for the
    classic dialect, HTML 4.01."""

    indexing_separators: bool = True
    """Whether ``;``, ``/``, ``|`` and white space may separate indexing rules, as in
    ``noindex; nofollow``, if all the parts are known rules. Google documents only the comma as a
    separator, and reads this example as a single unknown rule."""

    # How the bytes of robots.txt are decoded and limited.

    utf_16: bool = True
    """Whether a robots.txt in UTF-16 is decoded. A file is recognized as UTF-16 if it begins with the
    byte order mark of UTF-16, and contains null bytes where UTF-16 has them for ASCII characters. RFC
    9309, 2.2.2, leaves the decoding to the crawler; Google's parser does not decode."""

    nul_ends_line: bool = False
    """Whether the rest of a line after a null byte is ignored (Google's parser, which stores lines as
    C strings)."""

    size_limit: int = 512_000
    """The maximum number of bytes of a robots.txt that are read. If the limit cuts a line, that line
    is ignored (RFC 9309, 2.5; Google, "File format")."""

    line_limit: int | None = None
    """The maximum number of bytes of a line that are read (Google's parser); None for no limit."""

    partial_bom: bool = False
    """Whether an incomplete UTF-8 byte order mark at the start of the file is skipped, as a complete
    mark always is (Google's parser)."""

    # What the result of a fetch means, and how long it is fresh.

    max_redirects: int = 5
    """The maximum number of redirects that are followed, to any host. After one more redirect,
    robots.txt counts as unavailable (RFC 9309, 2.3.1.2; Google, "Handling of errors and HTTP status
    codes")."""

    denying_statuses: frozenset[int] = frozenset()
    """The 4xx statuses of robots.txt that forbid everything (1996 draft, 3.1). All other 4xx statuses allow
    everything, except 429: a robots.txt with this status counts as unreachable."""

    unreachable_denies: timedelta | None = timedelta(0)
    """How long everything is forbidden after robots.txt became unreachable (RFC 9309, 2.3.1.4; Google: 12 hours).
    After this time, the crawler follows the last good copy: the cached result of the last fetch before
    robots.txt became unreachable. With 0, the crawler follows the copy at once. With None, the crawler never
    follows the copy, and everything is forbidden until :attr:`unreachable_limit` is over.

    If no good copy is cached, this field has no effect (see :attr:`unreachable_without_copy`)."""

    unreachable_limit: timedelta | None = timedelta(days=30)
    """How long robots.txt must be unreachable until everything is allowed, if a good copy of it is cached (RFC
    9309, 2.3.1.4; Google: 30 days). The good copy is the result of the last fetch before robots.txt became
    unreachable. Until the time is over, :attr:`unreachable_denies` determines whether everything is forbidden
    or the crawler follows the copy. With None, an outage never allows everything, however long it lasts.

    If no good copy is cached, :attr:`unreachable_without_copy` applies instead of this field."""

    unreachable_without_copy: timedelta | None = timedelta(days=30)
    """How long robots.txt must be unreachable until everything is allowed, if no good copy of it is cached
    (Google: 12 hours). The good copy is the result of the last fetch before robots.txt became unreachable. Until
    the time is over, everything is forbidden. With None, everything stays forbidden as long as robots.txt is
    unreachable."""

    freshness: Literal["cache-control", "max-age", "expires"] = "cache-control"
    """Which header fields determine how long a robots.txt is fresh.

    ``"cache-control"``: all fields of RFC 9111, such as ``Cache-Control`` and ``Expires``, which can
    keep robots.txt fresh for at most 24 hours (RFC 9309, 2.4).
    ``"max-age"``: only the ``max-age`` of ``Cache-Control``, which can be less or more than 24
    hours (Google, "Caching"). ``"expires"``: only ``Expires`` (1996 draft, 3.4)."""

    ttl: timedelta = timedelta(hours=24)
    """How long the result of a fetch is fresh if no header field states a lifetime (RFC 9309, 2.4; Google,
    "Caching"; 1996 draft, 3.4: seven days)."""


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
