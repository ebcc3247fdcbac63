"""The ledger of a crawl: an SQLite file of robots.txt files and decisions."""
