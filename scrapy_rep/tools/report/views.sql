-- The tables and views of a report. They use the tables and views of a ledger (crawl/ledger/tables.sql),
-- which here contain the rows of all ledgers. The table "limits" has a single row with the maximum numbers of
-- hosts, robots.txt files, other rows and URLs of a host to show. A column whose name ends with "_at" is a time.
-- Results that several views use are tables, so that SQLite computes them once, and not all at the same time.

-- ledgers.py fills these two tables from the latest robots.txt of each host. "asked" contains the delay that the
-- file states for the crawler. "named" contains the AI crawlers that the file names, and how much the file
-- forbids to them.
CREATE TABLE asked (origin, delay, PRIMARY KEY (origin));
CREATE TABLE named (origin, crawler, operator, purpose, forbids, line);

CREATE INDEX tally_origin ON tally (origin);
CREATE INDEX hosts_origin ON hosts (origin);

-- The decisions that a line of a robots.txt caused.
CREATE VIEW by_line AS
SELECT * FROM tally WHERE layer IN ('robots.txt', 'usage') AND line > 0;

-- The robots.txt files to show: those with the most decisions.
CREATE TABLE file AS
SELECT row_number() OVER (ORDER BY coalesce(decided, 0) DESC, origin) AS number, origin,
       coalesce(refused, 0) AS refused, coalesce(allowed, 0) AS allowed,
       count(*) OVER () AS of_all
FROM (SELECT DISTINCT origin FROM snapshot WHERE sha256 IS NOT NULL) LEFT JOIN (
    SELECT origin, sum(times) AS decided, sum(times * (verdict = 'refused')) AS refused,
           sum(times * (verdict = 'allowed')) AS allowed
    FROM by_line GROUP BY origin
) USING (origin)
ORDER BY number LIMIT (SELECT files FROM limits);

-- The hosts for which the report lists URLs: the hosts with the most refused requests.
CREATE TABLE judged AS
SELECT row_number() OVER (ORDER BY refused DESC, origin) AS number, *,
       count(*) OVER () AS of_all
FROM (
    SELECT origin, sum(times * (layer != 'override')) AS refused,
           sum(times * (layer = 'override')) AS overridden
    FROM tally WHERE verdict = 'refused' OR layer = 'override' GROUP BY origin
)
ORDER BY number LIMIT (SELECT others FROM limits);

-- The requests that the report judges again, sorted so that each robots.txt is parsed only once.
CREATE VIEW to_check AS
SELECT sha256, decision.crawl AS crawl, agent, decision.url AS url
FROM decision JOIN snapshot ON snapshot.id = decision.snapshot
WHERE verdict = 'allowed' AND layer = 'robots.txt' AND sha256 IS NOT NULL
ORDER BY sha256, decision.crawl;

CREATE VIEW latest_file AS
SELECT origin, sha256, crawl FROM latest_robotstxt WHERE sha256 IS NOT NULL ORDER BY sha256;

CREATE VIEW let_through AS
SELECT crawl, layer = 'override' AS by_override, sum(times) AS times FROM tally
WHERE verdict = 'allowed' AND subject = 'request' GROUP BY crawl, by_override;

CREATE VIEW total AS
SELECT coalesce(sum(arrived * (verdict = 'refused')), 0) AS arrived,
       (SELECT coalesce(sum(pages), 0) FROM hosts) AS pages,
       (SELECT count(*) FROM hosts) AS hosts,
       (SELECT count(DISTINCT origin) FROM snapshot WHERE access = 'unavailable') AS without,
       (SELECT count(DISTINCT origin) FROM snapshot WHERE access = 'unreachable')
       AS unreachable,
       (SELECT count(DISTINCT origin) FROM snapshot WHERE is_page) AS pages_for_robotstxt,
       coalesce(sum(times * (verdict = 'refused')), 0) AS refused,
       coalesce(sum(times * (verdict = 'dropped')), 0) AS dropped,
       coalesce(sum(times * (verdict = 'annotated')), 0) AS annotated
FROM tally;

CREATE VIEW outcome AS
SELECT layer, verdict, reason, sum(times) AS times FROM tally
GROUP BY layer, verdict, reason
ORDER BY sum(sum(times)) OVER (PARTITION BY layer) DESC, layer, times DESC, verdict, reason;

CREATE VIEW answer AS
SELECT access, status, CASE WHEN status IS NULL THEN substr(error, 1, 200) END AS why,
       count(*) AS times, count(DISTINCT origin) AS hosts, sum(count(*)) OVER () AS of_all
FROM snapshot GROUP BY access, status, why
ORDER BY times DESC, access, status, why LIMIT (SELECT urls FROM limits);

CREATE VIEW fetched AS
SELECT origin, day, sum(pages_by_day.pages) AS pages, sum(pages_by_day.bytes) AS bytes,
       hosts.pages AS pages_of_host
FROM pages_by_day JOIN hosts USING (origin) GROUP BY origin, day
ORDER BY pages_of_host DESC, origin, day;

