"""One bounded dict for answers that are asked for again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_Answer = TypeVar("_Answer")


class BoundedCache(dict[Any, _Answer]):
    """The answers of a function of one argument; ``cache[text]`` asks the function only once.

    A crawl meets the same few names and hosts over and over, so an answer that is here costs one
    look-up in a dict. A hostile site makes up new texts at no cost: a full cache therefore
    forgets everything, and a long text is never kept.

    >>> lengths = BoundedCache(len, most=2, longest=3)
    >>> [lengths[text] for text in ("a", "bb", "cccc", "a")]
    [1, 2, 4, 1]
    >>> sorted(lengths)
    ['a', 'bb']
    """

    __slots__ = ("_function", "_length", "_longest", "_most")

    def __init__(
        self,
        function: Callable[[Any], _Answer],
        *,
        most: int,
        longest: int,
        length: Callable[[Any], int] = len,
    ) -> None:
        """Cache *function* for at most *most* arguments of at most *longest* characters each.

        *length* tells how many characters an argument has that is no text.
        """
        super().__init__()
        self._function = function
        self._most = most
        self._longest = longest
        self._length = length

    def __missing__(self, text: Any) -> _Answer:
        answer = self._function(text)
        if self._length(text) <= self._longest:
            if len(self) >= self._most:
                self.clear()
            self[text] = answer
        return answer
