"""What a crawl learns while it runs, and which requests it may keep back because of it.

Begin with `witness`: a request is kept back only behind a *witness*, a page that arrived under
another URL with the same learned key. The *own key* of a request follows from what the user
configured; its *learned key* from the rules in force for its site besides. Whatever fails in here
ends in a request being sent.

Talking to Scrapy: `live_rules` is what its components tell and ask; `safely` keeps errors from
them. `frontier` is what `witness` asks of a crawl, and `crawl_frontier` how Scrapy answers.

Learning: `learners` are three. Redirects teach by `scrapy_urlnorm.learning.redirects`; what
robots.txt says is tried in `trials`; equal pages teach by `content`, for which `site_mining`
writes `rows` down and has a process mine them (`mining`). `page_aliases` reads what pages say of
their own other names, and `alias_doubts` has it judged. `in_force` puts rules in force and takes
them back, in the `register`, which makes learned keys with them.

Keeping back: `eligible` says which requests learning may touch. `ledger` is the database of the
pages that arrived and the requests kept back; `pages`, `kept_back` and `rekeying` are what
`witness` does with it; `file_uses` says which rules hold for what is no HTML. `deferral` sends after
all others what is `likely` known.

Testing: `audits` says how many requests are sent all the same, by their kinds (the `strata` of
`scrapy_urlnorm.learning`); `owed` finds those that are due at the end. `open_audits` have no answer
yet; `audit_results` decides, with `comparing`, how each ended.

Telling: `exchange` and `shared_pages` talk to other crawlers at the same store; `learned_file`
keeps the rules for the next crawl; `savings` counts what was saved, `report` says it in words.
"""
