"""Which parameter names to drop: the curated list and what the user says of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from .query import decode_token

if TYPE_CHECKING:
    from collections.abc import Iterable

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

    __slots__ = ("_cache", "exact", "excepted", "folded", "kept", "prefixes")

    def __init__(
        self,
        exact: Iterable[str] = (),
        folded: Iterable[str] = (),
        prefixes: Iterable[str] = (),
        excepted: Iterable[str] = (),
        kept: Iterable[str] = (),
    ) -> None:
        """Take names spelled exactly, names in any case, and beginnings of names in any case.

        *excepted* are names that stay whatever the others say; *kept* are those, in any case,
        that a beginning covers by accident.
        """
        self.exact = frozenset(exact)
        self.folded = frozenset(name.lower() for name in folded)
        self.prefixes = tuple(sorted({prefix.lower() for prefix in prefixes}))
        self.excepted = frozenset(excepted)
        self.kept = frozenset(name.lower() for name in kept)
        self._cache: dict[str, bool] = {}

    @classmethod
    def from_patterns(cls, patterns: Iterable[str]) -> ParamMatcher:
        """Build from names as users write them; ``utm_*`` stands for a beginning."""
        names = list(patterns)
        return cls(
            exact=[name for name in names if not name.endswith("*")],
            prefixes=[name[:-1] for name in names if name.endswith("*")],
        )

    def as_written(self, text: str) -> bool:
        """Tell whether the name that *text* encodes is to be dropped."""
        verdict = self._cache.get(text)
        if verdict is None:
            verdict = self(decode_token(text))
            remember(self._cache, text, verdict)
        return verdict

    def __call__(self, name: str) -> bool:
        if name in self.excepted:
            return False
        if name in self.exact:
            return True
        lowered = name.lower()
        if lowered in self.folded:
            return True
        # A beginning alone ("utm_") is no name of its family.
        return (
            lowered.startswith(self.prefixes)
            and lowered not in self.prefixes
            and lowered not in self.kept
        )
