"""What a crawl learns while it runs, and which requests it may keep back because of it.

Begin with `witness`: a request is kept back only behind a *witness*, a page that arrived under
another URL with the same learned key. The *own key* of a request follows from what the user
configured; its *learned key* from the rules in force for its site besides. Whatever fails in here
ends in a request being sent.

`live_rules` is what Scrapy's components talk to. `register` holds the rules in force and makes
learned keys; `eligible` says which requests learning may touch. `ledger` is the database of the
pages that arrived and the requests kept back; `pages`, `kept_back` and `rekeying` are what
`witness` does with it. `page_aliases` reads what pages say of their own other names and finds the page that named a
request; `alias_doubts` has its pattern judged where that was wrong. `audits` says how many requests are sent all the same, to test a rule, and
`audit_results` decides, with `comparing`, how each of them ended. `exchange` and `shared_pages`
talk to other crawlers at the same store; `learned_file` keeps the rules for the next crawl.
`frontier` is what `witness` asks of a crawl, and `crawl_frontier` how Scrapy answers.
"""
