"""What a crawl learns while it runs, and what it may keep back because of it.

A request is kept back only behind a *witness*: a page that arrived under another URL with the
same learned key. Whatever fails in here ends in a request being sent.

`register` holds the rules in force and makes learned keys; `ledger` keeps the pages that arrived
and the requests kept back; `audits` says how much is sent all the same, to test a rule;
`witness` decides; `exchange` tells other crawlers; `live_rules` puts it together for Scrapy.
"""
