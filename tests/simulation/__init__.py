"""Crawls in virtual time: the same seed, the same crawl, with whatever can happen to one.

Only Scrapy's engine and downloader are ours; scheduler, dupefilter, middlewares, database, and miner
are the real ones. ``PYTHONPATH=tests python -m simulation --seeds 2000`` runs many; a failure prints
the smallest plan that still fails, and the command that runs it again.
"""
