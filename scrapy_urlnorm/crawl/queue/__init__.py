"""The queue of waiting requests: a killed crawl resumes with it.

The life of one request in a crawl with JOBDIR. The right column is what the database
(`pending.PendingRequests`, the file ``urlnorm.pending``) holds at each step::

    spider yields a link
        |
    fingerprint             crawl/fingerprinter    nothing yet
        |
    dupefilter              crawl/dupefilter       nothing yet: a key that is new waits in
        |  (seen: dropped)                         memory (`SeenKeys.uncommitted`)
        |
    queue                   queue/queues           the request, in `request`
        |
    next commit             queue/scheduler        the request, and its key in `key`; only now
        |                                          the store is told of the key
        |
    leaves the queue        queue/scheduler        the request still, marked in memory as
        |  (a learned rule may keep it back:       `handed_out`
        |   then it moves to `withheld`)
        |
    downloader, callback    Scrapy                 the same; new links of the callback go
        |                                          through all of this
        |
    done                    queue/scheduler        its row is deleted in the transaction that
                                                   has the links its callback found

    store written to disk   queue/scheduler        the keys are deleted: the store has them

So after a kill at any moment the next run finds every request that was not done. What was being
downloaded or handled is fetched again. The keys in `key` are put into the store again, which may
have lost its last seconds. A store that other crawlers share is told of each key at once: they
have to know which pages this crawler takes.

Without JOBDIR the queue is Scrapy's own, in memory. Many crawlers on one queue in Redis use
`shared_scheduler`, where the same holds for each crawler that dies.
"""
