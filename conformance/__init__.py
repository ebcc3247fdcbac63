"""A conformance suite for parsers of robots.txt, and for readers of indexing rules.

The cases are data, in ``cases/*.jsonl``, and ``schema.json`` says what they look like;
they need nothing of this package. ``python -m conformance`` asks parsers about them.
"""
