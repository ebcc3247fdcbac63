"""The tables of a ledger, which is an SQLite file."""

from __future__ import annotations

import re
from importlib.resources import files

from scrapy_rep.sqlitefiles import Schema

VERSION = 1

APPLICATION_ID = 0x52455031
"""``REP1``, in ``PRAGMA application_id``: the mark of a ledger."""

TABLES = files("scrapy_rep").joinpath("ledger/tables.sql").read_text("utf-8")

ADDED = ("form", "source", "via", "subject")
"""The columns of the table ``decision`` that earlier versions of this package did not create.
All are of the type TEXT."""

SCHEMA = Schema(APPLICATION_ID, VERSION, tuple(TABLES.split(";\n")))
"""The schema of the whole file."""

ADDED_TABLES = {
    match[1]: statement
    for statement in SCHEMA.statements
    if (match := re.search(r"IF NOT EXISTS (\w+)", statement))
}
"""The tables that earlier versions of this package did not create, each with its statement."""
