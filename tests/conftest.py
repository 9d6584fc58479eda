"""Fixtures that all tests share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from loopback import stop_worker

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session", autouse=True)
def _crawling_process() -> Iterator[None]:
    """The process that runs the crawls of ``loopback.crawl`` ends with the session."""
    yield
    stop_worker()
