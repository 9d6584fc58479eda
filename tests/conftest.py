"""Fixtures that all tests share."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest
from loopback import stop_worker

if TYPE_CHECKING:
    from collections.abc import Iterator

# A shell that starts the tests in the background has Ctrl-C ignored, in all that they start too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def _crawling_process() -> Iterator[None]:
    """The process that runs the crawls of ``loopback.crawl`` ends with the session."""
    yield
    stop_worker()
