-- The tables of a ledger. Times are seconds since the epoch, in UTC. JSON is stored as text. After
-- any change to the tables, increment the version (reader.py; PRAGMA user_version).

CREATE TABLE crawl (
    id INTEGER PRIMARY KEY,
    uuid TEXT NOT NULL,         -- identifies the crawl, also in copies of the file
    spider TEXT NOT NULL,
    user_agent TEXT NOT NULL,   -- the User-Agent header, from the settings
    agents TEXT NOT NULL,       -- JSON list: the product tokens that were followed
    dialect TEXT NOT NULL,
    settings TEXT NOT NULL,     -- JSON object: REP_* and ROBOTSTXT_*
    versions TEXT NOT NULL,     -- JSON object: of scrapy-rep, Scrapy, Twisted, Python
    started REAL NOT NULL,
    ended REAL,                 -- NULL: the crawl was killed, or is still running
    finish_reason TEXT,
    counts TEXT                 -- JSON object: the numeric stats at the end of the crawl
);

CREATE TABLE body (
    sha256 TEXT PRIMARY KEY,    -- hex
    body BLOB NOT NULL          -- the robots.txt, cut at the size limit
);

CREATE TABLE snapshot (         -- a robots.txt, each time it was fetched or read from the store
    id INTEGER PRIMARY KEY,
    crawl INTEGER NOT NULL REFERENCES crawl,
    origin TEXT NOT NULL,       -- http://example.com:8080
    url TEXT NOT NULL,          -- the requested URL
    redirects TEXT NOT NULL,    -- JSON list of URLs; the answer came from the last one
    access TEXT NOT NULL,       -- successful, unavailable, unreachable
    status INTEGER,             -- NULL: there was no answer
    error TEXT,                 -- why there was no answer, or a redirect was not followed
    is_page INTEGER NOT NULL,   -- 1: the answer is an HTML page in place of a robots.txt
    headers TEXT NOT NULL,      -- JSON list of [name, value]: media type, freshness
    fetched REAL NOT NULL,
    expires REAL NOT NULL,
    copy_of REAL,               -- if an older copy was obeyed: when the copy was fetched
    sha256 TEXT REFERENCES body, -- NULL: no robots.txt was obeyed
    UNIQUE (crawl, origin, fetched)
);

CREATE TABLE decision (
    id INTEGER PRIMARY KEY,
    crawl INTEGER NOT NULL REFERENCES crawl,
    time REAL NOT NULL,
    origin TEXT NOT NULL,       -- the origin of url
    url TEXT NOT NULL,          -- what the decision is about
    page TEXT,                  -- the page with the statement, link or item; NULL: a request
    agent TEXT,                 -- the crawler that the rule or statement names; NULL: none
    layer TEXT NOT NULL,        -- robots.txt, header, meta, rel, usage, override, delay
    verdict TEXT NOT NULL,      -- allowed, refused (not fetched), dropped, annotated,
                                -- noted (a statement of a site that withholds nothing)
    reason TEXT NOT NULL,       -- rule, no-rule, back-off, ..., noindex, nofollow, ...
    snapshot INTEGER REFERENCES snapshot,
    line INTEGER,               -- the line of the rule in the robots.txt, from 1
    statement TEXT,             -- the rule, statement or override as written
    form TEXT,                  -- the form of url that the rule matches; NULL: url as written
    source TEXT,                -- where a usage preference was stated: robots.txt,
                                -- tdmrep.json, header, meta
    via TEXT,                   -- "redirect PAGE": PAGE led a browser to url,
                                -- "browser PAGE": a browser on PAGE requested url
    subject TEXT NOT NULL       -- request, page, link, item, file
);

CREATE TABLE traffic (          -- what a crawl received from an origin in one hour
    crawl INTEGER NOT NULL REFERENCES crawl,
    origin TEXT NOT NULL,
    hour INTEGER NOT NULL,      -- the time at which the hour began
    pages INTEGER NOT NULL,     -- the number of responses, without those for robots.txt
    bytes INTEGER NOT NULL,     -- the total size of their bodies, as received
    PRIMARY KEY (crawl, origin, hour)
);

CREATE TABLE gap (              -- the gap between an answer of an origin and the next request to it,
                                -- if the origin asks for a delay. A gap is stored only if it is
                                -- shorter, relative to the delay, or the delay longer, than all before
    crawl INTEGER NOT NULL REFERENCES crawl,
    origin TEXT NOT NULL,
    kind TEXT NOT NULL,         -- delay (robots.txt), pause (429, 503)
    time REAL NOT NULL,
    asked REAL NOT NULL,        -- the requested delay in seconds
    gap REAL                    -- seconds. NULL: no answer before, or no request after
);

CREATE TABLE progress (         -- what a crawl did in one minute
    crawl INTEGER NOT NULL REFERENCES crawl,
    minute INTEGER NOT NULL,    -- the time at which the minute began
    pages INTEGER NOT NULL,     -- the number of responses, as in traffic
    waiting INTEGER,            -- the most requests that waited in the queue; NULL: not known
    PRIMARY KEY (crawl, minute)
);

-- Views, for queries by hand. `scrapy rep report` reads them too.

CREATE VIEW withheld AS         -- all that was refused, dropped or annotated, and why
SELECT datetime(decision.time, 'unixepoch') AS time, verdict, subject, decision.url AS url, page,
       layer, reason, line, statement, datetime(fetched, 'unixepoch') AS fetched, status,
       decision.crawl AS crawl
FROM decision LEFT JOIN snapshot ON snapshot.id = decision.snapshot
WHERE verdict NOT IN ('allowed', 'noted');

CREATE VIEW tally AS            -- decisions with the same outcome and reason, counted
SELECT decision.crawl AS crawl, decision.origin AS origin, subject, verdict, layer, reason, line,
       statement, source, sha256, count(*) AS times, min(decision.url) AS example,
       max(decision.time - coalesce(copy_of, fetched)) AS age,  -- the greatest age of the robots.txt
       sum(via LIKE 'redirect %') AS arrived    -- URLs that a browser had already fetched
FROM decision LEFT JOIN snapshot ON snapshot.id = decision.snapshot
GROUP BY decision.origin, decision.crawl, subject, verdict, layer, reason, line, statement, source,
         sha256;

CREATE VIEW latest_robotstxt AS -- the latest robots.txt of each origin
SELECT origin, crawl, access, status, error, copy_of, sha256, max(fetched) AS fetched
FROM snapshot GROUP BY origin;

CREATE VIEW hosts AS            -- the traffic of each origin, and its decisions, counted. (The origin
                                -- of a URL with an invalid host is empty, and left out.)
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

CREATE VIEW minutes AS          -- pages, refused requests and waiting requests by minute
SELECT crawl, minute, sum(pages) AS pages, sum(refused) AS refused, max(waiting) AS waiting
FROM (
    SELECT crawl, minute, pages, 0 AS refused, waiting FROM progress
    UNION ALL
    SELECT crawl, CAST(time / 60 AS INTEGER) * 60, 0, count(*), NULL
    FROM decision WHERE verdict = 'refused' GROUP BY 1, 2
)
GROUP BY crawl, minute;

CREATE VIEW shortest_gaps AS    -- the shortest gap of each origin and kind, relative to the requested delay
SELECT origin, kind, asked, gap, gap / asked AS ratio
FROM (
    SELECT *, min(coalesce(gap / asked, 9e99)) FROM gap WHERE asked >= 0.001
    GROUP BY origin, kind
);
