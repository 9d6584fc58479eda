"""Works on many items in several processes, and gives the answers in the order of the items."""

from __future__ import annotations

import os
import signal
from collections import deque
from concurrent.futures import ProcessPoolExecutor
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator

_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")

#: Items that go to a process at once. Fewer than that are not worth a second process.
CHUNK = 4_000


def cores() -> int:
    """Return how many processor cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        return os.cpu_count() or 1


def add_processes(parser: argparse.ArgumentParser) -> None:
    """Offer the number of processes."""
    parser.add_argument(
        "--processes",
        type=int,
        metavar="N",
        help="work on large files in so many processes (default: cores)",
    )


def mapped(
    function: Callable[[_Item], _Answer], items: Iterable[_Item], processes: int | None
) -> Iterator[tuple[_Item, _Answer]]:
    """Yield each item with what *function* makes of it, in order.

    *function* goes to each process once, so it has to be one that can be pickled. A few chunks are
    under way at a time, so memory does not grow with the items. *processes* is the number of cores
    by default.
    """
    rest = iter(items)
    several = (processes or cores()) > 1
    first = list(islice(rest, CHUNK)) if several else []
    if len(first) < CHUNK:  # with one process, each item is answered before the next one is read
        for item in chain(first, rest):
            yield item, function(item)
        return
    chunks = chain([first], iter(lambda: list(islice(rest, CHUNK)), []))
    workers = processes or cores()
    under_way: deque[tuple[list[_Item], Any]] = deque()
    with ProcessPoolExecutor(workers, initializer=_begin, initargs=(function,)) as pool:
        try:
            for chunk in chunks:
                under_way.append((chunk, pool.submit(_work, chunk)))
                if len(under_way) > 2 * workers:
                    done, answers = under_way.popleft()
                    yield from zip(done, answers.result(), strict=True)
            for done, answers in under_way:
                yield from zip(done, answers.result(), strict=True)
        finally:  # interrupted, or nobody reads the output any more
            for _, answers in under_way:
                answers.cancel()


_function: Callable[[Any], Any]


def _begin(function: Callable[[Any], Any]) -> None:
    """Begin the work of a process. Ctrl-C is for the one that started it, which then ends this."""
    global _function
    _function = function
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _work(chunk: list[Any]) -> list[Any]:
    return [_function(item) for item in chunk]
