"""The extension that records the decisions of a crawl in a ledger."""
