"""What is kept in memory: answers that are asked for again and again; many objects that stay."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_Answer = TypeVar("_Answer")


class BoundedCache(dict[Any, _Answer]):
    """The answers of a function of one argument; ``cache[text]`` asks the function only once.

    A crawl meets the same few names and hosts over and over, so an answer that is here costs one
    look-up in a dict. A hostile site makes up new texts at no cost: a long text is never kept, and
    of many only the newest. When half of the room is full, it becomes the old half, and what was
    old is forgotten, but for what was asked for since. So new texts never drive out the answers
    that a crawl needs all the time.

    >>> lengths = BoundedCache(len, most=4, longest=3)
    >>> [lengths[text] for text in ("a", "bb", "cccc", "a", "c")]
    [1, 2, 4, 1, 1]
    >>> sorted(lengths), sorted(lengths.old)
    (['c'], ['a', 'bb'])
    """

    __slots__ = ("_function", "_half", "_length", "_longest", "old")

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
        self._function, self._length = function, length
        self._half, self._longest = max(most // 2, 1), longest
        #: The older half. What is asked for again moves back.
        self.old: dict[Any, _Answer] = {}

    def __missing__(self, text: Any) -> _Answer:
        old = self.old
        if text in old:
            answer = old[text]
        else:
            answer = self._function(text)
            if self._length(text) > self._longest:
                return answer
        if len(self) >= self._half:
            self.old = self.copy()
            self.clear()
        self[text] = answer
        return answer


@contextmanager
def no_collection() -> Iterator[None]:
    """Keep Python's collector of cycles from going through many new objects again and again.

    It finds no cycles among the rules of a file or the rows of a site, which all stay. To look for
    them takes nearly half of the time that a large file needs.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
