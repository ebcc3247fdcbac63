"""The tables of a ledger, which is an SQLite file."""

from __future__ import annotations

from importlib.resources import files

from scrapy_rep.base.sqlitefile import Schema

VERSION = 2

APPLICATION_ID = 0x52455031
"""``REP1``, in ``PRAGMA application_id``: the mark of a ledger."""

TABLES = files("scrapy_rep").joinpath("crawl/ledger/tables.sql").read_text("utf-8")

SCHEMA = Schema(APPLICATION_ID, VERSION, tuple(TABLES.split(";\n")))
"""The schema of the whole file."""
