"""The offline site that the example project crawls, and the judge of the crawl. A project of your own needs
none of these modules.
"""
