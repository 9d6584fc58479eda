"""Python's collector of cycles, switched off where it would only cost time."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def no_collection() -> Iterator[None]:
    """Keep the collector from going through many new objects, which all stay, again and again.

    It finds no cycles among the rules of a file or the rows of a site. To look for them takes
    nearly half of the time that a large file needs.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
