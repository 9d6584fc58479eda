"""Works on parcels in several processes, and gives the answers in the order of the parcels."""

from __future__ import annotations

import os
import signal
from collections import deque
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager, suppress
from itertools import chain, islice
from multiprocessing import Pipe, Process
from typing import TYPE_CHECKING, Any, TypeVar

from scrapy_urlnorm.cli.verb import flush

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Sized
    from multiprocessing.connection import Connection

_Item = TypeVar("_Item", bound="Sized")
_Parcel = TypeVar("_Parcel")
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


def add_processes(parser: argparse.ArgumentParser) -> None:
    """Offer the number of processes."""
    parser.add_argument(
        "--processes",
        type=int,
        metavar="N",
        help="work on large files in so many processes (default: cores)",
    )


def mapped(
    function: Callable[[_Parcel], _Answer], parcels: Iterable[_Parcel], processes: int | None
) -> Iterator[tuple[_Parcel, _Answer]]:
    """Yield each parcel of work with what *function* makes of it, in order.

    *function* goes to each process once, so it has to be one that can be pickled. A few parcels are
    under way at a time, so memory does not grow with their number. *processes* is the number of
    cores by default. With one process, each parcel is answered before the next one is read; a
    single parcel is not worth a second process. An error of *parcels* is raised once those before
    it are answered.
    """
    workers = processes or cores()
    errors: list[Exception] = []
    rest = _until_error(parcels, errors)
    first = list(islice(rest, 2)) if workers > 1 else []
    if len(first) < 2:
        for parcel in chain(first, rest):
            yield parcel, function(parcel)
    else:
        yield from _in_workers(function, chain(first, rest), workers)
    for error in errors:
        raise error


def _until_error(parcels: Iterable[_Parcel], errors: list[Exception]) -> Iterator[_Parcel]:
    try:
        yield from parcels
    except Exception as error:  # noqa: BLE001 - it is raised again
        errors.append(error)


def _in_workers(
    function: Callable[[_Parcel], _Answer], parcels: Iterator[_Parcel], count: int
) -> Iterator[tuple[_Parcel, _Answer]]:
    """Give each of *count* processes one parcel at a time, in turns.

    Each process has a pipe of its own. In one that several share, a process that is killed while it
    writes leaves half a message, for whose end the reader waits forever.
    """
    busy: deque[tuple[_Worker, _Parcel]] = deque()
    workers: list[_Worker] = []
    try:
        for parcel in islice(parcels, count):
            workers.append(_Worker(function))
            workers[-1].send(parcel)
            busy.append((workers[-1], parcel))
        while busy:
            worker, parcel = busy.popleft()
            following = list(islice(parcels, 1))
            answer = worker.receive()
            for new in following:  # the worker is at work again while the answer is used
                worker.send(new)
                busy.append((worker, new))
            yield parcel, answer
    finally:
        for worker in workers:
            worker.pipe.close()
        for worker in workers:
            worker.process.join()


class _Worker:
    """A process that answers parcels, one after the other."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.pipe, other = Pipe()
        self.process = Process(target=_work, args=(function, other, self.pipe), daemon=True)
        self.process.start()
        other.close()  # so that this end sees when the process has ended

    def send(self, parcel: object) -> None:
        with _its_end():
            self.pipe.send(parcel)

    def receive(self) -> Any:
        """Return the answer, or raise the error that came in its place."""
        with _its_end():
            answer, error = self.pipe.recv()
        if error is not None:
            raise error
        return answer


@contextmanager
def _its_end() -> Iterator[None]:
    """Raise BrokenExecutor when a process has ended that has not done its work."""
    try:
        yield
    except (EOFError, OSError):  # the latter in the middle of a message
        raise BrokenExecutor("a process has ended before its work was done") from None


def _work(function: Callable[[Any], Any], pipe: Connection, others_end: Connection) -> None:
    """Answer parcels until nobody has any more. Ctrl-C is for the process that has them."""
    others_end.close()  # a copy, with which this process would not see that the other one ends
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with suppress(EOFError, OSError):  # the other end is gone, perhaps in the middle of a message
        while True:
            parcel = pipe.recv()
            answer: tuple[Any, Exception | None]
            try:
                answer = function(parcel), None
            except Exception as error:  # noqa: BLE001 - it is raised where the answer is wanted
                answer = None, error
            pipe.send(answer)


def mapped_lines(
    function: Callable[[list[_Item]], _Answer],
    lines: Iterable[_Item],
    processes: int | None,
    *,
    streams: bool,
) -> Iterator[tuple[list[_Item], _Answer]]:
    """Yield parcels of *lines*, many lines in each item, with what *function* makes of them.

    With *streams*, lines come out of a pipe. They are answered at once, and not when there are
    enough of them, and what is written for them meanwhile goes out.
    """
    parcels = in_parcels(lines, 1 if streams else PARCEL)
    for parcel, answer in mapped(function, parcels, 1 if streams else processes):
        yield parcel, answer
        if streams:
            flush()


def in_parcels(items: Iterable[_Item], least: int) -> Iterator[list[_Item]]:
    """Yield lists of *items* whose lengths add up to *least*, as soon as they do.

    The last list may be shorter. So may the one before an error: what came first is answered first.
    """
    parcel: list[_Item] = []
    size = 0
    try:
        for item in items:
            parcel.append(item)
            size += len(item)
            if size >= least:
                yield parcel
                parcel, size = [], 0
    except Exception:
        if parcel:
            yield parcel
        raise
    if parcel:
        yield parcel
