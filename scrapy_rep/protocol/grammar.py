r"""The grammar of robots.txt, for all who read it: RFC 9309, 2.2, read leniently.

::

    robotstxt = *(line EOL)
    line      = WS [field WS ":" WS [value] WS] ["#" comment]
    WS        = *(SP / HTAB / VT / FF)
    EOL       = CR / LF / CRLF

    robotstxt = *other-line *group          ; what lines are to each other
    group     = user-agent-line *(user-agent-line / other-line)
                [rule-line *(rule-line / other-line)]

Two readers follow it. :mod:`~scrapy_rep.protocol.robotstxt.groups` reads all groups, line
by line.:mod:`~scrapy_rep.protocol.robotstxt.groupsearch` looks for the groups of one
crawler, with expressions built from the parts below, and is what a crawl uses: on 2,143
real files it takes 19 microseconds a file, and reading all groups takes 132 (``python -m
benchmarks --only groups``). A property test holds each to the other.
"""

from __future__ import annotations

import re

WHITE_SPACE = " \t\v\f"
"""What may stand around a field and its value."""

WS = rf"[{WHITE_SPACE}]*"
"""An expression for white space, where there is any."""

USER_AGENT = "user-agent"
RULES = ("allow", "disallow")
PACE_FIELDS = ("crawl-delay", "request-rate", "visit-time")
SITEMAP = "sitemap"
"""Belongs to no group, and ends neither a group nor a run of user-agent lines."""


def line_of(*fields: str) -> str:
    """An expression for the beginning of a line with one of *fields*, which is its group 1,
    up to the value.

    It begins with the end of the line before. It is for a text in lower case, or to be
    compiled to ignore case.
    """
    return rf"\n{WS}({'|'.join(map(re.escape, fields))}){WS}:{WS}"
