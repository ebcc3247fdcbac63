-- What a report shows. These tables and views are made from others, which have the rows of
-- all ledgers: "snapshot", "body", "decision", "traffic" and "progress". Their rows have the
-- number of the ledger; a decision has the hash of the robots.txt that decided too, and its age
-- at that time. The table "limits" has one row: the most hosts, robots.txt files, other rows
-- and URLs of a host to show. The table "crawl" has its product tokens as JSON. The column "of_all" counts what there is without a
-- limit; one that ends with "_at" is a time. What others are made from is a table, so that SQLite
-- needs no memory for it at the same time.

-- Filled by robotstxt.py, from the latest robots.txt of each host: the delay that it asks this crawl
-- for, and what it forbids the AI crawlers that it names.
CREATE TEMPORARY TABLE asked (origin, delay, PRIMARY KEY (origin));
CREATE TEMPORARY TABLE named (origin, crawler, operator, purpose, forbids, line);

-- The decisions, counted. The other views read these rows, which are few, where they can.
CREATE TEMPORARY TABLE tally AS
SELECT ledger, crawl, origin, sha256, layer, verdict, reason, line, statement, source,
       page IS NOT NULL AS of_page, count(*) AS times, max(age) AS age, min(id) AS first,
       sum(via LIKE 'redirect %') AS arrived
FROM decision
GROUP BY origin, ledger, crawl, snapshot, line, layer, verdict, reason, of_page, source,
         statement;

CREATE INDEX tally_origin ON tally (origin);

-- What the lines of robots.txt files decided.
CREATE TEMPORARY VIEW by_line AS
SELECT * FROM tally WHERE layer IN ('robots.txt', 'usage') AND line > 0;

-- The robots.txt files to show: those whose lines decided most.
CREATE TEMPORARY TABLE file AS
SELECT row_number() OVER (ORDER BY coalesce(decided, 0) DESC, origin) AS number, origin,
       coalesce(refused, 0) AS refused, coalesce(allowed, 0) AS allowed,
       count(*) OVER () AS of_all
FROM (SELECT DISTINCT origin FROM snapshot WHERE sha256 IS NOT NULL) LEFT JOIN (
    SELECT origin, sum(times) AS decided, sum(times * (verdict = 'refused')) AS refused,
           sum(times * (verdict = 'allowed')) AS allowed
    FROM by_line GROUP BY origin
) USING (origin)
ORDER BY number LIMIT (SELECT files FROM limits);

-- The hosts whose URLs are shown: those with the most refusals.
CREATE TEMPORARY TABLE judged AS
SELECT row_number() OVER (ORDER BY refused DESC, origin) AS number, *,
       count(*) OVER () AS of_all
FROM (
    SELECT origin, sum(times * (layer != 'override')) AS refused,
           sum(times * (layer = 'override')) AS overridden
    FROM tally WHERE verdict = 'refused' OR layer = 'override' GROUP BY origin
)
ORDER BY number LIMIT (SELECT others FROM limits);

-- Sorted so that each robots.txt is parsed once.
CREATE TEMPORARY VIEW to_check AS
SELECT ledger, sha256, crawl, agent, url FROM decision
WHERE verdict = 'allowed' AND layer = 'robots.txt' AND sha256 IS NOT NULL
ORDER BY ledger, sha256, crawl;

CREATE TEMPORARY VIEW outcome AS
SELECT layer, verdict, reason, sum(times) AS times FROM tally
GROUP BY layer, verdict, reason
ORDER BY sum(sum(times)) OVER (PARTITION BY layer) DESC, layer, times DESC, verdict, reason;

CREATE TEMPORARY VIEW answer AS
SELECT access, status, CASE WHEN status IS NULL THEN substr(error, 1, 200) END AS why,
       count(*) AS times, count(DISTINCT origin) AS hosts, sum(count(*)) OVER () AS of_all
FROM snapshot GROUP BY access, status, why
ORDER BY times DESC, access, status, why LIMIT (SELECT urls FROM limits);

-- The origin of a URL with an invalid host is empty.
CREATE TEMPORARY VIEW met AS
SELECT origin FROM tally WHERE origin != '' UNION SELECT origin FROM snapshot
UNION SELECT origin FROM moved WHERE pages > 0;

