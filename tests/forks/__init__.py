"""Python processes that need not load Scrapy first: children of a process that has.

To load Scrapy and this package takes longer than most crawls of the tests. One process,
the fork server, does so once for each pytest process, and forks a child for each crawl or
command, which then runs a module as ``python -m`` does.
"""

from tests.forks.client import Forked, run, start

__all__ = ["Forked", "run", "start"]
