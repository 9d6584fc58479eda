"""safely: no exception of learning reaches Scrapy, where it might end the crawl."""

from __future__ import annotations

import logging
from functools import wraps
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from scrapy_urlnorm.exceptions import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

logger = logging.getLogger(__name__)

F = TypeVar("F", bound="Callable[..., Any]")


class Reports(Protocol):
    """Whose methods may be wrapped."""

    def failed(self, what: str, error: Exception) -> None:
        """Log and count that *what* failed."""


def safely(answer: object) -> Callable[[F], F]:
    """Have whatever the method raises logged and counted; return *answer* then."""

    def decorate(method: F) -> F:
        @wraps(method)
        def call(self: Reports, *args: Any, **kwargs: Any) -> Any:
            try:
                return method(self, *args, **kwargs)
            except Exception as error:  # noqa: BLE001 - in Scrapy it might end the crawl
                self.failed(method.__name__, error)
                return answer

        return call  # type: ignore[return-value]

    return decorate


class Failures:
    """Counts what failed, and logs each kind once."""

    def __init__(self, count: Callable[[str], None], extra: Mapping[str, object]) -> None:
        self._count = count
        self._extra = extra  # for the logger
        self._known: set[str] = set()

    def say(self, what: str, error: Exception) -> None:
        """Count and log that *what* failed, and that the request is sent."""
        self._count("learned/errors")
        kind = f"{what} {type(error).__name__}"
        if kind in self._known:
            return
        self._known.add(kind)
        logger.error(
            "Learning failed in %(what)s, the request is sent: %(error)r "
            "(further failures of this kind are only counted)",
            {"what": what, "error": error},
            extra=self._extra,
        )
        if not isinstance(error, StoreError):
            logger.debug("This is where learning failed", exc_info=error)
