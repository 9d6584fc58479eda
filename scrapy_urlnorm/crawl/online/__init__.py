"""What a crawl learns while it runs, and which requests it holds because of it.

Every GET has a *fingerprint*, from what the user configured, and a *cluster key*, the fingerprint
after the learned rules of its site (`keys`). The first page that arrives for a cluster key is its
*representative*; requests with that key are *suppressed* behind it, or sent as *audits*. Whatever
fails in here ends in a request being sent.

`learner` is what Scrapy's components tell and ask. `suppression` is the one machine: it decides
what becomes of a request, from the top, each time anything changes. `tables` has the pages that
arrived and the requests that are held, `frontier` is the queue, `requests` says which requests may
be touched. `evidence` is what the miner learns from, `mining` has it mined, and `rules` is the
registry of what came of it: a rule is proposed, active, or retracted. `audits` says which requests
are sent all the same, `verdicts` what their answers say, by the one comparator in `comparison`.
`aliases` are what pages say of their own names. `sharing` talks to other crawlers, `summary` to the
user.

All state is in the database of the crawl, in one transaction with its queue.
"""
