"""A line on standard error that says what a long verb is doing, if that is a terminal."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

_EVERY = 0.5  # seconds
_CLEAR = b"\r\x1b[K"


class Status:
    """A context that shows ``doing()`` twice a second, with the seconds since it began.

    The signal of a timer writes the line, so that it is updated whatever the verb is busy with.
    Without such a timer (Windows) or without a terminal nothing is shown.
    """

    def __init__(self, doing: Callable[[], str]) -> None:
        self._doing = doing
        self._on = (
            sys.stderr.isatty()
            and hasattr(signal, "setitimer")
            and threading.current_thread() is threading.main_thread()
        )

    def __enter__(self) -> None:
        if self._on:
            self._begin = time.monotonic()
            self._before = signal.signal(signal.SIGALRM, self._show)
            signal.setitimer(signal.ITIMER_REAL, _EVERY, _EVERY)

    def __exit__(self, *_: object) -> None:
        if self._on:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, self._before)
            os.write(sys.stderr.fileno(), _CLEAR)

    def _show(self, number: int, frame: FrameType | None) -> None:
        text = f"{self._doing()}, {time.monotonic() - self._begin:.0f} s"
        # Not through the stream, which may be in the middle of a write when the signal comes.
        os.write(sys.stderr.fileno(), _CLEAR + text.encode())
