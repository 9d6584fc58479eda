"""Works on many lines in several processes, and gives the answers in the order of the lines."""

from __future__ import annotations

import os
import signal
from collections import deque
from concurrent.futures import BrokenExecutor
from contextlib import suppress
from itertools import chain, islice
from multiprocessing import Pipe, Process
from typing import TYPE_CHECKING, Any, TypeVar

from scrapy_urlnorm.cli.verb import flush

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sized
    from multiprocessing.connection import Connection

_Item = TypeVar("_Item", bound="Sized")
_Answer = TypeVar("_Answer")

#: The length of what goes to a process at once: bytes or characters of some thousand URLs. Less
#: than that is not worth a second process.
PARCEL = 256 * 1024


def cores() -> int:
    """Return how many processor cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        return os.cpu_count() or 1


def mapped(
    function: Callable[[list[_Item]], _Answer],
    items: Iterable[_Item],
    processes: int | None,
    *,
    least: int = PARCEL,
    streams: bool = False,
) -> Iterator[tuple[list[_Item], _Answer]]:
    """Yield parcels of *items* with what *function* makes of each, in order.

    The lengths of the items of a parcel add up to *least*. *function* has to be one that can be
    pickled. A few parcels are under way at a time, so memory does not grow with their number.
    *processes* is the number of cores by default; a single parcel is not worth a second process.
    An error of *items* is raised once what came before it is answered.

    With *streams*, items come out of a pipe. Each is answered before the next one is read, and what
    is written for it meanwhile goes out.
    """
    workers = 1 if streams else processes or cores()
    errors: list[Exception] = []
    parcels = _parcels(items, 1 if streams else least, errors)
    first = list(islice(parcels, 2)) if workers > 1 else []
    parcels = chain(first, parcels)
    if len(first) > 1:
        yield from _in_workers(function, parcels, workers)
    for parcel in parcels:
        yield parcel, function(parcel)
        if streams:
            flush()
    for error in errors:
        raise error


def _parcels(items: Iterable[_Item], least: int, errors: list[Exception]) -> Iterator[list[_Item]]:
    parcel: list[_Item] = []
    size = 0
    try:
        for item in items:
            parcel.append(item)
            size += len(item)
            if size >= least:
                yield parcel
                parcel, size = [], 0
    except Exception as error:  # noqa: BLE001 - it is raised when the others are answered
        errors.append(error)
    if parcel:
        yield parcel


def _in_workers(
    function: Callable[[list[_Item]], _Answer], parcels: Iterator[list[_Item]], count: int
) -> Iterator[tuple[list[_Item], _Answer]]:
    """Give each of *count* processes one parcel at a time, in turns.

    Each process has a pipe of its own. In one that several share, as pools have it, a process that
    is killed while it writes leaves half a message, for whose end the reader waits forever.
    """
    busy: deque[tuple[Connection, list[_Item]]] = deque()
    workers: list[tuple[Process, Connection]] = []
    try:
        for parcel in islice(parcels, count):
            pipe, other = Pipe()
            worker = Process(target=_work, args=(function, parcel, other, pipe), daemon=True)
            worker.start()
            other.close()  # so that this end sees when the process has ended
            workers.append((worker, pipe))
            busy.append((pipe, parcel))
        while busy:
            pipe, parcel = busy.popleft()
            following = next(parcels, None)
            try:
                answer, error = pipe.recv()
                if following is not None and error is None:
                    pipe.send(following)  # it is at work again while the answer is used
                    busy.append((pipe, following))
            except (EOFError, OSError):  # the latter in the middle of a message
                raise BrokenExecutor("a process has ended before its work was done") from None
            if error is not None:
                raise error
            yield parcel, answer
    finally:
        for _, pipe in workers:
            pipe.close()
        for worker, _ in workers:
            worker.join()


def _work(
    function: Callable[[Any], Any], parcel: Any, pipe: Connection, others_end: Connection
) -> None:
    """Answer parcels until nobody has any more. Ctrl-C is for the process that has them."""
    others_end.close()  # a copy, with which this process would not see that the other one ends
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with suppress(EOFError, OSError):  # the other end is gone, perhaps in the middle of a message
        while True:
            answer: tuple[Any, Exception | None]
            try:
                answer = function(parcel), None
            except Exception as error:  # noqa: BLE001 - it is raised where the answer is wanted
                answer = None, error
            pipe.send(answer)
            parcel = pipe.recv()
