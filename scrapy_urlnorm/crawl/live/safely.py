"""safely: no exception of learning reaches Scrapy, where it might end the crawl."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

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
