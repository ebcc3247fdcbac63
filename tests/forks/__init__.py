"""Starts Python processes that need not import Scrapy, as they are forked from one that
has.

To import Scrapy and this package takes longer than most test crawls. Each pytest process
has one fork server, which imports them once and forks a child for each crawl or command.
The child runs a module as ``python -m`` does.
"""

from tests.forks.client import Forked, run, start

__all__ = ["Forked", "run", "start"]
