-- The tables of a ledger. Times are seconds since the epoch, in UTC. JSON is stored as text. Any
-- change to them needs another version, which is in PRAGMA user_version.

CREATE TABLE crawl (
    id INTEGER PRIMARY KEY,
    uuid TEXT NOT NULL,         -- of this crawl alone, in each copy of the file
    spider TEXT NOT NULL,
    user_agent TEXT NOT NULL,   -- the header, from the settings
    agents TEXT NOT NULL,       -- JSON list: the product tokens that were followed
    dialect TEXT NOT NULL,
    settings TEXT NOT NULL,     -- JSON object: REP_* and ROBOTSTXT_*
    versions TEXT NOT NULL,     -- JSON object: of scrapy-rep, Scrapy, Twisted, Python
    started REAL NOT NULL,
    ended REAL,                 -- NULL: killed, or still running
    finish_reason TEXT,
    counts TEXT                 -- JSON object: the numeric stats at its end
);

CREATE TABLE body (
    sha256 TEXT PRIMARY KEY,    -- hex
    body BLOB NOT NULL          -- the robots.txt, as far as it is read
);

CREATE TABLE snapshot (         -- a robots.txt, each time it was fetched or loaded
    id INTEGER PRIMARY KEY,
    crawl INTEGER NOT NULL REFERENCES crawl,
    origin TEXT NOT NULL,       -- http://example.com:8080
    url TEXT NOT NULL,          -- the requested URL
    redirects TEXT NOT NULL,    -- JSON list; the last URL sent the answer
    access TEXT NOT NULL,       -- successful, unavailable, unreachable
    status INTEGER,             -- NULL: there was no answer
    error TEXT,                 -- why there was none, or it was not followed
    is_page INTEGER NOT NULL,   -- 1: the answer is an HTML page, and no robots.txt
    headers TEXT NOT NULL,      -- JSON list of [name, value]: type, freshness
    fetched REAL NOT NULL,
    expires REAL NOT NULL,
    copy_of REAL,               -- when the older copy followed instead was fetched
    sha256 TEXT REFERENCES body, -- NULL: no file was followed
    UNIQUE (crawl, origin, fetched)
);

CREATE TABLE decision (
    id INTEGER PRIMARY KEY,
    crawl INTEGER NOT NULL REFERENCES crawl,
    time REAL NOT NULL,
    origin TEXT NOT NULL,       -- of url
    url TEXT NOT NULL,
    page TEXT,                  -- of the statement, link or item; NULL: a request
    agent TEXT,                 -- that the rule or statement names; NULL: none
    layer TEXT NOT NULL,        -- robots.txt, header, meta, rel, usage, override, delay
    verdict TEXT NOT NULL,      -- allowed, refused (not fetched), dropped, annotated,
                                -- noted (a statement of a site, and no outcome)
    reason TEXT NOT NULL,       -- rule, no-rule, back-off, ..., noindex, nofollow, ...
    snapshot INTEGER REFERENCES snapshot,
    line INTEGER,               -- in the robots.txt, from 1
    statement TEXT,             -- the rule, statement or override as written
    form TEXT,                  -- the refused form of url; NULL: url as written
    source TEXT,                -- place of a usage statement: robots.txt,
                                -- tdmrep.json, header, meta
    via TEXT,                   -- "redirect PAGE": PAGE led a browser to url,
                                -- "browser PAGE": a browser on PAGE requested url
    subject TEXT NOT NULL       -- request, page, link, item, file
);

CREATE TABLE traffic (          -- from an origin, in one hour
    crawl INTEGER NOT NULL REFERENCES crawl,
    origin TEXT NOT NULL,
    hour INTEGER NOT NULL,      -- when it began
    pages INTEGER NOT NULL,     -- responses, those to robots.txt excepted
    bytes INTEGER NOT NULL,     -- of their bodies, as received
    PRIMARY KEY (crawl, origin, hour)
);

