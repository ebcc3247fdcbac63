-- What a report shows. These tables and views are made from three others, which have the rows
-- of all ledgers: "snapshot", "body" and "decision". Their rows have the number of the
-- ledger; a decision has the hash of the robots.txt that decided too, and its age at that
-- time. The table "limits" has one row: the most hosts, robots.txt files and other rows to
-- show. The column "of_all" counts what there is without a limit. What others are made from
-- is a table, so that SQLite needs no memory for it at the same time.

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

-- The requests of each crawl that were let through. A ledger with only refusals has one
-- such row for each host that an override decided on.
CREATE TEMPORARY VIEW let_through AS
SELECT ledger, crawl, sum(times * (layer = 'robots.txt')) AS by_robotstxt,
       sum(times * (layer = 'override')) AS by_override
FROM tally WHERE verdict = 'allowed' AND NOT of_page GROUP BY ledger, crawl;

-- Sorted so that each robots.txt is parsed once.
CREATE TEMPORARY VIEW to_check AS
SELECT ledger, sha256, crawl, agent, url FROM decision
WHERE verdict = 'allowed' AND layer = 'robots.txt' AND sha256 IS NOT NULL
ORDER BY ledger, sha256, crawl;

CREATE TEMPORARY VIEW outcome AS
SELECT layer, verdict, reason, sum(times) AS times FROM tally
GROUP BY layer, verdict, reason ORDER BY layer, times DESC, verdict, reason;

CREATE TEMPORARY VIEW answer AS
SELECT access, status, CASE WHEN status IS NULL THEN substr(error, 1, 200) END AS why,
       count(*) AS times, count(DISTINCT origin) AS hosts, sum(count(*)) OVER () AS of_all
FROM snapshot GROUP BY access, status, why
ORDER BY times DESC, access, status, why LIMIT 20;

-- The origin of a URL with an invalid host is empty.
CREATE TEMPORARY VIEW met AS
SELECT origin FROM tally WHERE origin != '' UNION SELECT origin FROM snapshot;

-- Arrived: refused, but a redirect or a script had already led a browser there.
CREATE TEMPORARY VIEW total AS
SELECT (SELECT count(*) FROM met) AS hosts,
       count(DISTINCT CASE access WHEN 'unavailable' THEN origin END) AS without,
       count(DISTINCT CASE access WHEN 'unreachable' THEN origin END) AS unreachable,
       (SELECT coalesce(sum(arrived), 0) FROM tally WHERE verdict = 'refused') AS arrived
FROM snapshot;

-- SQLite takes the other columns from the row with the maximum.
CREATE TEMPORARY TABLE latest AS
SELECT ledger, crawl, origin, access, status, error, copy_of, sha256, max(fetched)
FROM snapshot GROUP BY origin;

-- The shortest time between two requests, which are sent when they are allowed. Requests
-- that an override let through are left out: the site's delay does not apply. The crawls
-- of several ledgers may be workers that share a delay.
CREATE TEMPORARY TABLE gap AS
SELECT origin, min(seconds) AS gap FROM (
    SELECT origin, time - lag(time) OVER (PARTITION BY origin ORDER BY time) AS seconds
    FROM decision WHERE verdict = 'allowed' AND layer = 'robots.txt' AND page IS NULL
) GROUP BY origin;

CREATE TEMPORARY TABLE host AS
SELECT most.*, ledger, crawl, access, status, error, copy_of, sha256, gap,
       file.number AS file, judged.number AS judged
FROM (
    SELECT met.origin AS origin,
           coalesce(sum(times * (verdict = 'refused')), 0) AS refused,
           coalesce(sum(times * (verdict = 'dropped')), 0) AS dropped,
           coalesce(sum(times), 0) AS decided, max(age) AS age
    FROM met LEFT JOIN tally USING (origin) GROUP BY met.origin
    ORDER BY refused DESC, dropped DESC, decided DESC, 1 LIMIT (SELECT hosts FROM limits)
) AS most
LEFT JOIN latest USING (origin) LEFT JOIN gap USING (origin)
LEFT JOIN file USING (origin) LEFT JOIN judged USING (origin)
ORDER BY most.refused DESC, dropped DESC, decided DESC, most.origin;

-- The rules that refused, of each host.
CREATE TEMPORARY VIEW rule AS
SELECT origin, coalesce(statement, '') AS statement, sum(times) AS refused
FROM by_line WHERE verdict = 'refused' GROUP BY origin, statement
ORDER BY refused DESC, min(line);

