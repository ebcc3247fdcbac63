"""Crawls in a simulated world: weeks of crawling in seconds, each crawl repeatable by its seed.

Scrapy's own engine runs with the add-on, on an event loop whose clock jumps to the next timer
(`loop.py`). Hosts, pages, faults and settings are drawn from a seed (`world.py`). The download
handler and the spider of a process are in `crawl.py`; `faults.py` runs one process, or kills and
resumes a crawl with a JOBDIR, or runs several workers on one queue. `politeness.py` compares what
was sent with what the hosts asked for, and `judge.py` what became of each request.

    python -m tests.simulation SEED ...      tell the stories of seeds, line by line
    python -m tests.simulation --seconds 20  run as many seeds as fit into 20 seconds
    python -m tests.simulation --long        run seeds for ten minutes, on all cores
"""
