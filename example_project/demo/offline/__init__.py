"""The offline site that the project crawls, and the check of what the crawl has done.

Your own project needs nothing of this.
"""
