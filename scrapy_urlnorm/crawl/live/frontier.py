"""Frontier: the questions that `Witnesses` asks of a crawl, and the answers.

The real one is `scrapy_urlnorm.crawl.live.crawl_frontier`; the tests have one without Scrapy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection

    from scrapy import Request

    from scrapy_urlnorm.crawl.live.ledger import Page
    from scrapy_urlnorm.crawl.live.register import Keys
    from scrapy_urlnorm.crawl.merges import Behind, Reason


class Frontier(Protocol):
    """The queue of a crawl, and the requests that left it."""

    #: Whether only this crawl takes requests from its queue.
    has_own_queue: bool

    def under_way(self) -> Collection[Request]:
        """Return the requests that left the queue and have not ended."""

    def pack(self, request: Request) -> bytes:
        """Return *request* as bytes; raises any exception for one that cannot be written."""

    def unpack(self, data: bytes) -> Request | None:
        """Return the request that was packed; ``None`` for one that this run cannot do."""

    def send(self, request: Request) -> None:
        """Put *request* back into the queue, past the dupefilter."""

    def waits_here(self, own: bytes) -> bool:
        """Return whether a request with this own key is, or was, in the queue of this crawl.

        A store that several crawlers share may know the key from another one with a queue of its
        own. That is no promise: the other crawler may die.
        """

    def count(self, stat: str, number: float = 1) -> None:
        """Add *number* to one of the statistics; *stat* is its name after ``urlnorm/``."""

    def withheld(self, own: bytes, url: str, behind: Behind) -> None:
        """Count a request with this own key that is withheld behind a page."""

    def shared_witness(self, keys: Keys) -> Page | None:
        """Return a page that arrived at another crawler of the same frontier."""


class Audit(NamedTuple):
    """A request that could be withheld and is sent all the same, to test the rules."""

    keys: Keys
    witness: Page
    rules: tuple[Reason, ...]
    url: str
    request: Request | None = None  #: as long as it waits in the queue


class Claim(NamedTuple):
    """The request whose page is expected to become the witness of a learned key."""

    own: bytes
    site: str
    request: Request | None  #: ``None`` while it waits in the queue