CREATE VIEW moved_in_all AS
SELECT coalesce(sum(pages), 0) AS pages, coalesce(sum(bytes), 0) AS bytes,
       count(CASE WHEN pages > 0 THEN 1 END) AS hosts,
       (SELECT count(DISTINCT date(minute, 'unixepoch')) FROM minutes WHERE pages > 0) AS days
FROM hosts;

-- The hosts with a delay. "asked" is the delay in the latest robots.txt of the host. "gap" is the time from an
-- answer of the host to the next request, and "delay" is the delay that applied to this request. Of all requests to
-- the host, the request with the smallest ratio of the two is chosen. "kept" is NULL if no request had to keep to a
-- delay. Times are rounded, so a gap can seem to be a millisecond too short.
CREATE VIEW delay AS
SELECT origin, asked.delay AS asked, waited.asked AS delay, gap, round(ratio, 4) AS ratio,
       CASE WHEN waited.asked IS NOT NULL THEN gap IS NULL OR gap >= waited.asked - 0.001 END
       AS kept
FROM (
    SELECT origin FROM asked WHERE delay > 0
    UNION SELECT origin FROM shortest_gaps WHERE kind = 'delay'
) LEFT JOIN asked USING (origin)
LEFT JOIN (SELECT * FROM shortest_gaps WHERE kind = 'delay') AS waited USING (origin)
ORDER BY kept IS NULL, kept, ratio IS NULL, ratio, origin;

CREATE VIEW delays_in_all AS
SELECT count(*) AS asking, count(kept) AS known, coalesce(sum(kept), 0) AS kept FROM delay;

-- The hosts at which the crawl takes longest: the number of pages times the delay.
CREATE VIEW slow AS
SELECT origin, pages, delay, pages * delay AS seconds
FROM delay JOIN hosts USING (origin) WHERE pages > 0 AND delay IS NOT NULL
ORDER BY seconds DESC, origin;

-- The hosts that asked for a pause, and the shortest time from a 429 or 503 to the next request.
CREATE VIEW pause AS
SELECT origin, times, statement, asked AS pause, gap AS resumed,
       CASE WHEN asked IS NOT NULL THEN gap IS NULL OR gap >= asked - 0.001 END AS kept, refused
FROM (
    SELECT origin, sum(times * (verdict = 'noted')) AS times,
           max(statement) FILTER (WHERE verdict = 'noted') AS statement,
           sum(times * (verdict = 'refused')) AS refused
    FROM tally WHERE reason = 'back-off' AND subject = 'request' GROUP BY origin
) LEFT JOIN (SELECT * FROM shortest_gaps WHERE kind = 'pause') USING (origin)
ORDER BY kept IS NULL, kept, refused DESC, times DESC, origin;

CREATE VIEW pauses_in_all AS
SELECT count(*) AS hosts, coalesce(sum(times), 0) AS times, count(kept) AS known,
       coalesce(sum(kept), 0) AS kept,
       (SELECT coalesce(max(asked), 0) FROM gap WHERE kind = 'pause') AS longest
FROM pause;

CREATE VIEW host AS
SELECT hosts.*, asked.delay AS delay, waited.gap AS gap,
       file.number AS file, judged.number AS judged
FROM hosts LEFT JOIN asked USING (origin)
LEFT JOIN (SELECT * FROM shortest_gaps WHERE kind = 'delay') AS waited USING (origin)
LEFT JOIN file USING (origin) LEFT JOIN judged USING (origin)
ORDER BY hosts.refused DESC, dropped DESC, decided DESC, origin;

-- The AI crawlers that robots.txt files name, and how much is forbidden to them.
CREATE VIEW ai_crawler AS
SELECT named.*, file.number AS file
FROM named LEFT JOIN file USING (origin)
WHERE origin IN (
    SELECT origin FROM named GROUP BY origin
    ORDER BY sum(forbids = 'everything') DESC, count(*) DESC, origin
    LIMIT (SELECT others FROM limits)
)
WINDOW of_host AS (PARTITION BY origin)
ORDER BY sum(forbids = 'everything') OVER of_host DESC, count(*) OVER of_host DESC, origin,
         forbids, crawler;

CREATE VIEW ai_crawlers_in_all AS
SELECT count(DISTINCT origin) AS hosts,
       count(DISTINCT CASE WHEN forbids LIKE 'everything%' THEN origin END) AS closing
FROM named;

-- The rules of each host that refused requests.
CREATE VIEW rule AS
SELECT origin, coalesce(statement, '') AS statement, sum(times) AS refused
FROM by_line WHERE verdict = 'refused' GROUP BY origin, statement
ORDER BY refused DESC, min(line);

