"""What a crawl saved, and what became of each request: rows in its database, and the report.

`filtered` is written by a running crawl, `job` answers questions from the database, `credit` names
the rules between two URLs. A report is made in two steps that know nothing of one another: `gather`
turns a crawl log (counted by `rows`) or a job into `figures`, and `page` turns these into HTML, with
`plots`.
"""
