"""Fetches robots.txt files, from their servers or a store."""
