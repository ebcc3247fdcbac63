"""The offline site that the example project crawls, and the judge that checks the crawl. Your own project does not need
these modules.
"""
