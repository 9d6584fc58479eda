"""Readers of crawl logs: every format becomes a stream of `Observation`.

And what the content of a page is: its blocks, its names, and what of it changes by itself.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scrapy_urlnorm.logs.archives import ARCHIVES
    from scrapy_urlnorm.logs.line_formats import FORMATS
    from scrapy_urlnorm.logs.observation import Observation
    from scrapy_urlnorm.logs.reader import LogReader, read_log

__all__ = ["ARCHIVES", "FORMATS", "LogReader", "Observation", "read_log"]


def __getattr__(name: str) -> Any:
    """Import on demand: a crawl that writes no log needs no reader."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(".reader", __name__), name)