CREATE TEMPORARY VIEW judged_url AS
SELECT * FROM (
    SELECT *, count(*) OVER (PARTITION BY number) AS urls, row_number() OVER (
        PARTITION BY number ORDER BY layer = 'override', times DESC, ledger, first
    ) AS place
    FROM (
        SELECT number, origin, refused, overridden, url, verdict, layer, reason, line,
               statement, count(*) AS times, ledger, min(id) AS first
        FROM decision JOIN judged USING (origin)
        WHERE verdict = 'refused' OR layer = 'override'
        GROUP BY number, url, verdict, layer, reason
    )
)
WHERE place <= 20 ORDER BY number, place;

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
    ) WHERE place <= 20
) WHERE number <= (SELECT others FROM limits) ORDER BY number, place;

CREATE TEMPORARY VIEW outage AS
SELECT origin, times, first, last, status, error, copy, recovered,
       coalesce(given_up, 0) AS given_up, count(*) OVER () AS of_all
FROM (
    SELECT origin, count(*) AS times, min(fetched) AS first, max(copy_of) AS copy
    FROM snapshot WHERE access = 'unreachable' GROUP BY origin
) JOIN (
    SELECT origin, status, substr(error, 1, 500) AS error, max(fetched) AS last
    FROM snapshot WHERE access = 'unreachable' GROUP BY origin
) USING (origin) JOIN (
    SELECT origin, access != 'unreachable' AS recovered FROM latest
) USING (origin) LEFT JOIN (
    SELECT origin, sum(times) AS given_up FROM tally
    WHERE verdict = 'refused' AND reason = 'unreachable' GROUP BY origin
) USING (origin)
ORDER BY given_up DESC, times DESC, origin LIMIT (SELECT others FROM limits);

-- The hosts that asked for a pause, with the shortest time from such an answer to the next
-- request. Ledgers of refusals do not have that time.
CREATE TEMPORARY VIEW pause AS
SELECT origin, times, statement, resumed, coalesce(refused, 0) AS refused,
       count(*) OVER () AS of_all
FROM (
    SELECT origin, sum(is_pause) AS times, max(statement) FILTER (WHERE is_pause) AS statement,
           min(resumes - time) FILTER (WHERE is_pause) AS resumed
    FROM (
        SELECT origin, time, statement, verdict = 'noted' AS is_pause,
               min(CASE verdict WHEN 'allowed' THEN time END) OVER (
                   PARTITION BY origin ORDER BY time
                   ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
               ) AS resumes
        FROM decision
        WHERE ((verdict = 'noted' AND reason = 'back-off') OR verdict = 'allowed')
              AND page IS NULL
              AND origin IN (SELECT origin FROM tally WHERE reason = 'back-off')
    ) GROUP BY origin
) LEFT JOIN (
    SELECT origin, sum(times) AS refused FROM tally
    WHERE verdict = 'refused' AND reason = 'back-off' GROUP BY origin
) USING (origin)
ORDER BY refused DESC, times DESC, origin LIMIT (SELECT others FROM limits);

CREATE TEMPORARY VIEW overridden AS
SELECT reason, statement, verdict, sum(times) AS times, count(DISTINCT origin) AS hosts,
       count(*) OVER () AS of_all
FROM tally WHERE layer = 'override' GROUP BY reason, statement, verdict
ORDER BY times DESC, reason, statement LIMIT (SELECT others FROM limits);

-- The versions of each robots.txt that is shown, the latest first.
CREATE TEMPORARY VIEW version AS
SELECT file.*, found.* FROM file JOIN (
    SELECT origin AS host, ledger, crawl, sha256, url, redirects,
           min(coalesce(copy_of, fetched)) AS first,
           max(coalesce(copy_of, fetched)) AS last, max(copy_of) AS copy_of
    FROM snapshot WHERE sha256 IS NOT NULL AND origin IN (SELECT origin FROM file)
    GROUP BY origin, sha256
) AS found ON origin = host
ORDER BY number, last DESC;

-- The lines that decided, of each version. The first decision is a refusal if there is one.
CREATE TEMPORARY VIEW mark AS
SELECT origin, sha256, line, sum(times) AS times,
       sum(times * (verdict = 'refused')) AS refused,
       sum(times * (verdict = 'allowed')) AS allowed,
       sum(times * (verdict NOT IN ('refused', 'allowed'))) AS about_use, ledger, first,
       min(CASE verdict WHEN 'refused' THEN '' ELSE verdict END)
FROM by_line GROUP BY origin, sha256, line;
