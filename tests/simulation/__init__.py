"""Crawls in a simulated world: weeks of crawling in seconds, each crawl repeatable by its seed.

Scrapy's own engine runs with the add-on, on an event loop whose clock jumps to the next timer
(`loop.py`). Hosts, pages, faults and settings are drawn from a seed (`world.py`), the download
handler and the spider of the crawl are in `crawl.py`, and `judge.py` compares what was sent with
what the hosts asked for.

    python -m tests.simulation SEED          tell the story of one seed, line by line
    python -m tests.simulation --seconds 20  run as many seeds as fit into 20 seconds
    python -m tests.simulation --long        run seeds for ten minutes
"""