CREATE TABLE gap (              -- from an answer to the next request, where an origin asks for
    crawl INTEGER NOT NULL REFERENCES crawl,    -- one: each that was shorter than those before
    origin TEXT NOT NULL,
    kind TEXT NOT NULL,         -- delay, pause (429, 503)
    time REAL NOT NULL,
    asked REAL NOT NULL,        -- seconds
    gap REAL                    -- NULL: no answer before it, or no request after it
);

CREATE TABLE progress (         -- of a crawl, in one minute
    crawl INTEGER NOT NULL REFERENCES crawl,
    minute INTEGER NOT NULL,    -- when it began
    pages INTEGER NOT NULL,     -- as above
    waiting INTEGER,            -- requests in the queue, at most; NULL: not known
    PRIMARY KEY (crawl, minute)
);

-- Views, for queries by hand. `scrapy rep report` reads them too.

CREATE VIEW withheld AS         -- what was refused, dropped or annotated, and why
SELECT datetime(decision.time, 'unixepoch') AS time, verdict, subject, decision.url AS url, page,
       layer, reason, line, statement, datetime(fetched, 'unixepoch') AS fetched, status,
       decision.crawl AS crawl
FROM decision LEFT JOIN snapshot ON snapshot.id = decision.snapshot
WHERE verdict NOT IN ('allowed', 'noted');

CREATE VIEW tally AS            -- decisions that are alike, counted
SELECT decision.crawl AS crawl, decision.origin AS origin, subject, verdict, layer, reason, line,
       statement, source, sha256, count(*) AS times, min(decision.url) AS example,
       max(decision.time - coalesce(copy_of, fetched)) AS age,  -- of the robots.txt
       sum(via LIKE 'redirect %') AS arrived    -- refused when a browser had fetched it
FROM decision LEFT JOIN snapshot ON snapshot.id = decision.snapshot
GROUP BY decision.origin, decision.crawl, subject, verdict, layer, reason, line, statement, source,
         sha256;

CREATE VIEW latest_robotstxt AS -- of each origin
SELECT origin, crawl, access, status, error, copy_of, sha256, max(fetched) AS fetched
FROM snapshot GROUP BY origin;

CREATE VIEW hosts AS            -- what came from each origin, and what was decided there. That of
                                -- a URL with an invalid host is empty, and not here
SELECT origin, pages, bytes, coalesce(refused, 0) AS refused, coalesce(dropped, 0) AS dropped,
       coalesce(decided, 0) AS decided, age, access, status, error, copy_of, sha256
FROM (
    SELECT origin FROM tally UNION SELECT origin FROM snapshot
    UNION SELECT origin FROM traffic WHERE pages > 0
) LEFT JOIN (
    SELECT origin, sum(times * (verdict = 'refused')) AS refused,
           sum(times * (verdict = 'dropped')) AS dropped, sum(times) AS decided, max(age) AS age
    FROM tally GROUP BY origin
) USING (origin) LEFT JOIN (
    SELECT origin, sum(pages) AS pages, sum(bytes) AS bytes FROM traffic GROUP BY origin
) USING (origin) LEFT JOIN latest_robotstxt USING (origin)
WHERE origin != '';

CREATE VIEW pages_by_day AS
SELECT date(hour, 'unixepoch') AS day, origin, sum(pages) AS pages, sum(bytes) AS bytes
FROM traffic GROUP BY day, origin HAVING sum(pages) > 0;

CREATE VIEW minutes AS          -- what happened when
SELECT crawl, minute, sum(pages) AS pages, sum(refused) AS refused, max(waiting) AS waiting
FROM (
    SELECT crawl, minute, pages, 0 AS refused, waiting FROM progress
    UNION ALL
    SELECT crawl, CAST(time / 60 AS INTEGER) * 60, 0, count(*), NULL
    FROM decision WHERE verdict = 'refused' GROUP BY 1, 2
)
GROUP BY crawl, minute;

CREATE VIEW shortest_gaps AS    -- that of each origin and kind, by what was asked for
SELECT origin, kind, asked, gap, gap / asked AS ratio
FROM (
    SELECT *, min(coalesce(gap / asked, 9e99)) FROM gap WHERE asked >= 0.001
    GROUP BY origin, kind
);
