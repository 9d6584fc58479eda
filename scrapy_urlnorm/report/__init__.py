"""What a crawl saved, and what became of each request: the record of drops, and the report.

`drops` is written by a running crawl; `job` reads what a crawl left in JOBDIR, `credit` names the
rules between two URLs. A report is made in two steps that know nothing of one another: `gather`
turns a crawl log (counted by `rows`) or a record into `figures`, and `page` turns these into HTML,
with `plots`.
"""
