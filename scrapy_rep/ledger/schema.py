"""The tables of a ledger: an SQLite file that anything reads which reads SQLite.

Version 1. Times are seconds since the epoch, in UTC. JSON is stored as text.
Later versions of this package may add columns. Any other change raises the version, which
is in ``PRAGMA user_version``.
"""

from __future__ import annotations

from scrapy_rep.sqlitefiles import Schema

VERSION = 1

APPLICATION_ID = 0x52455031
"""``REP1``, in ``PRAGMA application_id``: the mark of a ledger."""

TABLES = """
CREATE TABLE crawl (
    id INTEGER PRIMARY KEY,
    spider TEXT NOT NULL,
    user_agent TEXT NOT NULL,   -- the header, as the settings have it
    agents TEXT NOT NULL,       -- JSON list: the product tokens that were followed
    dialect TEXT NOT NULL,
    settings TEXT NOT NULL,     -- JSON object: those of this package, and ROBOTSTXT_*
    versions TEXT NOT NULL,     -- JSON object: of scrapy-rep, Scrapy, Twisted, Python
    started REAL NOT NULL,
    ended REAL,                 -- NULL: it was killed, or is still running
    finish_reason TEXT,
    counts TEXT                 -- JSON object: the stats at its end, numbers alone
);

CREATE TABLE body (
    sha256 TEXT PRIMARY KEY,    -- hex
    body BLOB NOT NULL          -- the robots.txt as it came
);

CREATE TABLE snapshot (         -- a robots.txt, each time it was fetched or loaded
    id INTEGER PRIMARY KEY,
    crawl INTEGER NOT NULL REFERENCES crawl,
    origin TEXT NOT NULL,       -- http://example.com:8080
    url TEXT NOT NULL,          -- that was asked for
    redirects TEXT NOT NULL,    -- JSON list; the last is where the answer is from
    access TEXT NOT NULL,       -- successful, unavailable, unreachable
    status INTEGER,             -- NULL: there was no answer
    error TEXT,                 -- why there was none
    headers TEXT NOT NULL,      -- JSON list of [name, value]: those that matter
    fetched REAL NOT NULL,
    expires REAL NOT NULL,
    copy_of REAL,               -- rules of a good copy, fetched then, held in its place
    sha256 TEXT REFERENCES body -- NULL: there was no file to keep to
);

CREATE INDEX snapshot_origin ON snapshot (crawl, origin);

CREATE TABLE decision (
    id INTEGER PRIMARY KEY,
    crawl INTEGER NOT NULL REFERENCES crawl,
    time REAL NOT NULL,
    origin TEXT NOT NULL,       -- of url
    url TEXT NOT NULL,
    page TEXT,                  -- where the link or item came from, if not url
    agent TEXT,                 -- whose rule or statement decided; NULL: none did
    layer TEXT NOT NULL,        -- robots.txt, header, meta, rel, usage, override, delay
    verdict TEXT NOT NULL,      -- allowed, refused (not fetched), dropped, annotated,
                                -- noted (a statement of a page, and no outcome)
    reason TEXT NOT NULL,       -- rule, no-rule, unreachable, ..., noindex, nofollow, ...
    snapshot INTEGER REFERENCES snapshot,
    line INTEGER,               -- of the robots.txt, from 1
    statement TEXT,             -- the rule, or the statement, as it is written
    form TEXT,                  -- of url, that was refused; NULL: url as written
    source TEXT,                -- of a statement about use: robots.txt, tdmrep.json,
                                -- header, meta
    via TEXT                    -- "redirect PAGE": a browser was led there from PAGE,
                                -- "browser PAGE": PAGE had the browser ask for url
);
"""

ADDED = {"decision": ("form TEXT", "source TEXT", "via TEXT")}
"""The columns that tables made by earlier versions of this package can lack."""

SCHEMA = Schema(APPLICATION_ID, VERSION, tuple(TABLES.split(";\n")))
"""The file as a whole."""
