"""What a crawl saved, and what became of each request: the record of drops, and the report.

`drops` is written by a running crawl; `job` reads what a crawl left in JOBDIR.
"""
