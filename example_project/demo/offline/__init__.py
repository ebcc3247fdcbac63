"""The offline site that the project crawls, and the check of what the crawl has done.

A project of yours needs nothing of this.
"""
