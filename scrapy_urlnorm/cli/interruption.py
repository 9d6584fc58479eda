"""Ends long work tidily, whether Ctrl-C ends it or another process."""

from __future__ import annotations

import multiprocessing
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType


@contextmanager
def tidy() -> Iterator[None]:
    """Let each signal that asks to end raise KeyboardInterrupt, as Ctrl-C does.

    So files for the time of the work go, and what is done can be kept. The processes that work on
    sites end first, as a pool would wait for them. A hangup that the caller ignores (nohup) stays
    ignored.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        for child in multiprocessing.active_children():
            child.terminate()
        raise KeyboardInterrupt

    hangup = getattr(signal, "SIGHUP", signal.SIGTERM)  # Windows has none
    if signal.getsignal(hangup) == signal.SIG_IGN:
        hangup = signal.SIGTERM
    before = {each: signal.signal(each, stop) for each in {signal.SIGINT, signal.SIGTERM, hangup}}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
