"""Crawls in a simulated world: weeks of crawling in seconds. The same seed, a number, always gives the same crawl.

Each crawl runs Scrapy's own engine with the add-on, on an event loop whose clock jumps to the next timer (`loop.py`).
Hosts, pages, faults and settings are drawn at random from a seed (`world.py`). The other modules:

- `crawl.py` has the download handler, the spider, and `Story`, the record of everything that happened in a crawl.
- `components.py` has downloader middlewares of a project, which disturb the add-on.
- `faults.py` runs the processes of a crawl, and injects the faults.
- `politeness.py` checks that no request was forbidden or sent too early.
- `judge.py` checks everything else, such as the outcome of each request. Its docstring lists all rules.

Usage:

    python -m tests.simulation SEED ...      run these seeds, and print each request and outcome
    python -m tests.simulation --seconds 20  run new seeds for 20 seconds
    python -m tests.simulation --long        run new seeds for ten minutes, on all cores

There are three kinds of worlds: ``plain`` (one process), ``job`` (a crawl with a JOBDIR, which is killed or stopped
and resumed) and ``workers`` (several processes that share a queue on a Redis server, here fakeredis).

These things go wrong in the worlds, apart from bad answers of hosts:

- Processes are killed, stopped or suspended.
- The clock of a process is wrong, a disk is full, the Redis server fails, or the network of the crawler fails.
- Hosts that have answered begin to refuse all connections, as after a ban.
- The project has middlewares that fetch pages themselves, hold requests back, change requests that were already
  allowed, or replace requests and responses.

The same seeds can test another scheduler, because the simulation uses no internal name of the add-on: it passes
settings to a crawl, and judges only what a user or a host can see. The scheduler of another checkout is tested by a run
in that checkout. A scheduler that settings can choose is tested with `--settings`:

    python -m tests.simulation --kinds plain --settings '{"SCHEDULER": "project.Scheduler"}' -- SEED

All crawls get these settings in addition to those that are drawn from the seed. Dictionaries in the settings, such as
`DOWNLOADER_MIDDLEWARES`, are merged. `--kinds plain` skips the seeds whose worlds are of other kinds. Tests can set
the same two options in environment variables (`options.py`).
"""
