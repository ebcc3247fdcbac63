"""The offline site that the example project crawls, and the modules that check the crawl and print its results. Your
own project does not need these modules.
"""
