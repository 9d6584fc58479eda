"""What a crawl saved, and what became of each request.

`filtered` writes rows in the database of a running crawl, and answers questions from them.
`figures` counts what a crawl log or a database has, and `page` shows it as HTML.
"""