-- SQLite takes the other columns from the row with the maximum.
CREATE TEMPORARY TABLE latest AS
SELECT ledger, crawl, origin, access, status, error, copy_of, sha256, max(fetched)
FROM snapshot GROUP BY origin;

CREATE TEMPORARY VIEW latest_file AS
SELECT origin, ledger, sha256, dialect, agents FROM latest LEFT JOIN crawl USING (ledger, crawl)
WHERE sha256 IS NOT NULL ORDER BY ledger, sha256;

-- What came from each host.
CREATE TEMPORARY TABLE moved AS
SELECT origin, sum(pages) AS pages, sum(bytes) AS bytes, max(hour) AS last
FROM traffic GROUP BY origin;

CREATE UNIQUE INDEX moved_origin ON moved (origin);

CREATE TEMPORARY VIEW fetched AS
SELECT origin, date(hour, 'unixepoch') AS day, sum(traffic.pages) AS pages,
       sum(traffic.bytes) AS bytes, moved.pages AS pages_of_host, count(*) OVER () AS of_all
FROM traffic JOIN moved USING (origin) WHERE moved.pages > 0
GROUP BY origin, day HAVING sum(traffic.pages) > 0
ORDER BY pages_of_host DESC, origin, day LIMIT (SELECT others FROM limits);

CREATE TEMPORARY VIEW moved_in_all AS
SELECT coalesce(sum(pages), 0) AS pages, coalesce(sum(bytes), 0) AS bytes,
       count(CASE WHEN pages > 0 THEN 1 END) AS hosts,
       (SELECT count(DISTINCT date(minute, 'unixepoch')) FROM progress WHERE pages > 0) AS days
FROM moved;

-- The requests of each crawl that were let through, where the ledger has them.
CREATE TEMPORARY VIEW let_through AS
SELECT ledger, crawl, sum(times * (layer = 'robots.txt')) AS by_robotstxt,
       sum(times * (layer = 'override')) AS by_override
FROM tally JOIN crawl USING (ledger, crawl)
WHERE every_decision AND verdict = 'allowed' AND NOT of_page GROUP BY ledger, crawl;

-- Figures of the whole. Arrived: refused, but a redirect or a script had already led a browser
-- there.
CREATE TEMPORARY TABLE total AS
SELECT crawls, complete, dry_runs, ignoring, let_through, let_through_by_override,
       (SELECT coalesce(sum(arrived), 0) FROM tally WHERE verdict = 'refused') AS arrived,
       (SELECT pages FROM moved_in_all) AS pages,
       (SELECT count(*) FROM met) AS hosts,
       (SELECT count(DISTINCT origin) FROM snapshot WHERE access = 'unavailable') AS without,
       (SELECT count(DISTINCT origin) FROM snapshot WHERE access = 'unreachable')
       AS unreachable,
       (SELECT coalesce(sum(times), 0) FROM tally WHERE verdict = 'refused') AS refused,
       (SELECT coalesce(sum(times), 0) FROM tally WHERE verdict = 'dropped') AS dropped,
       (SELECT coalesce(sum(times), 0) FROM tally WHERE verdict = 'annotated') AS annotated
FROM (
    SELECT count(*) AS crawls, coalesce(sum(every_decision), 0) AS complete,
           coalesce(sum(is_dry_run), 0) AS dry_runs, coalesce(sum(ignores), 0) AS ignoring,
           coalesce(sum(by_robotstxt), 0) AS let_through,
           coalesce(sum(by_override), 0) AS let_through_by_override
    FROM crawl LEFT JOIN let_through USING (ledger, crawl)
);

-- The shortest time from an answer to the next request, compared with the delay at that time.
CREATE TEMPORARY TABLE waited AS
SELECT origin, asked AS delay, gap, min(coalesce(gap / asked, 1e9)) AS ratio
FROM gap WHERE kind = 'delay' AND asked >= 0.001 GROUP BY origin;

CREATE UNIQUE INDEX waited_origin ON waited (origin);

