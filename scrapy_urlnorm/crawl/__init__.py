"""The Scrapy side: the components that stand between a spider and the pages that it asks for.

Of the engine of Scrapy only this folder knows. `addon` puts all components in their places; `settings`
reads every setting; `components` is how they find one another.
Then follow a request: `fingerprinter` makes its key, `dupefilter` asks whether the key was seen,
`scheduler` holds the request until it is sent (its docstring shows the whole way), `middleware` sees
it leave and its redirects come back. `online/` is what a running crawl learns and holds.
"""
