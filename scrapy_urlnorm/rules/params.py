"""Which parameter names to drop: those of the curated list, and those of the user."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_urlnorm.caches import BoundedCache
from scrapy_urlnorm.rules.escapes import decode_token

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: Bounds of the caches by parameter name: how many names, and the characters of one.
MOST_NAMES, LONGEST_NAME = 8_192, 128


class ParamMatcher:
    """Tell whether a decoded parameter name is to be dropped; whole names only.

    ``as_written[text]`` tells it of the name that *text* encodes.
    """

    __slots__ = ("_curated", "_excepted", "_names", "_prefixes", "as_written")

    def __init__(
        self,
        patterns: Iterable[str] = (),
        excepted: Iterable[str] = (),
        curated: Callable[[str], bool] = frozenset[str]().__contains__,
    ) -> None:
        """Drop the names of *patterns* and those that *curated* knows, but never one *excepted*.

        ``utm_*`` among the *patterns* stands for every name that begins so and goes on.
        """
        patterns = list(patterns)
        self._names = frozenset(name for name in patterns if not name.endswith("*"))
        self._prefixes = tuple(name[:-1] for name in patterns if name.endswith("*"))
        self._excepted = frozenset(excepted)
        self._curated = curated
        self.as_written = BoundedCache(
            lambda text: self(decode_token(text)), most=MOST_NAMES, longest=LONGEST_NAME
        )

    def __call__(self, name: str) -> bool:
        """Tell whether the decoded *name* is to be dropped."""
        if name in self._excepted:
            return False
        if name in self._names or self._curated(name):
            return True
        return name.startswith(self._prefixes) and name not in self._prefixes