-- The hosts with a delay: that of their latest robots.txt ("asked"), and that which applied to
-- the request that came soonest. "kept" is NULL if no request had to keep to one. A time may be
-- rounded by a millisecond.
CREATE TEMPORARY VIEW pace AS
SELECT origin, asked.delay AS asked, waited.delay AS delay, gap, round(ratio, 4) AS ratio,
       CASE WHEN waited.delay IS NOT NULL THEN gap IS NULL OR gap >= waited.delay - 0.001 END AS kept
FROM (
    SELECT origin FROM asked WHERE delay > 0 UNION SELECT origin FROM waited
) LEFT JOIN asked USING (origin) LEFT JOIN waited USING (origin);

CREATE TEMPORARY VIEW delay AS
SELECT *, count(*) OVER () AS of_all FROM pace
ORDER BY kept IS NULL, kept, ratio IS NULL, ratio, origin LIMIT (SELECT others FROM limits);

CREATE TEMPORARY VIEW delays_in_all AS
SELECT count(*) AS asking, count(kept) AS known, coalesce(sum(kept), 0) AS kept FROM pace;

-- The hosts whose pages take longest at the delay that the crawl keeps.
CREATE TEMPORARY VIEW slow AS
SELECT origin, pages, delay, pages * delay AS seconds
FROM waited JOIN moved USING (origin) WHERE pages > 0
ORDER BY seconds DESC, origin LIMIT (SELECT urls FROM limits);

CREATE TEMPORARY TABLE shown AS
SELECT most.*, ledger, crawl, access, status, error, copy_of, sha256,
       file.number AS file, judged.number AS judged
FROM (
    SELECT met.origin AS origin,
           coalesce(sum(times * (verdict = 'refused')), 0) AS refused,
           coalesce(sum(times * (verdict = 'dropped')), 0) AS dropped,
           coalesce(sum(times), 0) AS decided, max(age) AS age
    FROM met LEFT JOIN tally USING (origin) GROUP BY met.origin
    ORDER BY refused DESC, dropped DESC, decided DESC, 1 LIMIT (SELECT hosts FROM limits)
) AS most
LEFT JOIN latest USING (origin)
LEFT JOIN file USING (origin) LEFT JOIN judged USING (origin)
ORDER BY most.refused DESC, dropped DESC, decided DESC, most.origin;

CREATE TEMPORARY VIEW host AS
SELECT shown.*, asked.delay AS delay, waited.gap AS gap, pages, bytes
FROM shown LEFT JOIN asked USING (origin) LEFT JOIN waited USING (origin)
LEFT JOIN moved USING (origin)
ORDER BY shown.rowid;

-- What the groups of each host forbid the AI crawlers that they name.
CREATE TEMPORARY VIEW ai_crawler AS
SELECT named.*, file.number AS file, count(*) OVER () AS of_all
FROM named LEFT JOIN file USING (origin)
WHERE origin IN (
    SELECT origin FROM named GROUP BY origin
    ORDER BY sum(forbids = 'everything') DESC, count(*) DESC, origin
    LIMIT (SELECT others FROM limits)
)
WINDOW of_host AS (PARTITION BY origin)
ORDER BY sum(forbids = 'everything') OVER of_host DESC, count(*) OVER of_host DESC, origin,
         forbids, crawler;

CREATE TEMPORARY VIEW ai_crawlers_in_all AS
SELECT count(DISTINCT origin) AS hosts,
       count(DISTINCT CASE WHEN forbids LIKE 'everything%' THEN origin END) AS closing
FROM named;

-- The rules that refused, of each host.
CREATE TEMPORARY VIEW rule AS
SELECT origin, coalesce(statement, '') AS statement, sum(times) AS refused
FROM by_line WHERE verdict = 'refused' GROUP BY origin, statement
ORDER BY refused DESC, min(line);