CREATE VIEW judged_url AS
SELECT * FROM (
    SELECT *, count(*) OVER (PARTITION BY number) AS urls_of_host, row_number() OVER (
        PARTITION BY number ORDER BY layer = 'override', times DESC, first
    ) AS place
    FROM (
        SELECT number, origin, refused AS refused_of_host,
               overridden AS overridden_of_host, url, verdict, layer, reason, line,
               statement, count(*) AS times, min(id) AS first
        FROM decision JOIN judged USING (origin)
        WHERE verdict = 'refused' OR layer = 'override'
        GROUP BY number, url, verdict, layer, reason
    )
)
WHERE place <= (SELECT urls FROM limits) ORDER BY number, place;

-- The statements about each purpose. Those that had an effect come before those that were only noted.
CREATE VIEW purpose AS
SELECT origin, reason AS purpose, verdict, source, statement, line, sum(times) AS times,
       min(example) AS example, number AS file
FROM tally LEFT JOIN file USING (origin) WHERE layer = 'usage'
GROUP BY origin, purpose, verdict, source, statement, line
ORDER BY verdict = 'noted', times DESC, origin, purpose, statement;

-- The hosts that were treated as having no robots.txt, grouped by the reason. If the reason of a host changed, only
-- the last reason counts.
CREATE VIEW without AS
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

-- The hosts with an unreachable robots.txt. "status" and "error" are those of the last failed fetch:
-- with max(), SQLite takes the other columns from the row with the maximum.
CREATE VIEW outage AS
SELECT failed.origin AS origin, times, first_at, last_at, failed.status AS status,
       failed.error AS error, copy_at, hosts.access != 'unreachable' AS recovered,
       coalesce(given_up, 0) AS given_up
FROM (
    SELECT origin, count(*) AS times, min(fetched) AS first_at, max(copy_of) AS copy_at
    FROM snapshot WHERE access = 'unreachable' GROUP BY origin
) JOIN (
    SELECT origin, status, substr(error, 1, 500) AS error, max(fetched) AS last_at
    FROM snapshot WHERE access = 'unreachable' GROUP BY origin
) AS failed USING (origin) LEFT JOIN hosts USING (origin) LEFT JOIN (
    SELECT origin, sum(times) AS given_up FROM tally
    WHERE verdict = 'refused' AND reason = 'unreachable' GROUP BY origin
) USING (origin)
ORDER BY given_up DESC, times DESC, origin;

CREATE VIEW overridden AS
SELECT reason, statement, verdict, sum(times) AS times, count(DISTINCT origin) AS hosts
FROM tally WHERE layer = 'override' GROUP BY reason, statement, verdict
ORDER BY times DESC, reason, statement;

-- The versions of each robots.txt to show, the latest version first.
CREATE VIEW version AS
SELECT file.*, found.* FROM file JOIN (
    SELECT origin AS host, crawl, sha256, url, redirects,
           min(coalesce(copy_of, fetched)) AS first,
           max(coalesce(copy_of, fetched)) AS last, max(copy_of) AS copy_of
    FROM snapshot WHERE sha256 IS NOT NULL AND origin IN (SELECT origin FROM file)
    GROUP BY origin, sha256
) AS found ON origin = host
ORDER BY number, last DESC;

-- The lines on which decisions are based, for each version of a robots.txt. With min(), SQLite takes "example" from a
-- row with the smallest value, which is a refusal if the line caused one.
CREATE VIEW mark AS
SELECT origin, sha256, line, sum(times) AS times,
       sum(times * (verdict = 'refused')) AS refused,
       sum(times * (verdict = 'allowed')) AS allowed,
       sum(times * (verdict NOT IN ('refused', 'allowed'))) AS about_use, example,
       min(CASE verdict WHEN 'refused' THEN '' ELSE verdict END)
FROM by_line GROUP BY origin, sha256, line;

-- The length in seconds of a bar of the timeline, chosen so that it has at most 72 bars.
CREATE TABLE scale AS
SELECT coalesce(
    (SELECT min(column1) FROM (
        VALUES (60), (300), (900), (3600), (10800), (21600), (86400), (604800), (2592000)
    ) WHERE span < column1 * 71),
    CAST(span / 71 AS INTEGER) + 1
) AS seconds
FROM (SELECT coalesce(max(minute) - min(minute), 0) AS span FROM minutes);

-- The requests over time, in bars of equal length.
CREATE VIEW timeline AS
SELECT start_at, sum(fetched) AS fetched, sum(refused) AS refused, sum(waiting) AS waiting
FROM (
    SELECT crawl, minute / seconds * seconds AS start_at, sum(pages) AS fetched,
           sum(refused) AS refused, max(waiting) AS waiting
    FROM minutes JOIN scale GROUP BY crawl, start_at
)
GROUP BY start_at HAVING fetched OR refused OR waiting ORDER BY start_at;

-- The bars of the timeline. Each row contains the index of its bar ("place"), and the largest numbers of all bars.
CREATE VIEW bar AS
SELECT *, (start_at - min(start_at) OVER ()) / seconds AS place,
       max(fetched + refused) OVER () AS most, max(waiting) OVER () AS most_waiting
FROM timeline JOIN scale ORDER BY start_at;
