"""A conformance suite for parsers of robots.txt, and for readers of indexing rules.

The cases are data in ``cases/*.jsonl``, in the format of ``schema.json``, and do not depend
on scrapy-rep. ``python -m conformance`` runs parsers on them.
"""