CREATE TEMPORARY VIEW judged_url AS
SELECT * FROM (
    SELECT *, count(*) OVER (PARTITION BY number) AS urls_of_host, row_number() OVER (
        PARTITION BY number ORDER BY layer = 'override', times DESC, ledger, first
    ) AS place
    FROM (
        SELECT number, origin, refused AS refused_of_host,
               overridden AS overridden_of_host, url, verdict, layer, reason, line,
               statement, count(*) AS times, ledger, min(id) AS first
        FROM decision JOIN judged USING (origin)
        WHERE verdict = 'refused' OR layer = 'override'
        GROUP BY number, url, verdict, layer, reason
    )
)
WHERE place <= (SELECT urls FROM limits) ORDER BY number, place;

-- What was stated about each purpose. Outcomes come before statements that were only noted.
CREATE TEMPORARY VIEW purpose AS
SELECT found.*, number AS file FROM (
    SELECT origin, reason AS purpose, verdict, source, statement, line,
           sum(times) AS times, ledger, min(first) AS first, count(*) OVER () AS of_all
    FROM tally WHERE layer = 'usage'
    GROUP BY origin, purpose, verdict, source, statement, line
    ORDER BY verdict = 'noted', times DESC, origin, purpose, statement
    LIMIT (SELECT others FROM limits)
) AS found LEFT JOIN file USING (origin)
ORDER BY verdict = 'noted', times DESC, found.origin, purpose, statement;

-- The hosts that were treated as having no robots.txt, by reason. Each host counts once, for
-- its last reason.
CREATE TEMPORARY VIEW without AS
SELECT * FROM (
    SELECT *, dense_rank() OVER (ORDER BY hosts DESC, status, error) AS number FROM (
        SELECT status, error, origin, count(*) OVER why AS hosts,
               coalesce(sum(allowed) OVER why, 0) AS allowed,
               coalesce(sum(refused) OVER why, 0) AS refused,
               row_number() OVER (PARTITION BY status, error ORDER BY origin) AS place
        FROM (
            SELECT origin, status, substr(error, 1, 200) AS error, max(fetched)
            FROM snapshot WHERE access = 'unavailable' GROUP BY origin
        ) LEFT JOIN (
            SELECT origin, sum(times * (verdict = 'allowed')) AS allowed,
                   sum(times * (verdict = 'refused')) AS refused
            FROM tally WHERE reason = 'unavailable' GROUP BY origin
        ) USING (origin)
        WINDOW why AS (PARTITION BY status, error)
    ) WHERE place <= (SELECT urls FROM limits)
) WHERE number <= (SELECT others FROM limits) ORDER BY number, place;

CREATE TEMPORARY VIEW outage AS
SELECT origin, times, first_at, last_at, status, error, copy_at, recovered,
       coalesce(given_up, 0) AS given_up, count(*) OVER () AS of_all
FROM (
    SELECT origin, count(*) AS times, min(fetched) AS first_at, max(copy_of) AS copy_at
    FROM snapshot WHERE access = 'unreachable' GROUP BY origin
) JOIN (
    SELECT origin, status, substr(error, 1, 500) AS error, max(fetched) AS last_at
    FROM snapshot WHERE access = 'unreachable' GROUP BY origin
) USING (origin) JOIN (
    SELECT origin, access != 'unreachable' AS recovered FROM latest
) USING (origin) LEFT JOIN (
    SELECT origin, sum(times) AS given_up FROM tally
    WHERE verdict = 'refused' AND reason = 'unreachable' GROUP BY origin
) USING (origin)
ORDER BY given_up DESC, times DESC, origin LIMIT (SELECT others FROM limits);

-- The hosts that asked for a pause, with its seconds, and the shortest time from such an answer
-- to the next request.
CREATE TEMPORARY TABLE paused AS
SELECT origin, asked AS pause, gap AS resumed, min(coalesce(gap / asked, 1e9))
FROM gap WHERE kind = 'pause' AND asked >= 0.001 GROUP BY origin;

CREATE TEMPORARY TABLE resting AS
SELECT origin, times, statement, pause, resumed,
       CASE WHEN pause IS NOT NULL THEN resumed IS NULL OR resumed >= pause - 0.001 END AS kept,
       refused
FROM (
    SELECT origin, sum(times * (verdict = 'noted')) AS times,
           max(statement) FILTER (WHERE verdict = 'noted') AS statement,
           sum(times * (verdict = 'refused')) AS refused
    FROM tally WHERE reason = 'back-off' AND NOT of_page GROUP BY origin
) LEFT JOIN paused USING (origin);

