"""A conformance suite for parsers of robots.txt and of indexing rules.

The test cases are data in ``cases/*.jsonl``, in the format of ``schema.json``. The cases do not
depend on scrapy-rep. ``python -m conformance`` runs parsers on the cases.
"""
