"""A file of what was asked, and what was decided, in a crawl: written, and read."""