CREATE TEMPORARY VIEW pause AS
SELECT *, count(*) OVER () AS of_all FROM resting
ORDER BY kept IS NULL, kept, refused DESC, times DESC, origin
LIMIT (SELECT others FROM limits);

CREATE TEMPORARY VIEW pauses_in_all AS
SELECT count(*) AS hosts, coalesce(sum(times), 0) AS times, count(kept) AS known,
       coalesce(sum(kept), 0) AS kept, coalesce(max(pause), 0) AS longest
FROM resting;

CREATE TEMPORARY VIEW overridden AS
SELECT reason, statement, verdict, sum(times) AS times, count(DISTINCT origin) AS hosts,
       count(*) OVER () AS of_all
FROM tally WHERE layer = 'override' GROUP BY reason, statement, verdict
ORDER BY times DESC, reason, statement LIMIT (SELECT others FROM limits);

-- The versions of each robots.txt that is shown, the latest first.
CREATE TEMPORARY VIEW version AS
SELECT file.*, found.*, dialect, coalesce(length(body), 0) AS size FROM file JOIN (
    SELECT origin AS host, ledger, crawl, sha256, url, redirects,
           min(coalesce(copy_of, fetched)) AS first,
           max(coalesce(copy_of, fetched)) AS last, max(copy_of) AS copy_of
    FROM snapshot WHERE sha256 IS NOT NULL AND origin IN (SELECT origin FROM file)
    GROUP BY origin, sha256
) AS found ON origin = host
LEFT JOIN crawl USING (ledger, crawl) LEFT JOIN body USING (ledger, sha256)
ORDER BY number, last DESC;

-- The lines that decided, of each version. The first decision is a refusal if there is one.
CREATE TEMPORARY VIEW mark AS
SELECT origin, sha256, line, sum(times) AS times,
       sum(times * (verdict = 'refused')) AS refused,
       sum(times * (verdict = 'allowed')) AS allowed,
       sum(times * (verdict NOT IN ('refused', 'allowed'))) AS about_use, ledger, first,
       min(CASE verdict WHEN 'refused' THEN '' ELSE verdict END)
FROM by_line GROUP BY origin, sha256, line;

-- The seconds of a bar of the timeline, which has 72 at most.
CREATE TEMPORARY TABLE scale AS
SELECT coalesce(
    (SELECT min(column1) FROM (
        VALUES (60), (300), (900), (3600), (10800), (21600), (86400), (604800), (2592000)
    ) WHERE span < column1 * 71),
    CAST(span / 71 AS INTEGER) + 1
) AS seconds
FROM (
    SELECT coalesce(max(at) - min(at), 0) AS span
    FROM (SELECT time AS at FROM decision UNION ALL SELECT minute FROM progress)
);

-- What happened when, in bars of equal length.
CREATE TEMPORARY TABLE timeline AS
SELECT start_at, sum(fetched) AS fetched, sum(refused) AS refused, sum(waiting) AS waiting
FROM (
    SELECT bar AS start_at, sum(fetched) AS fetched, sum(refused) AS refused,
           max(waiting) AS waiting
    FROM (
        SELECT ledger, crawl, CAST(minute / seconds AS INTEGER) * seconds AS bar,
               pages AS fetched, 0 AS refused, waiting
        FROM progress JOIN scale
        UNION ALL
        SELECT ledger, crawl, CAST(time / seconds AS INTEGER) * seconds AS bar, 0, count(*), NULL
        FROM decision JOIN scale WHERE page IS NULL AND verdict = 'refused'
        GROUP BY ledger, crawl, bar
    )
    GROUP BY ledger, crawl, bar
)
GROUP BY start_at HAVING fetched OR refused OR waiting ORDER BY start_at;

-- Its bars, each with its place, and the most of all bars.
CREATE TEMPORARY VIEW bar AS
SELECT *, (start_at - min(start_at) OVER ()) / seconds AS place,
       max(fetched + refused) OVER () AS most, max(waiting) OVER () AS most_waiting
FROM timeline JOIN scale ORDER BY start_at;
