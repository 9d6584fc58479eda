"""What a crawl learns while it runs, and which requests it holds because of it.

Every GET has a *fingerprint*, from what the user configured, and a *cluster key*, the fingerprint
after the learned rules of its site (`keys`). The first page that arrives for a cluster key is its
*representative*; requests with that key are *suppressed* behind it, or sent as *audits*. Whatever
fails in here ends in a request being sent.

`learner` is what Scrapy's components tell and ask, and `crawl.frontier` does what it wants done: no
module here knows an engine, an event loop or a clock. What arrives goes one way: `names` and `pairs` settle how a page is called,
`evidence` has it for the miner, `mining` has it mined, and `rules` is the registry of what came of
it: a rule is proposed, active, or retracted; `sharing` is its file, and other crawlers. `keys` are
made with the rules, `tables` has the pages that arrived and the requests that are held.
`suppression` is the one machine: it decides what becomes of a request, from the top, each time
anything changes; `families` says what can wait. `audits` says which requests are sent all the same,
`verdicts` what their answers say, and `closing` what the end of a crawl owes. `aliases` are what pages say of their own names. `summary` talks to the user.

All state is in the database of the crawl, in one transaction with its queue.
"""
