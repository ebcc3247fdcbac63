"""The pipeline in docs/jobs.md, with which a killed crawl loses no item of a finished page."""

import json
import sqlite3

from itemadapter import ItemAdapter


class DatabasePipeline:
    """Writes each item to the database ITEMS_DATABASE, such as "items.sqlite". The key is the URL of the item."""

    @classmethod
    def from_crawler(cls, crawler):
        return cls(crawler.settings["ITEMS_DATABASE"])

    def __init__(self, path):
        self.db = sqlite3.connect(path, isolation_level=None)  # Autocommit mode.
        self.db.execute("CREATE TABLE IF NOT EXISTS items (url TEXT PRIMARY KEY, item)")

    def process_item(self, item):
        row = ItemAdapter(item).asdict()
        self.db.execute(
            "REPLACE INTO items VALUES (?, ?)", (row["url"], json.dumps(row))
        )
        return item
