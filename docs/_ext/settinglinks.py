"""Settings as objects of Sphinx, as in Scrapy's documentation: ``:setting:`` links to them.

The page of settings defines those of this package. ``scrapy.inv`` lists Scrapy's own. Each
setting that a page names as code, alone or with a value, is linked to its entry.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform

if TYPE_CHECKING:
    from sphinx.application import Sphinx

PAGE = "reference/settings"
NAME = re.compile(r"[A-Z][A-Z0-9_]+(?= = |$)")


class Settings(SphinxTransform):
    default_priority = 700

    def apply(self) -> None:
        for literal in list(self.document.findall(nodes.literal)):
            if found := NAME.match(literal.astext()):
                self._link_or_define(literal, found[0])

    def _link_or_define(self, literal: nodes.literal, name: str) -> None:
        parent = literal.parent
        if isinstance(parent, nodes.title):
            if self.env.docname == PAGE:
                self._define(name, parent.parent)
        elif not isinstance(parent, (nodes.reference, addnodes.pending_xref)):
            link = addnodes.pending_xref(
                refdomain="std",
                reftype="setting",
                reftarget=name,
                refdoc=self.env.docname,
                refexplicit=True,
            )
            literal.replace_self(link)
            link += literal

    def _define(self, name: str, section: nodes.section) -> None:
        anchor = section["ids"][0]
        self.env.domains.standard_domain.note_object("setting", name, anchor)
        entry = ("pair", f"{name}; setting", anchor, "", None)
        section.insert(1, addnodes.index(entries=[entry]))


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_crossref_type("setting", "setting", "pair: %s; setting")
    app.add_transform(Settings)
    return {"parallel_read_safe": True}
