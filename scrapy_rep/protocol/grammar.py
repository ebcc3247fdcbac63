r"""The grammar of robots.txt, a lenient form of RFC 9309, 2.2, and its parts.

::

    robotstxt = *(line EOL)
    line      = WS [field WS ":" WS [value] WS] ["#" comment]
    WS        = *(SP / HTAB / VT / FF)
    EOL       = CR / LF / CRLF

    robotstxt = *other-line *group          ; how lines form groups
    group     = user-agent-line *(user-agent-line / other-line)
                [rule-line *(rule-line / other-line)]

:mod:`~scrapy_rep.protocol.robotstxt.lines` reads lines, and
:mod:`~scrapy_rep.protocol.robotstxt.groups` reads groups.
"""

from __future__ import annotations

WHITE_SPACE = " \t\v\f"
"""The characters that may stand around a field and its value."""

WS = rf"[{WHITE_SPACE}]*"
"""A regular expression for optional white space."""

USER_AGENT = "user-agent"
RULES = ("allow", "disallow")
PACE_FIELDS = ("crawl-delay", "request-rate")
SITEMAP = "sitemap"
"""A sitemap line belongs to no group. It ends neither a group nor a run of user-agent lines."""
