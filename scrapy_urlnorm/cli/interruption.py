"""Ends a verb tidily, whether Ctrl-C ends it, a closed terminal, or another process."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The signals that ask to end, each with what does it where nobody handles it. Windows has no
#: SIGHUP.
_SIGNALS = {
    number: handler
    for name, handler in (
        ("SIGINT", signal.default_int_handler),
        ("SIGTERM", signal.SIG_DFL),
        ("SIGHUP", signal.SIG_DFL),
    )
    if (number := getattr(signal, name, None)) is not None
}


class Ended(KeyboardInterrupt):
    """A signal ended the work, with all that the work has begun: as Ctrl-C, whichever it was."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def exit_code(error: KeyboardInterrupt) -> int:
    """Return what a shell says of a program that a signal ended: 130 for Ctrl-C, 143 for SIGTERM."""
    return 128 + getattr(error, "number", signal.SIGINT)


def word_for(error: KeyboardInterrupt) -> str:
    """Return what happened to the work, in a word."""
    return "interrupted" if exit_code(error) == 128 + signal.SIGINT else "terminated"


@contextmanager
def ending_tidily() -> Iterator[None]:
    """Raise `Ended` in the main thread when a signal asks to end, unless somebody handles it.

    So files for the time of the work go, and what is done can be kept. The processes that do part
    of the work end first, as a pool would wait for them. A hangup that the caller ignores (nohup)
    stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    here = os.getpid()

    def handle(number: int, _: object) -> NoReturn:
        if os.getpid() != here:  # a process that does part of the work: its parent has the word
            os._exit(128 + number)
        if "multiprocessing.process" in sys.modules:  # few runs need it
            from multiprocessing import active_children

            for child in active_children():
                child.terminate()
        raise Ended(number)

    free = [number for number, usual in _SIGNALS.items() if signal.getsignal(number) is usual]
    for number in free:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number in free:
            if signal.getsignal(number) is handle:
                signal.signal(number, _SIGNALS[number])
