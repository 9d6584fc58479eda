"""safely: no exception of learning reaches Scrapy, where it might end the crawl."""

from __future__ import annotations

import logging
from functools import wraps
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from scrapy_urlnorm.exceptions import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

F = TypeVar("F", bound="Callable[..., Any]")


class Failures:
    """Counts the failures of learning in *crawler*, and logs the first one of each kind."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._kinds: set[str] = set()

    def report(self, what: str, error: Exception) -> None:
        """Count and log that *what* failed with *error*."""
        assert self._crawler.stats is not None
        self._crawler.stats.inc_value("urlnorm/learned/errors")
        kind = f"{what} {type(error).__name__}"
        if kind in self._kinds:
            return
        self._kinds.add(kind)
        logger.error(
            "Learning failed in %(what)s, the request is sent: %(error)r "
            "(further failures of this kind are only counted)",
            {"what": what, "error": error},
            extra={"spider": self._crawler.spider},
        )
        if not isinstance(error, StoreError):
            logger.debug("This is where learning failed", exc_info=error)


class HasFailures(Protocol):
    """Whose methods may be wrapped."""

    failures: Failures


def safely(answer: object) -> Callable[[F], F]:
    """Have whatever the method raises logged and counted; return *answer* then."""

    def decorate(method: F) -> F:
        @wraps(method)
        def call(self: HasFailures, *args: Any, **kwargs: Any) -> Any:
            try:
                return method(self, *args, **kwargs)
            except Exception as error:  # noqa: BLE001 - in Scrapy it might end the crawl
                self.failures.report(method.__name__, error)
                return answer

        return call  # type: ignore[return-value]

    return decorate
