"""SeenKeys: the store of one crawl, as its dupefilter and its scheduler use it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from scrapy.exceptions import CloseSpider

from scrapy_urlnorm.crawl.engine import ERROR_REASON
from scrapy_urlnorm.crawl.settings import STORE
from scrapy_urlnorm.exceptions import StoreError, StoreMismatchError

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_urlnorm.stores import Seen

logger = logging.getLogger(__name__)

MISMATCH_REASON = "urlnorm_store_mismatch"  #: why a crawl ended: the keys are of other rules


class SeenKeys:
    """Asks and fills *store*. The first failure of it is logged, counted and ends the crawl.

    After a failure the store is not asked again, and no key counts as seen on its account: a
    request may be fetched twice, but none is lost. *on_failure* ends the crawl; *count* adds one
    to a statistic.
    """

    def __init__(
        self, store: Seen, *, on_failure: Callable[[], None], count: Callable[[str], None]
    ) -> None:
        self.store = store
        self.has_failed = False  #: whether the store has
        self.uncommitted: dict[bytes, None] = {}  #: keys that the store is told of by `commit`
        self._on_failure = on_failure
        self._count = count
        self._waits = False
        self._is_open = False

    def open(self) -> None:
        """Open the store. Raises `CloseSpider` when it cannot be used."""
        if self._is_open:
            return
        try:
            self.store.open()
        except StoreError as error:
            logger.critical(
                "%(setting)s cannot be used, the crawl ends here: %(error)s",
                {"setting": STORE, "error": error},
            )
            is_mismatch = isinstance(error, StoreMismatchError)
            raise CloseSpider(MISMATCH_REASON if is_mismatch else ERROR_REASON) from error
        self._is_open = True

    def close(self) -> None:
        """Close the store; a second time does nothing."""
        if not self._is_open:
            return
        self._is_open = False
        try:
            self.store.close()
        except StoreError as error:
            if not self.has_failed:
                self.has_failed = True
                self._count("urlnorm/store/errors")
                message = "The store (%(setting)s) could not be closed: %(error)s"
                logger.critical(message, {"setting": STORE, "error": error})

    def wait_for_commits(self) -> None:
        """Tell the store of new keys only when `commit` is called, from now on.

        The scheduler first writes the requests to disk, and then their keys go to the store: a
        kill in between repeats a request, never loses it. Not with a store that is shared: other
        crawlers would not know which pages this one takes.
        """
        self._waits = not self.store.is_shared

    def commit(self) -> None:
        """Tell the store of all `uncommitted` keys."""
        keys, self.uncommitted = self.uncommitted, {}
        try:
            self.store.add_many(keys)
        except StoreError as error:
            self._failed(error)

    def knows(self, key: bytes) -> bool:
        """Return whether the store has *key*, or will have it."""
        if key in self.uncommitted:
            return True
        if self.has_failed:
            return False
        try:
            return key in self.store
        except StoreError as error:
            self._failed(error)
            return False

    def add(self, key: bytes) -> bool:
        """Put *key* into the store. Return whether it is new."""
        if self._waits:
            if self.knows(key):
                return False
            self.uncommitted[key] = None
            return True
        if self.has_failed:
            return True  # the crawl is ending; a queue on disk keeps the request for the next run
        try:
            return self.store.add(key)
        except StoreError as error:
            self._failed(error)
            return True

    def _failed(self, error: StoreError) -> None:
        self._count("urlnorm/store/errors")
        self.has_failed = True
        logger.critical(
            "The store (%(setting)s) failed, the crawl ends here: %(error)s",
            {"setting": STORE, "error": error},
        )
        self._on_failure()
