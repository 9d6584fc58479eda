"""One bounded dict for answers that are asked for again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_Answer = TypeVar("_Answer")


class BoundedCache(dict[str, _Answer]):
    """The answers of a function of one text; ``cache[text]`` asks the function only once.

    A crawl meets the same few names and hosts over and over, so an answer that is here costs one
    look-up in a dict. A hostile site makes up new texts at no cost: a full cache therefore
    forgets everything, and a long text is never kept.

    >>> lengths = BoundedCache(len, most=2, longest=3)
    >>> [lengths[text] for text in ("a", "bb", "cccc", "a")]
    [1, 2, 4, 1]
    >>> sorted(lengths)
    ['a', 'bb']
    """

    __slots__ = ("_function", "_longest", "_most")

    def __init__(self, function: Callable[[str], _Answer], *, most: int, longest: int) -> None:
        """Cache *function* for at most *most* texts of at most *longest* characters each."""
        super().__init__()
        self._function = function
        self._most = most
        self._longest = longest

    def __missing__(self, text: str) -> _Answer:
        answer = self._function(text)
        if len(text) <= self._longest:
            if len(self) >= self._most:
                self.clear()
            self[text] = answer
        return answer
