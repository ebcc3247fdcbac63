"""Crawls in a simulated world: weeks of crawling in seconds. Each crawl can be repeated from its seed.

Each crawl runs Scrapy's own engine with the add-on, on an event loop whose clock jumps to the next timer (`loop.py`).
Hosts, pages, faults and settings are drawn at random from a seed (`world.py`). The other modules:

- `crawl.py` has the download handler and the spider, and `Story`, the record of everything that happened in a crawl.
- `components.py` has the downloader middlewares that a project might have in addition.
- `faults.py` runs the processes of a crawl, and injects the faults.
- `politeness.py` compares when each request was sent with what its host allows and asks for.
- `judge.py` compares the outcome of each request with the answers of the hosts. Its docstring lists all rules.

Usage:

    python -m tests.simulation SEED ...      print the stories of these seeds, line by line
    python -m tests.simulation --seconds 20  run as many seeds as fit into 20 seconds
    python -m tests.simulation --long        run seeds for ten minutes, on all cores

There are three kinds of worlds: ``plain`` (one process), ``job`` (a crawl with a JOBDIR, which is killed or stopped
and resumed) and ``workers`` (several processes that share a queue on a Redis server, here fakeredis).

These things go wrong in the worlds, apart from bad answers of hosts:

- Processes are killed, stopped or suspended.
- A clock is set, a disk is full, the server fails, or the network fails.
- Hosts refuse all connections from some time on, after they have answered.
- The project has middlewares that fetch pages themselves, hold requests back, change requests that were already
  allowed, or replace requests and responses.

The simulation uses no internal name of the frontier. It passes settings to a crawl, and judges only what a user or a
server can see. So the same seeds can test any frontier. The frontier of another checkout is tested by a run in that
checkout. A frontier that settings can choose is tested with `--settings`:

    python -m tests.simulation --kinds plain --settings '{"SCHEDULER": "project.Scheduler"}' -- SEED

All crawls get these settings in addition to those that are drawn from the seed. Dictionaries, such as those of
components, are merged. `--kinds` skips the seeds whose worlds are of other kinds. For tests, both options are also
environment variables (`options.py`).
"""
