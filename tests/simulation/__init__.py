"""Crawls in a simulated world: weeks of crawling in seconds, each crawl repeatable by its seed.

Scrapy's own engine runs with the add-on, on an event loop whose clock jumps to the next timer
(`loop.py`). Hosts, pages, faults and settings are drawn from a seed (`world.py`). The download
handler and the spider of a process are in `crawl.py`, the middlewares of the project in `components.py`;
`faults.py` runs one process, or kills and resumes a crawl with a JOBDIR, or runs several workers on one
queue. `politeness.py` compares what was sent with what the hosts asked for, and `judge.py`, whose
docstring has the rules, what became of each request.

    python -m tests.simulation SEED ...      tell the stories of seeds, line by line
    python -m tests.simulation --seconds 20  run as many seeds as fit into 20 seconds
    python -m tests.simulation --long        run seeds for ten minutes, on all cores

A world is of one of three kinds: ``plain`` (one process), ``job`` (a JOBDIR) and ``workers`` (a queue on a Redis
server, fakeredis, which several processes share). Apart from what hosts answer, processes are killed, stopped
or stand still, clocks, disk, server or network fail, hosts that answered refuse all connections from a moment
on, and the project has middlewares that fetch pages by themselves, hold requests back, change them after they were
judged, or replace requests and responses.

Nothing here knows a name inside of the frontier: it gets settings, and is judged by what a user or a
server sees. So the same seeds run with any frontier. One in a checkout runs from that checkout, one
that settings choose with these:

    python -m tests.simulation --kinds plain --settings '{"SCHEDULER": "project.Scheduler"}' -- SEED

All crawls have the settings in addition to those that the seed draws; dictionaries, as those of
components, are merged. `--kinds` skips the seeds of worlds of other kinds. Both are environment variables too, for
tests: `options.py`.
"""
