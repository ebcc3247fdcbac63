"""Fetching: brings robots.txt files from their servers or a store to the crawl."""
