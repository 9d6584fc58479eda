"""Which parameter names to drop: the curated list and what the user says of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from scrapy_urlnorm.rules.query import decode_token

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_CACHED_NAMES = 8_192
_LONG_NAME = 128  # characters
_Answer = TypeVar("_Answer")


def remember(cache: dict[str, _Answer], name: str, answer: _Answer) -> None:
    """Keep *answer* in a cache that no site can make grow: few names, none of them long."""
    if len(name) > _LONG_NAME:
        return
    if len(cache) >= _CACHED_NAMES:
        cache.clear()
    cache[name] = answer


class ParamMatcher:
    """Tell whether a decoded parameter name is to be dropped; whole names only.

    A crawl meets the same few names over and over, so the answers are kept (a bounded number
    of them: a hostile site makes up new names at no cost).
    """

    __slots__ = ("_cache", "_curated", "_excepted", "_names", "_prefixes")

    def __init__(
        self,
        patterns: Iterable[str] = (),
        excepted: Iterable[str] = (),
        curated: Callable[[str], bool] = frozenset[str]().__contains__,
    ) -> None:
        """Take names as users write them, names that stay whatever the others say, and a list.

        ``utm_*`` among the *patterns* stands for every name with that beginning and more.
        """
        patterns = list(patterns)
        self._names = frozenset(name for name in patterns if not name.endswith("*"))
        self._prefixes = tuple(name[:-1] for name in patterns if name.endswith("*"))
        self._excepted = frozenset(excepted)
        self._curated = curated
        self._cache: dict[str, bool] = {}

    def as_written(self, text: str) -> bool:
        """Tell whether the name that *text* encodes is to be dropped."""
        verdict = self._cache.get(text)
        if verdict is None:
            verdict = self(decode_token(text))
            remember(self._cache, text, verdict)
        return verdict

    def __call__(self, name: str) -> bool:
        """Tell whether the decoded *name* is to be dropped."""
        if name in self._excepted:
            return False
        if name in self._names or self._curated(name):
            return True
        return name.startswith(self._prefixes) and name not in self._prefixes
